"""The tables of the study: each is a heading and rows of text, made from the result files."""

from statistics import mean
from typing import Callable, Dict, List, Tuple

from study.by_length import words_label
from study.plan import BEFORE, NAMES, SYSTEMS, TEST, TESTS

Table = Tuple[List[str], List[List[str]]]
Results = Dict[str, dict]
PAIRS = {"en-de": "German", "en-fr": "French"}
MAIN = ("transformer-3", "resmlp-3", "toeplitz-3", "conv-3")  # of Table 5


def system_name(label: str) -> str:
    """What pages and pictures call the system of a run."""
    return NAMES.get(label, label)


def option(result: dict, name: str, default: str = "") -> str:
    """The last value of an option of fairseq-train, as argparse takes it."""
    options = result["recipe"]["train_options"]
    values = [b for a, b in zip(options, options[1:]) if a == name]
    return values[-1] if values else default


def of_table(results: Results, table: str) -> List[dict]:
    return [result for result in results.values() if result.get("table") == table]


def of_system(results: Results, label: str, target: str) -> List[dict]:
    """The runs of Table 5 of a system and a language pair, by seed."""
    return [
        r
        for r in of_table(results, "table5")
        if (r["label"], r["recipe"]["target"]) == (label, target)
    ]


def rows_of(results: Results, name: str) -> Results:
    """What a file that is no row's has of each row; nothing without the file."""
    return results.get(name, {}).get("rows", {})


def against_transformer(results: Results, runs: List[dict]) -> List[str]:
    """:func:`difference` of the runs that were compared."""
    compared = rows_of(results, "compare")
    return [difference(compared[r["row"]]) for r in runs if r["row"] in compared]


def optimizer(result: dict) -> str:
    return f"{option(result, '--optimizer')}, {option(result, '--lr')}"


def spread(values: List[float], digits: int = 1) -> str:
    """The mean and, of more than one, the range."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{mean(values):.{digits}f} ({min(values):.{digits}f} .. {max(values):.{digits}f})"


def nll_at(result: dict, epoch: int) -> str:
    """Validation nll after an epoch, or a dash where training ended before it."""
    ends = [nll for _, nll in result["valid_curve"]]
    # the last point is the end of training, whole epoch or not
    return f"{ends[epoch - 1]:.2f}" if epoch < len(ends) else "-"


def difference(test: dict) -> str:
    """BLEU against the other system, and how often chance alone makes as much."""
    bleu = test["bleu"]
    p = "< 0.001" if bleu["p_value"] < 0.001 else f"= {bleu['p_value']:.3f}"
    return f"{bleu['system'] - bleu['baseline']:+.1f} (p {p})"


def trials(results: Results) -> Table:
    rows = of_table(results, "trials")
    labels = list(dict.fromkeys(r["label"] for r in rows))
    lines = []
    for label in labels:
        tried = [r for r in rows if r["label"] == label]
        best = min(tried, key=lambda r: r["valid_nll"]["last"])
        cells = [
            f"{'**' if r is best else ''}{optimizer(r)}: {r['valid_nll']['last']:.2f}"
            f"{'**' if r is best else ''}"
            for r in tried
        ]
        minutes = mean(r["cost"]["cpu_minutes"] for r in tried)
        updates = str(best["recipe"]["updates"])
        lines.append([system_name(label), *cells, updates, f"{minutes:.1f}"])
    head = ["system", "trial 1", "trial 2", "trial 3", "updates", "CPU minutes"]
    return head, lines


# what the papers of the original table report, by pair, and what the column is called
TOKENIZED = {
    "en-de": ("compound_split_bleu", "tokenized BLEU, compounds split"),
    "en-fr": ("tokenized_bleu", "tokenized BLEU"),
}


def table5(results: Results, pair: str) -> Table:
    speeds = rows_of(results, "speed")
    tokenized, heading = TOKENIZED[pair]
    lines = []
    for label in SYSTEMS:
        runs = of_system(results, label, pair.removeprefix("en-"))
        if not runs:
            continue
        scores = [r["scores"][TEST] for r in runs]
        speed = speeds.get(label)
        lines.append(
            [
                system_name(label),
                f"{runs[0]['parameters'] / 1e6:.2f}",
                str(runs[0]["recipe"]["updates"]),
                spread([r["cost"]["cpu_minutes"] for r in runs], 0),
                ", ".join(str(r["recipe"]["seed"]) for r in runs),
                spread([r["valid_nll"]["last"] for r in runs], 2),
                spread([s["bleu"] for s in scores]),
                "; ".join(against_transformer(results, runs)) or "-",
                spread([s["chrf"] for s in scores]),
                spread([s[tokenized] for s in scores]),
                f"{speed['relative']['median']:.2f}" if speed else "-",
            ]
        )
    head = ["system", "parameters, M", "updates", "CPU minutes", "seeds", "validation nll"]
    head += ["sacreBLEU", "against the Transformer, by seed", "chrF", heading]
    return [*head, "decoding, times as fast as the Transformer"], lines


def gain(test: dict) -> str:
    """BLEU against the other system; a star where chance alone seldom makes as much."""
    bleu = test["bleu"]
    return f"{bleu['system'] - bleu['baseline']:+.1f}{'*' * (bleu['p_value'] < 0.05)}"


def summary(results: Results) -> Table:
    """The main rows of Table 5: mean sacreBLEU and, by seed, the gain over the Transformer."""
    compared = rows_of(results, "compare")
    lines = []
    for label in MAIN:
        line = [system_name(label)]
        for pair in PAIRS:
            runs = of_system(results, label, pair.removeprefix("en-"))
            gains = ", ".join(gain(compared[r["row"]]) for r in runs if r["row"] in compared)
            bleu = f"{mean(r['scores'][TEST]['bleu'] for r in runs):.1f}" if runs else "-"
            line.append(bleu + f" ({gains})" * bool(gains))
        lines.append(line)
    return ["3 + 3 layers", *(f"English-{language}" for language in PAIRS.values())], lines


def gated(results: Results) -> Table:
    """The gate beside the A that it multiplies, and beside the convolutions."""
    repeating, lines = rows_of(results, "repetitions"), []
    for label in ("toeplitz-3", "conv-3", "gated-3"):
        runs = of_system(results, label, "de") or of_table(results, label.removesuffix("-3"))
        if not runs:
            continue
        shares = [100 * repeating[r["row"]]["repeats"] for r in runs if r["row"] in repeating]
        cells = [f"{runs[0]['parameters'] / 1e6:.2f}", f"{runs[0]['recipe']['updates']:,}"]
        # a training that was killed has lost what it cost until then: its file says from_update
        whole = [r["cost"] for r in runs if "from_update" not in r["cost"]]
        cells += [spread([cost["cpu_minutes"] for cost in whole], 0)]
        cells += [", ".join(str(r["recipe"]["seed"]) for r in runs)]
        cells += [spread([r["valid_nll"]["last"] for r in runs], 2)]
        for name in ("valid", *TESTS.values()):
            cells += [spread([r["scores"][name]["bleu"] for r in runs])]
        cells += [spread([r["scores"][TEST]["chrf"] for r in runs])]
        lines.append([system_name(label), *cells, spread(shares) if shares else "-"])
    head = ["system", "parameters, M", "updates", "CPU minutes", "seeds", "validation nll"]
    head += ["sacreBLEU, validation", "flickr 2016", "flickr 2017", "coco 2017"]
    return [*head, "chrF, flickr 2016", "repeating, %"], lines


def other_texts(results: Results) -> Table:
    """What a system learned from another training text, beside the original one."""
    compared = rows_of(results, "compare")
    lines = []
    repeating = rows_of(results, "repetitions")
    for r in [r for table in ("distilled", "concatenated") for r in of_table(results, table)]:
        name = r["row"].replace(r["table"], "table5", 1)
        bleu = r["scores"][TEST]["bleu"]
        nll = f"{r['valid_nll']['last']:.2f}"
        original = results.get(name, {"scores": {TEST: {"bleu": float("nan")}}})
        without = f"{original['scores'][TEST]['bleu']:.1f}"
        test = difference(compared[r["row"]]) if r["row"] in compared else "-"
        words = percent(repeating[r["row"]]["words"]) if r["row"] in repeating else "-"
        name = system_name(r["label"])
        lines.append([r["table"], name, nll, words, f"{bleu:.1f}", without, test])
    head = ["training text", "system", "validation nll", "words, %", "sacreBLEU"]
    return [*head, "on the original text", "difference"], lines


def higher_rate(results: Results) -> Table:
    """The Transformer above its trials' rates, beside Table 5's."""
    compared, lines = rows_of(results, "compare"), []
    for r in of_table(results, "higher-rate"):
        chosen = results.get(r["row"].replace(r["table"], "table5", 1))
        for run in filter(None, (chosen, r)):
            cells = [option(run, "--lr"), str(run["recipe"]["seed"])]
            cells += [f"{run['valid_nll']['last']:.2f}", f"{run['scores'][TEST]['bleu']:.1f}"]
            test = difference(compared[r["row"]]) if run is r and r["row"] in compared else "-"
            lines.append([system_name(run["label"]), *cells, test])
    head = ["system", "lr", "seed", "validation nll", "sacreBLEU", "difference"]
    return head, lines


def changes(results: Results, rows: List[dict]) -> Table:
    """One change of a model a row; the first has none."""
    repeating = rows_of(results, "repetitions")
    lines = []
    for r in rows:
        ends = [nll_at(r, epoch) for epoch in (1, 2, 3, 4)]
        minutes = f"{r['cost']['cpu_minutes']:.1f}"
        scores = [f"{r['scores'][split]['bleu']:.1f}" for split in ("valid", TEST)]
        last = f"{r['valid_nll']['last']:.3f}"
        counted = repeating.get(r["row"])
        share, words = (percent(counted[name]) if counted else "-" for name in ("repeats", "words"))
        size = f"{r['parameters'] / 1e6:.2f}"
        lines.append([r["label"], size, minutes, *ends, last, *scores, share, words])
    head = ["change", "parameters, M", "CPU minutes", "nll, epoch 1", "2", "3", "4", "end"]
    head += ["BLEU, validation", "BLEU, test 2016", "repeating, %", "words, %"]
    return head, lines


def ablations(results: Results) -> Table:
    return changes(results, of_table(results, "ablations"))


def further(results: Results) -> Table:
    rows = of_table(results, "further")
    return changes(results, [results[BEFORE], *rows] if rows and BEFORE in results else rows)


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def repetitions(results: Results) -> Table:
    """Translations that repeat, by system and pair, with and without --no-repeat-ngram-size."""
    made = results.get("repetitions", {"rows": {}, "references": {}})
    lines = []
    for target, share in made["references"].items():
        lines.append([f"en-{target}", "(the references)", percent(share), *["-"] * 5])
        for label in SYSTEMS:
            runs = of_system(results, label, target)
            plain = [made["rows"].get(r["row"], {}) for r in runs]
            if not runs or not all("forbidden" in row for row in plain):
                continue
            without = [row["forbidden"] for row in plain]
            against = [difference(row["against"]) for row in without if "against" in row]
            lines.append(
                [
                    f"en-{target}",
                    system_name(label),
                    spread([100 * row["repeats"] for row in plain]),
                    spread([r["scores"][TEST]["bleu"] for r in runs]),
                    ", ".join(str(row["size"]) for row in without),
                    spread([100 * row["repeats"] for row in without]),
                    spread([row["bleu"] for row in without]),
                    "; ".join(against) or "-",
                ]
            )
    head = ["pair", "system", "repeating, %", "sacreBLEU", "n, by seed", "repeating, %"]
    return [*head, "sacreBLEU", "against the Transformer, by seed"], lines


def by_length(results: Results, pair: str) -> Dict[str, List[dict]]:
    """Each system's buckets of sentences, their BLEU the mean over its seeds."""
    found = {}
    for label in SYSTEMS:
        runs = of_system(results, label, pair.removeprefix("en-"))
        scores = [rows_of(results, "lengths").get(r["row"]) for r in runs]
        if scores and all(scores):
            buckets = results["lengths"]["buckets"]
            found[label] = [
                {**bucket, "bleu": mean(bleus) if bucket["sentences"] else None}
                for bucket, bleus in zip(buckets, zip(*scores))
            ]
    return found


def lengths(results: Results) -> Table:
    """BLEU of short, middling and long sentences."""
    lines, head = [], []
    for pair in ("en-de", "en-fr"):
        for label, buckets in by_length(results, pair).items():
            bleus = (f"{b['bleu']:.1f}" if b["sentences"] else "-" for b in buckets)
            lines.append([pair, system_name(label), *bleus])
            head = [f"{words_label(bucket)} ({bucket['sentences']})" for bucket in buckets]
    return ["pair", "system", *head], lines


def text_of(table: str) -> str:
    """The training text of the runs of a table."""
    return "original" if table == "table5" else table


def long_sentences(results: Results) -> Table:
    """BLEU of 1 to 4 sentences in one line, as the model is and with its A extended."""
    lines = []
    for name, row in rows_of(results, "long_sentences").items():
        text, _, system, _ = name.split(".")
        for how, scores in row.items():
            a = how if len(row) > 1 else "-"
            bleus = (f"{bleu:.1f}" for bleu in scores)
            lines.append([text_of(text), system_name(system), a, *bleus])
    words = results.get("long_sentences", {}).get("words", [])
    joined = [f"{n} ({count:.0f} words)" for n, count in enumerate(words, 1)]
    return ["training text", "system", "A", *joined], lines


def architecture(result: dict) -> str:
    """The name, and what is not as the paper has it."""
    name = f"`{result['recipe']['arch']}`"
    kind, heads = option(result, "--token-mixing"), option(result, "--token-mixing-heads", "1")
    if kind or heads != "1":
        name += f", {kind or 'linear'}, {heads} heads"
    scale = option(result, "--layerscale-init")
    return f"{name}, LayerScale {scale}" if scale else name


def bleu_and_chrf(scores: dict) -> str:
    return f"{scores['bleu']:.1f} / {scores['chrf']:.1f}"


def larger(results: Results) -> Table:
    """The longer runs of larger models, with sacreBLEU / chrF for each test set."""
    products = {"highest": "float32", "medium": "bfloat16"}
    lines = []
    for r in of_table(results, "larger"):
        recipe = r["recipe"]
        layers, channels = option(r, "--encoder-layers"), option(r, "--encoder-embed-dim")
        lines.append(
            [
                f"{recipe['source']}-{recipe['target']}",
                architecture(r),
                f"{layers} + {layers}, {channels}",
                ", ".join(option(r, f"--{name}") for name in ("optimizer", "lr", "dropout")),
                products[recipe.get("matmul_precision", "highest")],
                str(recipe["seed"]),
                f"{r['parameters'] / 1e6:.2f} M",
                f"{recipe['updates']:,}",
                f"{r['cost']['cpu_minutes']:.0f}",
                f"{r['valid_nll']['last']:.3f}",
                *(bleu_and_chrf(r["scores"][test]) for test in TESTS.values()),
            ]
        )
    head = ["pair", "architecture", "layers, channels", "optimizer, lr, dropout", "products"]
    head += ["seed", "parameters", "updates", "CPU minutes", "validation nll"]
    return [*head, "flickr 2016", "flickr 2017", "coco 2017"], lines


def larger_scores(results: Results) -> str:
    """The convolutions with 256 channels, and the Transformers beside them, the best first."""
    transformers = [r for name, r in results.items() if name.startswith("en-de.small.transformer")]
    transformers.sort(key=lambda r: -r["scores"][TEST]["bleu"])
    three = results["en-de.small.conv.1"], *transformers
    bleu = [f"{r['scores'][TEST]['bleu']:.1f}" for r in three]
    minutes = [f"{r['cost']['cpu_minutes']:.0f}" for r in three]
    return (
        f"{bleu[0]} against {bleu[1]} of a Transformer in {minutes[1]} minutes, {bleu[2]} of "
        f"another in {minutes[2]}"
    )


def layerscale(results: Results) -> str:
    """The ablations in which the Toeplitz matrices and the convolutions begin LayerScale at 1."""
    both = [results[row]["scores"] for row in ("further.05", "ablation.20")]
    test, valid = ([f"{scores[name]['bleu']:.1f}" for scores in both] for name in (TEST, "valid"))
    return (
        f"the Toeplitz model with 1 has sacreBLEU {test[0]}, the convolutions have {test[1]}. On "
        f"the validation set they have {valid[0]} and {valid[1]}"
    )


TUTORIAL = {
    "conv.toml": "small.conv",
    "transformer.toml": "small.transformer-dropout-0.3",
    "tiny.toml": "tiny.resmlp",
}


def tutorial(results: Results) -> Table:
    """What the recipes of the tutorial gave."""
    lines = []
    for recipe, name in TUTORIAL.items():
        if f"en-de.{name}.1" not in results:
            continue
        r = results[f"en-de.{name}.1"]
        cost = [f"{r['parameters'] / 1e6:.2f} M", f"{r['cost']['cpu_minutes']:.0f}"]
        lines.append([f"[{recipe}]({recipe})", *cost, bleu_and_chrf(r["scores"][TEST])])
    return ["recipe", "parameters", "CPU minutes", "sacreBLEU / chrF"], lines


# by the names of their marks
TABLES: Dict[str, Callable[[Results], Table]] = {
    "trials": trials,
    "table5 en-de": lambda results: table5(results, "en-de"),
    "table5 en-fr": lambda results: table5(results, "en-fr"),
    "higher rate": higher_rate,
    "gated": gated,
    "ablations": ablations,
    "further": further,
    "repetitions": repetitions,
    "other texts": other_texts,
    "lengths": lengths,
    "long sentences": long_sentences,
    "larger": larger,
}
# in short, for other pages
FRONT: Dict[str, Callable[[Results], Table]] = {
    "table5 summary": summary,
    "multi30k": tutorial,
}
SENTENCES: Dict[str, Callable[[Results], str]] = {
    "larger scores": larger_scores,
    "layerscale": layerscale,
}
