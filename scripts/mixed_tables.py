"""Tables of examples/mixed/README.md and of the card of its model, from its result files."""

import re
from pathlib import Path
from statistics import mean, median
from typing import Dict, List, Tuple

from study.by_length import words_label
from study.tables import difference, gain, percent

from resmlp_mt.benchmark.timing import Spread, spread_text
from resmlp_mt.files import make_folder, read_json

Table = Tuple[List[str], List[List[str]]]
MIXED = Path(__file__).resolve().parents[1] / "examples" / "mixed"
RESULTS = MIXED / "results"
# test sets: in the domains of the corpus, out of them, our own
TESTS = ("tatoeba", "suttacentral", "ossdocs", "newstest2014", "everyday")
IN_DOMAIN = TESTS[:3]
NAMES = {
    "transformer": "Transformer",
    "conv": "`resmlp_mt_conv_6`",
    "gated": "`resmlp_mt_gated_6`",
    "toeplitz": "`resmlp_mt_toeplitz_6`",
    "resmlp": "`resmlp_mt_6`",
    "transformer-longer": "Transformer, longer lines",
    "conv-longer": "`resmlp_mt_conv_6`, longer lines",
    "gated-longer": "`resmlp_mt_gated_6`, longer lines",
    "transformer-longer-decayed": "Transformer, longer lines, rate to 0",
    "gated-longer-decayed": "`resmlp_mt_gated_6`, longer lines, rate to 0",
}

# as in the pictures of the study
PICTURED = {
    "transformer": "Transformer",
    "conv": "ResMLP, convolutions",
    "gated": "ResMLP, gated",
}


def results() -> List[dict]:
    """Every scored system, by budget, then in the order of ``NAMES``, then by seed."""
    found = [read_json(path) for path in RESULTS.glob("*.*.*.json")]
    order = list(NAMES)
    return sorted(found, key=lambda r: (r["budget_minutes"], order.index(r["system"]), r["seed"]))


def _heading(r: dict) -> List[str]:
    return [f"{r['budget_minutes']:g}", NAMES[r["system"]], str(r["seed"])]


def _against_transformer(r: dict) -> Dict[str, dict]:
    """The tests by test set of a system against the Transformer on the same lines, if any."""
    return r["against"].get(_beside(r["system"], "transformer"), {})


def _beside(system: str, architecture: str) -> str:
    """Another architecture with the same lines and schedule."""
    return re.sub(r"^[^-]+", architecture, system)


def bleu() -> Table:
    """sacreBLEU by test set and the gain over the Transformer."""
    rows = []
    for r in results():
        row = _heading(r)
        row += [f"{r['parameters'] / 1e6:.2f}", f"{r['updates']:,} ({r['cpu_minutes']:.0f})"]
        row += [f"{r['scores']['valid']['bleu']:.1f}", f"{r['lenpen']:g}"]
        against = _against_transformer(r)
        for name in TESTS:
            more = f" ({gain(against[name])})" if against else ""
            row.append(f"{r['scores'][name]['bleu']:.1f}{more}")
        rows.append(row)
    head = ["CPU minutes", "system", "seed", "parameters, M", "updates (minutes)"]
    return [*head, "validation", "length penalty", *TESTS], rows


def _means() -> Dict[Tuple[float, bool], Dict[str, float]]:
    """By budget, and whether the learning rate falls to 0: the mean of the test sets in the domains
    of each system with longer lines, seed 1. Budgets of one system are left out."""
    means: Dict[Tuple[float, bool], Dict[str, float]] = {}
    for r in results():
        system, longer, decayed = r["system"].partition("-longer")
        if longer and r["seed"] == 1:
            bleu = [r["scores"][name]["bleu"] for name in IN_DOMAIN]
            means.setdefault((r["budget_minutes"], bool(decayed)), {})[system] = mean(bleu)
    return {key: found for key, found in means.items() if len(found) > 1}


def means() -> Table:
    heads = {"transformer": "Transformer", "conv": "convolutions", "gated": "gate"}
    rows = []
    for (budget, decayed), found in _means().items():
        cells = [f"{found[name]:.1f}" if name in found else "" for name in heads]
        lead = f"{found['gated'] - found['transformer']:+.1f}"
        rows.append([f"{budget:g}{', rate to 0' if decayed else ''}", *cells, lead])
    return ["CPU minutes", *heads.values(), "gate less Transformer"], rows


def summary() -> str:
    """The gate and the Transformer at the largest budget."""
    (budget, _), found = list(_means().items())[-1]
    return (
        f"sacreBLEU {found['gated']:.1f} for the gate, {found['transformer']:.1f} for the "
        f"Transformer, {budget:g} CPU minutes each"
    )


def largest() -> Table:
    """The Transformer and the gate by test set, after the most minutes."""
    baseline, ours = _largest()
    against = _against_transformer(ours)
    rows = []
    for name in TESTS:
        row = [name]
        for metric in ("bleu", "chrf"):
            row += [f"{r['scores'][name][metric]:.1f}" for r in (baseline, ours)]
        row.insert(3, difference(against[name]))
        row += [percent(r["scores"][name]["repeats"]) for r in (baseline, ours)]
        rows.append([*row, percent(ours["references_repeat"][name])])
    head = ["test set", "Transformer", "gate", "difference", "chrF: Transformer", "gate"]
    return [*head, "lines that repeat, %: Transformer", "gate", "references"], rows


def _longest(ending: str) -> List[dict]:
    """The systems of this ending that were trained for the most minutes, seed 1."""
    found = [r for r in results() if r["system"].endswith(ending) and r["seed"] == 1]
    return [r for r in found if r["budget_minutes"] == found[-1]["budget_minutes"]]


def _largest() -> List[dict]:
    """The Transformer and the gate after the most minutes."""
    return _longest("-longer-decayed")


def passes() -> str:
    """How often the text was read in the longest trainings."""
    read = [f"{r['passes']:.1f}" for r in _largest()]
    return f"{read[0]} times by the Transformer, {read[1]} times by the gate"


def seen() -> str:
    """Source lines of the test sets that stand in the training text."""
    found = _largest()[-1]["sources_in_training_text"]
    counts = [f"{found[name]} of {name}" for name in TESTS if found[name]]
    return f"{', '.join(counts[:-1])} and {counts[-1]}"


def of_the_paper() -> str:
    """The A of the paper beside the Transformer, after as many minutes on single lines."""
    by_system = {r["system"]: r for r in results() if r["budget_minutes"] == 48}
    said = []
    for system in ("resmlp", "transformer"):
        scores = by_system[system]["scores"]
        bleu, chrf = (mean(scores[n][metric] for n in IN_DOMAIN) for metric in ("bleu", "chrf"))
        said.append(f"sacreBLEU {bleu:.1f} and chrF {chrf:.1f}")
    return f"has {said[0]}, the Transformer {said[1]}"


def joined() -> str:
    """The validation nll of the gate with and without joined lines, after as many updates."""
    with_them, without = (
        dict(read_json(RESULTS / f"{system}.1.48.json")["valid_curve"])
        for system in ("gated-longer", "gated")
    )
    updates = max(set(with_them) & set(without))
    return (
        f"after {updates:,} updates its validation nll is {with_them[updates]:.2f} with joined "
        f"lines and {without[updates]:.2f} without"
    )


def more() -> Table:
    """chrF, lines that repeat and words against the references."""
    rows = []
    for r in results():
        row = _heading(r)
        for name in TESTS:
            score = r["scores"][name]
            row.append(
                f"{score['chrf']:.1f}, {percent(score['repeats'])}, {percent(score['words'])}"
            )
        rows.append(row)
    return ["CPU minutes", "system", "seed", *TESTS], rows


def draw(folder: Path) -> List[Path]:
    """Validation nll by CPU minutes of the systems with longer lines that were trained for the most
    minutes. The first updates are left out: they would make the rest of the lines flat."""
    from study.draw import draw_lines

    from resmlp_mt.plot.style import save

    lines = {}
    for r in _longest("-longer"):
        minutes = r["cpu_minutes"] / r["updates"]
        points = [(update * minutes, nll) for update, nll in r["valid_curve"]]
        name = PICTURED[r["system"].removesuffix("-longer")]
        lines[name] = [point for point in points if point[1] < 4]
    title = "English to German, 256 channels, one core each"
    figure = draw_lines(lines, "CPU minutes", "validation nll (bits a subword)", title)
    make_folder(folder)
    save(figure, folder / "curves.png")
    return [folder / "curves.png"]


def by_length() -> Table:
    """sacreBLEU of sentences of a length, all test sets together."""
    rows, head = [], []
    for r in results():
        head = [f"{words_label(b)} words ({b['sentences']:,})" for b in r["by_length"]]
        rows.append([*_heading(r), *(f"{bucket['bleu']:.1f}" for bucket in r["by_length"])])
    return ["CPU minutes", "system", "seed", *head], rows


def decoding() -> Table:
    """Text to text, the systems in turn."""
    rows = []
    for test in IN_DOMAIN:
        for system, found in read_json(RESULTS / "speed.json")["tests"][test].items():
            tokens = found["tokens"] / median(found["seconds"])
            row = [test, NAMES[system], f"{found['sentences_per_second']:.0f}", f"{tokens:,.0f}"]
            rows.append([*row, spread_text(Spread(**found["speed"]))])
    head = ["test set", "system", "sentences a second", "subwords a second", "times as fast"]
    return head, rows


def gate() -> Table:
    """The gain of the gate over the convolutions of the same text, minutes and seed, and the lines
    of both that repeat."""
    scored = {(r["system"], r["budget_minutes"], r["seed"]): r for r in results()}
    rows = []
    for (system, budget, seed), gated in scored.items():
        other = _beside(system, "conv")
        if not system.startswith("gated") or other not in gated["against"]:
            continue
        test, both = gated["against"][other], (gated, scored[other, budget, seed])
        means = [mean(r["scores"][name]["bleu"] for name in IN_DOMAIN) for r in both]
        repeats = [", ".join(percent(r["scores"][n]["repeats"]) for n in IN_DOMAIN) for r in both]
        lines = "longer" if "-longer" in system else "single"
        row = [f"{budget:g}", lines, str(seed), *(gain(test[name]) for name in IN_DOMAIN)]
        row += [f"{means[0] - means[1]:+.1f}", *(gain(test[name]) for name in TESTS[3:])]
        rows.append([*row, *repeats])
    head = ["CPU minutes", "lines", "seed", *IN_DOMAIN, "mean of the three", *TESTS[3:]]
    return [*head, "gate, % that repeat", "convolutions, % that repeat"], rows


def two_in_a_line() -> Table:
    """sacreBLEU of the same sentences, translated alone and two in a line: each system, and the
    longest trainings."""
    rows = []
    for r in [r for r in results() if r["budget_minutes"] == 48] + _largest():
        row = _heading(r)
        for name in IN_DOMAIN:
            found = r["two_in_a_line"][name]
            alone, together = (found[way]["bleu"] for way in ("alone", "together"))
            row.append(f"{alone:.1f}, {together:.1f}")
        rows.append(row)
    return ["CPU minutes", "system", "seed", *IN_DOMAIN], rows


def trials() -> Table:
    """Short trainings of other forms and another learning rate."""
    rows = [
        [one["trial"], f"{one['updates']:,}", f"{one['nll']:.2f}", f"{one['cpu_minutes']:.1f}"]
        for one in read_json(RESULTS / "trials.json")["trials"]
    ]
    return ["trial", "updates", "validation nll, bits a subword", "CPU minutes"], rows


def last_stretch() -> str:
    """What the last updates gave with a learning rate that fell to 0, and without."""
    found = {one["trial"]: one for one in read_json(RESULTS / "trials.json")["trials"]}
    endless = found["gate, longer lines"]
    decayed = found["gate, longer lines, rate to 0 from update 8,500"]
    return (
        f"{decayed['nll']:.2f} bits a subword in place of {endless['nll']:.2f} after "
        f"{decayed['updates']:,} updates"
    )


def model() -> dict:
    return read_json(RESULTS / "model.json")


def model_scores() -> Table:
    rows = []
    for name in TESTS:
        score = model()["scores"][name]
        rows.append([name, f"{score['bleu']:.1f}", f"{score['chrf']:.1f}"])
    return ["test set", "sacreBLEU", "chrF"], rows


def model_signatures() -> str:
    score = model()["scores"][TESTS[0]]
    return f"`{score['bleu_signature']}`, `{score['chrf_signature']}`"


def model_files() -> Table:
    rows = [
        [f"`{name}`", f"{file['bytes']:,}", f"`{file['sha256']}`"]
        for name, file in model()["files"].items()
    ]
    return ["file", "bytes", "SHA-256"], rows


def model_sentences() -> Table:
    return ["source", "translation"], [list(pair) for pair in model()["sentences"]]


def model_training() -> str:
    made = model()
    return (
        f"{made['updates']:,} updates in {made['cpu_minutes']:.0f} CPU minutes of one core, "
        f"{made['parameters'] / 1e6:.2f} million parameters, seed {made['seed']}. The "
        f"validation set chose a length penalty of {made['lenpen']:g}"
    )


TABLES: Dict[str, callable] = {
    "mixed": bleu,
    "mixed summary": summary,
    "mixed means": means,
    "mixed largest": largest,
    "mixed passes": passes,
    "mixed seen": seen,
    "mixed paper": of_the_paper,
    "mixed joined": joined,
    "mixed more": more,
    "mixed by length": by_length,
    "mixed gate": gate,
    "mixed decoding": decoding,
    "mixed two in a line": two_in_a_line,
    "mixed trials": trials,
    "last stretch": last_stretch,
    "model scores": model_scores,
    "model signatures": model_signatures,
    "model files": model_files,
    "model sentences": model_sentences,
    "model training": model_training,
}
