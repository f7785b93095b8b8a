#!/usr/bin/env python3
"""Every table, number and picture in the pages, rebuilt from docs/results/results.jsonl.

    python scripts/tables.py            # write the pages and the pictures
    python scripts/tables.py --check    # change nothing, name the pages that are not up to date

A mark is <!-- NAME --> before the text and <!-- /NAME --> behind it.
"""

import argparse
import re
import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean

from pictures import BOTH, draw, long_trainings
from results import ROOT, load, number, spread

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError

# by pair: test sets in the domains of the training text, and out of them
TESTS = {
    "en-de": (["tatoeba", "suttacentral", "ossdocs"], ["newstest2014"]),
    "en-fr": (["tatoeba", "laws", "docs"], ["newstest2014"]),
}
SYSTEMS = {
    "transformer": "Transformer",
    "resmlp": "ResMLP, the paper's A",
    "toeplitz": "ResMLP, Toeplitz",
    "conv": "ResMLP, convolutions",
    "gated": "ResMLP, gated",
}
ABLATIONS = [
    *("the paper", "A: none", "A: Toeplitz", "A: convolution of 3"),
    "A: convolution of 3, positional embeddings",
    *("positional embeddings", "LayerNorm for Aff", "LayerScale 1"),
]
THREE = {"transformer": "Transformer", "gated": "gated", "toeplitz": "Toeplitz"}
UPDATES = 3000  # of the trainings with two seeds
MACHINES = {"amd": "AMD EPYC", "intel": "Intel Xeon"}
Results = dict[str, dict]


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in [head, *rows]]
    return "\n".join(["", lines[0], "|" + "---|" * len(head), *lines[1:], ""])


# --------------------------------------------------------------- quality on mixed text


def in_domain(run: dict) -> float:
    return mean(run["scores"][test]["bleu"] for test in TESTS[run["pair"]][0])


def news(run: dict) -> float:
    return run["scores"]["newstest2014"]["bleu"]


def seeds(results: Results, pair: str) -> dict[str, list[dict]]:
    """The trainings of both seeds with Muon, by system."""
    return {
        name: [results[f"{pair}/{name}, bytes/{seed}/{UPDATES}"]["numbers"] for seed in (1, 2)]
        for name in THREE
    }


def mean_score(some: list[dict], test: str, of: str) -> float:
    return mean(n["scores"][test][of] for n in some)


def gain(ours: list[dict], theirs: list[dict], test: str) -> str:
    """In mean BLEU, with a star if every run was tested against the Transformer and p < 0.05."""
    difference = mean_score(ours, test, "bleu") - mean_score(theirs, test, "bleu")
    tests = [n["against"].get("transformer", {}).get(test, {"p": 1}) for n in ours]
    significant = all(of["p"] < 0.05 for of in tests)
    return f"{round(difference, 1) + 0:+.1f}{'*' * significant}"  # no -0.0


def by_test(systems: dict[str, list[dict]], pair: str) -> list[list[str]]:
    """BLEU of each run, and the means of a system's runs for the rest."""
    theirs, *ours = systems.values()
    rows = []
    for test in sum(TESTS[pair], []):
        bleu = [
            ", ".join(f"{n['scores'][test]['bleu']:.1f}" for n in some) for some in systems.values()
        ]
        gains = " / ".join(gain(some, theirs, test) for some in ours)
        chrf = " / ".join(f"{mean_score(some, test, 'chrf'):.1f}" for some in systems.values())
        repeats = " / ".join(
            f"{100 * mean_score(some, test, 'repeats'):.1f}%" for some in systems.values()
        )
        rows.append([test, *bleu, gains, chrf, repeats])
    return rows


BY_TEST = ["BLEU", *THREE.values(), "gains", "chrF", "repeats"]


def quality(results: Results, pair: str) -> str:
    return markdown(BY_TEST, by_test(seeds(results, pair), pair))


def repeat_less(results: Results, system: str) -> str:
    """Test sets of both pairs on which it repeats itself no more than the Transformer."""
    found = []
    for pair, tests in TESTS.items():
        systems = seeds(results, pair)
        for test in sum(tests, []):
            theirs, ours = (
                mean_score(systems[s], test, "repeats") for s in ("transformer", system)
            )
            found.append(ours <= theirs)
    return f"{sum(found)} of {len(found)}"


def front(results: Results) -> str:
    """Means over the seeds, a row for each system."""
    rows: dict[str, list[str]] = {name: [] for name in THREE}
    for pair, (inside, outside) in TESTS.items():
        for name, some in seeds(results, pair).items():
            both = [mean(mean_score(some, t, "bleu") for t in tests) for tests in (inside, outside)]
            rows[name] += [f"{bleu:.1f}" for bleu in both]
    head = [f"{pair}, {where}" for pair in ("En-De", "En-Fr") for where in ("in domain", "news")]
    return markdown(["", *head], [[SYSTEMS[name], *cells] for name, cells in rows.items()])


def longest(results: Results, pair: str) -> str:
    """Trainings longer than those with two seeds."""
    systems = long_trainings(results, pair, THREE)
    rows = by_test({name: [n] for name, n in systems.items()}, pair)
    theirs, *ours = map(in_domain, systems.values())
    gains = " / ".join(f"{bleu - theirs:+.1f}" for bleu in ours)
    rows.append(["in domain", *(f"{bleu:.1f}" for bleu in (theirs, *ours)), gains, "", ""])
    minutes = (f"{n['cpu_minutes']:.0f}" for n in systems.values())
    return markdown(BY_TEST, [*rows, ["CPU minutes", *minutes, "", "", ""]])


def lead(results: Results, system: str, pair: str, bleu: Callable[[dict], float]) -> str:
    """Over the Transformer, seed 1, after a short and after a long training."""
    short = {name: some[0] for name, some in seeds(results, pair).items()}
    trainings = (short, long_trainings(results, pair, THREE))
    leads = [bleu(of[system]) - bleu(of["transformer"]) for of in trainings]
    return " to ".join(f"{lead:.1f}" for lead in leads)


def leads(results: Results) -> str:
    places = {"in domain": in_domain, "news": news}
    rows = [
        [f"{heading}, {place}", *(lead(results, system, pair, bleu) for pair in TESTS)]
        for (system, heading), (place, bleu) in product(THREE.items(), places.items())
        if system != "transformer"
    ]
    return markdown(["", "En-De", "En-Fr"], rows)


def less_text(results: Results) -> str:
    """English-German systems that saw a part of the text, after equally many updates."""
    rows = []
    for part in ("a quarter", "a half", "all"):
        label = "" if part == "all" else f", {part}"
        names = [f"en-de/{name}, bytes{label}/1/{UPDATES}" for name in BOTH]
        both = [results[name]["numbers"] for name in names]
        losses = " / ".join(f"{n['valid_curve'][-1][1]:.2f}" for n in both)
        rows.append([part, losses])
        for bleu in (in_domain, news):
            theirs, ours = map(bleu, both)
            rows[-1] += [f"{theirs:.1f} / {ours:.1f}", f"{ours - theirs:+.1f}"]
    return markdown(["pairs", "loss", "in domain", "gain", "newstest2014", "gain"], rows)


def copying(results: Results) -> str:
    """English-French with every character of the text in the vocabulary, and without the rarest."""
    rows = []
    for heading, system in (("unknown", "gated"), ("in bytes", "gated, bytes")):
        n = results[f"en-fr/{system}/1/30"]["numbers"]
        rows.append([heading, *(f"{x:.1f}" for x in (in_domain(n), news(n), 100 * n["copied"]))])
    return markdown(["other characters", "in domain", "newstest2014", "copied, %"], rows)


def curves(results: Results) -> str:
    """Loss on the validation set by updates, means over the seeds, and what an update costs."""
    columns = [some for pair in TESTS for some in seeds(results, pair).values()]
    losses = [[dict(n["valid_curve"]) for n in some] for some in columns]
    rows = [
        [f"{update:,}", *(f"{mean(of[update] for of in some):.2f}" for some in losses)]
        for update in range(500, UPDATES + 1, 500)
    ]
    minutes = [f"{mean(n['cpu_minutes'] for n in some):.1f}" for some in columns]
    rows.append(["CPU minutes", *minutes])
    head = [f"{pair} {name}" for pair in ("En-De", "En-Fr") for name in THREE.values()]
    return markdown(["updates", *head], rows)


def trials(results: Results) -> str:
    """Validation loss of short English-French trainings with other options, by system."""
    some = [r["numbers"] for name, r in results.items() if name.startswith("trial/en-fr/")]
    losses: dict[str, dict[str, str]] = {}
    for n in some:
        system, _, *options = n["system"].split(", ")  # the second is "bytes"
        loss = f"{n['valid_curve'][-1][1]:.2f} ({n['cpu_minutes']:.1f})"
        losses.setdefault(", ".join(options) or "the recipe", {})[system] = loss
    rows = [[name, *(of.get(s, "-") for s in BOTH)] for name, of in losses.items()]
    return markdown(["", "Transformer", "gated"], rows)


def optimizers(results: Results) -> str:
    """Validation loss of short English-German trainings with Adam and with Muon."""
    some = [r["numbers"] for name, r in results.items() if name.startswith("trial/en-de/")]
    rows = []
    for options in sorted({tuple(n["set"]) for n in some}):
        given = {"lr": "0.002", **dict(word.split("=") for word in options)}
        alike = {n["system"]: n for n in some if tuple(n["set"]) == options}
        losses = {s: f"{n['valid']:.2f} ({n['cpu_minutes']:.1f})" for s, n in alike.items()}
        cells = [losses.get(system, "-") for system in BOTH]
        rows.append([given["optimizer"], given["lr"], *cells])
    return markdown(["optimizer", "learning rate", "Transformer", "gated"], rows)


def buckets(results: Results, pair: str) -> str:
    """BLEU and repeats by the length of the source, means over the seeds."""
    systems = [[n["by_length"] for n in some] for some in seeds(results, pair).values()]
    rows = []
    for place, bucket in enumerate(systems[0][0]):
        low, high = bucket["from"], bucket["to"]
        cells = [f"{max(1, low)} to {high}" if high else f"{low} or more"]
        for of, scale, unit in (("bleu", 1, ""), ("repeats", 100, "%"), ("begin", 100, "%")):
            both = [scale * mean(by_length[place][of] for by_length in s) for s in systems]
            cells.append(" / ".join(f"{value:.1f}{unit}" for value in both))
        cells.insert(2, f"{100 * bucket['references_repeat']:.1f}%")
        rows.append([*cells[:-1], cells[-1] if low > 10 else "-"])
    head = ["words of the source", "BLEU", "references repeat", "repeats", "begin at words 9 to 16"]
    return markdown(head, rows)


QUALITY = ("CPU minutes", "loss", "in domain", "newstest2014", "news repeats")


def quality_cells(n: dict) -> list[str]:
    cells = [n["cpu_minutes"], n["valid_curve"][-1][1], in_domain(n), news(n)]
    repeats = 100 * n["scores"]["newstest2014"]["repeats"]
    return [f"{x:.{digits}f}" for x, digits in zip(cells, (1, 2, 1, 1))] + [f"{repeats:.1f}%"]


def shapes(results: Results) -> str:
    """English-French gated models with deeper encoders, and the speed of such models."""
    rows = []
    first: list[float] = []  # milliseconds of 3 + 3
    for shape, updates in (
        ("3 + 3", UPDATES),
        ("6 + 2", UPDATES),
        ("5 + 1", UPDATES),
        ("5 + 1", 4000),
    ):
        label = "" if shape == "3 + 3" else f", {shape}"
        n = results[f"en-fr/gated, bytes{label}/1/{updates}"]["numbers"]
        found = [columns(results, f"speed/amd/shapes/{shape}/{size}") for size in ("1x4", "64x4")]
        medians = [of["native int8"]["ms_a_step"]["median"] for of in found]
        first = first or medians
        speeds = [f"{ms:.2f} ({before / ms:.2f})" for ms, before in zip(medians, first)]
        rows.append([shape, f"{updates:,}", *quality_cells(n), *speeds])
    return markdown(["layers", "updates", *QUALITY, "ms a step, 1x4", "64x4"], rows)


def lenpens(results: Results) -> str:
    """BLEU and repeats on a third of the validation set, means over pairs and seeds."""
    systems = [[n for pair in TESTS for n in seeds(results, pair)[name]] for name in THREE]
    rows = []
    for lenpen in systems[0][0]["lenpens"]:
        cells = [lenpen]
        for of, scale, unit in (("bleu", 1, ""), ("repeats", 100, "%")):
            both = [scale * mean(n["lenpens"][lenpen][of] for n in some) for some in systems]
            cells.append(" / ".join(f"{value:.1f}{unit}" for value in both))
        rows.append(cells)
    return markdown(["length penalty", "BLEU", "repeats"], rows)


def positions_alone(results: Results) -> str:
    """The same with nothing else changed, before the learning rate falls."""
    n = results["positions/en-fr/1500"]["numbers"]
    rows = []
    for test, plain in n["gated"]["scores"].items():
        changed = n["positions"]["scores"][test]
        bleu = f"{plain['bleu']:.1f} / {changed['bleu']:.1f}"
        repeats = " / ".join(f"{100 * of['repeats']:.1f}%" for of in (plain, changed))
        rows.append([test, bleu, repeats])
    return markdown(["without / with positions", "BLEU", "repeats"], rows)


def kinds(results: Results) -> str:
    """Kinds of token mixing, English to German, with Muon and with Adam."""
    rows = []
    for name, heading in SYSTEMS.items():
        by_muon = quality_cells(results[f"en-de/{name}, bytes/1/{UPDATES}"]["numbers"])
        by_adam = results[f"en-de/{name}, single lines/1/48"]["numbers"]
        rows.append([heading, *by_muon, f"{in_domain(by_adam):.1f}"])
    return markdown(["", *QUALITY, "Adam, in domain"], rows)


def widths(results: Results) -> str:
    """The gate beside feed-forward layers with as many more parameters."""
    rows = []
    for heading, system in (
        ("Toeplitz", "toeplitz, bytes"),
        ("Toeplitz, 896 hidden units", "toeplitz, bytes, ffn 896"),
        ("gated", "gated, bytes"),
    ):
        some = [
            results[f"{pair}/{system}/1/{updates}"]["numbers"]
            for pair, updates in (("en-de", UPDATES), ("en-fr", 6000))
        ]
        scores = [f"{bleu(n):.1f}" for n in some for bleu in (in_domain, news)]
        repeats = [f"{100 * n['scores']['newstest2014']['repeats']:.1f}%" for n in some]
        rows.append([heading, f"{some[0]['parameters'] / 1e6:.2f}", *scores, " / ".join(repeats)])
    head = [f"{pair}, {where}" for pair in ("En-De", "En-Fr") for where in ("in domain", "news")]
    return markdown(["", "million parameters", *head, "news repeats"], rows)


def adam(results: Results, minutes: int, systems: tuple[str, str]) -> str:
    """Trainings without Muon, English to German."""
    both = [results[f"en-de/{name}/1/{minutes}"]["numbers"] for name in systems]
    return " / ".join(f"{in_domain(n):.1f}" for n in both)


def repetition(results: Results) -> str:
    """The published model as it is, and with no subwords in a row twice."""
    n = results["repetition/en-de"]["numbers"]
    rows = []
    for test in sum(TESTS["en-de"], []):
        of = n["tests"][test]
        shares = (of["references"], of["free"]["repeats"], of["blocked"]["repeats"])
        change = f"{round(of['difference'], 1) + 0:+.1f}{'*' * (of['p'] < 0.05)}"  # no -0.0
        rows.append([test, *(f"{100 * share:.1f}%" for share in shares), change])
    size = f"`--no-repeat-ngram-size {n['chosen']}`"
    return markdown(["repeats", "references", "gated", size, "BLEU"], rows)


# ---------------------------------------------------------------------------------- Multi30k


def multi30k(results: Results) -> str:
    """Mean BLEU of two seeds and the gain of each over the Transformer."""
    rows = []
    labels = {f"{name}-3": heading for name, heading in SYSTEMS.items()}
    for label, heading in labels.items():
        row = [heading]
        for pair in ("en-de", "en-fr"):
            some = [results.get(f"multi30k/{pair}/{label}/{seed}") for seed in (1, 2)]
            numbers = [result["numbers"] for result in some if result]
            cell = f"{mean(n['bleu'] for n in numbers):.1f}" if numbers else "-"
            gains = [f"{n['difference']:+.1f}{'*' * (n['p'] < 0.05)}" for n in numbers if "p" in n]
            row.append(cell + f" ({', '.join(gains)})" * bool(gains))
        rows.append(row)
    return markdown(["", "En-De", "En-Fr"], rows)


def ablations(results: Results) -> str:
    found = {
        r["numbers"]["change"]: r["numbers"]["test"]
        for name, r in results.items()
        if name.startswith("multi30k/ablation/")
    }
    return markdown(["change", "BLEU"], [[name, f"{found[name]:.1f}"] for name in ABLATIONS])


# ------------------------------------------------------------------------------------- speed


def columns(results: Results, name: str, mode: str = "decode") -> dict[str, dict]:
    (line,) = results[name]["numbers"][mode]
    return line["columns"]


def times(found: dict[str, dict], theirs: str, ours: str) -> list[str]:
    """Milliseconds of both, and the speed-up of the medians."""
    medians = [found[name]["ms_a_step"]["median"] for name in (theirs, ours)]
    return [*map(number, medians), f"{medians[0] / medians[1]:.1f}"]


def speed(results: Results) -> str:
    """The front page: fairseq in float32 on two machines, int8 beside CTranslate2 on one."""
    rows = []
    for machine, heading in MACHINES.items():
        for size, sentences in (("1x4", "1 sentence"), ("64x4", "64 sentences")):
            found = columns(results, f"speed/{machine}/decode/{size}/25")
            cells = times(found, "transformer", "resmlp_mt_6")
            cells[-1] = f"{found['resmlp_mt_6']['speed']['median']:.1f}"  # of paired runs
            rows.append([f"{heading}, {sentences}", *cells])
    for machine, heading in MACHINES.items():
        found = columns(results, f"speed/{machine}/exported/512/1x4")
        cells = times(found, "CTranslate2 int8", "native int8")
        rows.append([f"{heading}, 1 sentence, int8: CTranslate2, native", *cells])
    return markdown(["ms a decoding step", "Transformer", "ResMLP", "speed-up"], rows)


GATED = ("speed/amd/decode/1x4/gated", "speed/amd/decode/64x4/gated")


def decoding(results: Results) -> str:
    rows = []
    names = [f"speed/{m}/decode/{size}/25" for m in MACHINES for size in ("1x4", "64x4")]
    for name in (*names, *GATED):
        found = columns(results, name)
        _, machine, _, size, _ = name.split("/")
        (ours,) = found.keys() - {"transformer"}
        milliseconds = " / ".join(times(found, "transformer", ours)[:2])
        label = f"{MACHINES[machine]}, {size}, `{ours}`"
        rows.append([label, milliseconds, spread(found[ours]["speed"])])
    return markdown(["", "ms a step, Transformer / ResMLP", "speed-up"], rows)


def gated_speed(results: Results) -> str:
    found = [columns(results, name)["resmlp_mt_gated_6"] for name in GATED]
    return " and ".join(f"{of['speed']['median']:.1f}" for of in found)


def training(results: Results) -> str:
    rows = []
    for machine, arch in product(MACHINES, ("6", "gated")):
        found = columns(results, f"speed/{machine}/train/{arch}", "train")
        (ours,) = (label for label in found if label != "transformer")
        label = f"{MACHINES[machine]}, `{ours}`"
        rows.append([label, spread(found[ours]["speed"])])
    return markdown(["", "speed-up"], rows)


def exported(results: Results) -> str:
    rows = []
    sizes = {"512/1x4": "6 + 6 layers, 512, 1x4", "256/1x4": "3 + 3 layers, 256, 1x4"}
    sizes["256/64x4"] = "3 + 3 layers, 256, 64x4"
    # for one sentence CTranslate2 is fastest with one thread
    sizes["256/64x4/2"] = "3 + 3 layers, 256, 64x4, two threads"
    for (machine, name), (size, heading) in product(MACHINES.items(), sizes.items()):
        found = columns(results, f"speed/{machine}/exported/{size}")
        graph = number(found["exported int8"]["ms_a_step"]["median"])
        theirs, ours, speed_up = times(found, "CTranslate2 int8", "native int8")
        rows.append([f"{name}: {heading}", theirs, graph, ours, speed_up])
    return markdown(["int8, ms a step", "CTranslate2", "graph", "native", "speed-up"], rows)


def text_to_text(results: Results, machine: str) -> str:
    """Milliseconds of a sentence of a test set, the published shape."""
    found = results[f"speed/{machine}/text/256"]["numbers"]["text"]
    shown = ("p50", "p95", "tokens_per_second", "start_seconds", "model_mb")
    rows = [[name, *(number(n[key]) for key in shown)] for name, n in found.items()]
    head = [MACHINES[machine], "ms a sentence", "95%", "tokens/s in batches", "start, s", "MB"]
    return markdown(head, rows)


# ------------------------------------------------------------------------- published models


def model_scores(results: Results, pair: str) -> str:
    """Of the checkpoint, and BLEU of what it was exported to."""
    model = results[f"model/{pair}"]["numbers"]
    rows = []
    for name, s in model["scores"].items():
        exported = [f"{bleu[name]:.2f}" for bleu in model["exports"].values()]
        rows.append([name, f"{s['chrf']:.1f}", f"{s['bleu']:.2f}", *exported])
    return markdown(["test set", "chrF", "sacreBLEU", *model["exports"]], rows)


def model_training(results: Results, pair: str) -> str:
    n = results[f"model/{pair}"]["numbers"]
    return (
        f"{n['updates']:,} updates in {n['cpu_minutes']:.0f} CPU minutes of one core, "
        f"{n['parameters'] / 1e6:.2f} million parameters"
    )


def minutes(results: Results, pair: str) -> str:
    return f"{results[f'model/{pair}']['numbers']['cpu_minutes']:.0f}"


def front_minutes(results: Results) -> str:
    """Of a training with two seeds."""
    some = sum((n for pair in TESTS for n in seeds(results, pair).values()), [])
    return f"{mean(n['cpu_minutes'] for n in some):.0f}"


def model_sentences(results: Results, pair: str) -> str:
    target = {"de": "German", "fr": "French"}[pair.split("-")[1]]
    return markdown(["English", target], results[f"model/{pair}"]["numbers"]["sentences"][:6])


def quickstart(results: Results) -> str:
    n = results["quickstart"]["numbers"]
    return f"BLEU {n['bleu']:.1f} after {n['cpu_minutes']:.1f} CPU minutes of training"


MARKS = {
    **{f"quality {pair}": partial(quality, pair=pair) for pair in TESTS},
    **{f"longest {pair}": partial(longest, pair=pair) for pair in TESTS},
    **{f"lead {pair}": partial(lead, system="gated", pair=pair, bleu=in_domain) for pair in TESTS},
    "leads": leads,
    **{f"repeat less {name}": partial(repeat_less, system=name) for name in ("gated", "toeplitz")},
    "less text": less_text,
    "repetition": repetition,
    "front quality": front,
    "front minutes": front_minutes,
    **{f"minutes {pair}": partial(minutes, pair=pair) for pair in TESTS},
    "curves": curves,
    "copying": copying,
    "trials": trials,
    "optimizers": optimizers,
    **{f"buckets {pair}": partial(buckets, pair=pair) for pair in TESTS},
    "lenpens": lenpens,
    "shapes": shapes,
    "positions alone": positions_alone,
    "kinds": kinds,
    "widths": widths,
    "adam": partial(adam, minutes=360, systems=BOTH),
    "adam conv": partial(adam, minutes=120, systems=("conv", "gated")),
    "multi30k": multi30k,
    "ablations": ablations,
    "front speed": speed,
    "decoding": decoding,
    "gated speed": gated_speed,
    "training": training,
    "exported": exported,
    **{f"text to text {m}": partial(text_to_text, machine=m) for m in MACHINES},
    **{f"model {pair} scores": partial(model_scores, pair=pair) for pair in TESTS},
    **{f"model {pair} training": partial(model_training, pair=pair) for pair in TESTS},
    **{f"model {pair} sentences": partial(model_sentences, pair=pair) for pair in TESTS},
    "quickstart": quickstart,
}


def pages() -> list[Path]:
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.md")]
    return sorted(path for path in found if "node_modules" not in path.parts)


def fill(text: str, results: Results) -> str:
    """Put what the results say between the marks of a page."""
    for name in re.findall(r"<!-- /(.+?) -->", text):
        if name not in MARKS or f"<!-- {name} -->" not in text:
            raise UserError(f"the mark <!-- /{name} --> has no table or no beginning")
        pattern = rf"(<!-- {re.escape(name)} -->).*?(<!-- /{re.escape(name)} -->)"
        found = MARKS[name](results)
        text = re.sub(pattern, lambda m, new=found: m[1] + new + m[2], text, flags=re.DOTALL)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    results = load()
    filled = {path: fill(path.read_text(encoding="utf-8"), results) for path in pages()}
    changed = [path for path, text in filled.items() if text != path.read_text(encoding="utf-8")]
    if args.check and changed:
        raise UserError(f"not as the results say: {', '.join(map(str, changed))}: make tables")
    if not args.check:
        for path in changed:
            path.write_text(filled[path], encoding="utf-8")
        written = draw(results, ROOT / "docs" / "pictures")
        print(*(path.relative_to(ROOT) for path in [*changed, *written]), sep="\n")


if __name__ == "__main__":
    sys.exit(run_main(main))
