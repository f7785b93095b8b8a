#!/usr/bin/env python3
"""Every table, number and picture in the pages, rebuilt from docs/results/results.jsonl.

Marks in a page: <!-- table NAME -->...<!-- / --> is a table of TABLES. <!-- = VALUE RESULT -->...
<!-- / --> is a number, VALUE one of VALUES and RESULT a name in results.jsonl; with "minus RESULT"
it is the difference.
"""

import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean

from pictures import draw
from results import ROOT, cpu_label, load, number, spread

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError

NEWS = "newstest2014"
NOT_IN_DOMAIN = {NEWS, "everyday", "valid"}  # the other test sets have the domains of the training
PAIRS = {"en-de": "En-De", "en-fr": "En-Fr"}
# system in the names of results, and its label if it has one: heading in the tables
SYSTEMS = {
    "transformer": "Transformer",
    "resmlp": "the paper's A",
    "toeplitz": "Toeplitz",
    "toeplitz, ffn 896": "Toeplitz, wide",
    "conv": "convolutions",
    "gated": "gated",
}
TWO = ("transformer", "toeplitz, ffn 896")  # the second is recommended
LONG = ("transformer", "gated", "toeplitz", TWO[1])  # systems of the longer trainings
# pair, updates, the label of all its trainings, and million sentence pairs of text
TRAININGS = (
    ("en-de", 3000, "bytes", 0.3),
    ("en-de", 16000, "bytes, dropout=0.05", 0.3),
    ("en-de", 3000, "large", 1.3),
    ("en-de", 6000, "large", 1.3),
    ("en-fr", 3000, "bytes", 0.3),
    ("en-fr", 6000, "bytes", 0.3),
    ("en-fr", 1500, "large", 1.2),
    ("en-fr", 3000, "large", 1.2),
)
LARGE = tuple(training for training in TRAININGS if training[2] == "large")
Results = dict[str, dict]
Runs = list[dict]  # the numbers of trainings that differ in the seed alone
Column = Callable[[dict], float]


def markdown(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in [head, *rows]]
    return "\n".join(["", lines[0], "|" + "---|" * len(head), *lines[1:], ""])


# ----------------------------------------------------------------------------------- quality


def score(n: dict, test: str, metric: str = "bleu") -> float:
    return n["scores"][test][metric]


def inside(n: dict) -> list[str]:
    return [test for test in n["scores"] if test not in NOT_IN_DOMAIN]


def in_domain(n: dict) -> float:
    return mean(score(n, test) for test in inside(n))


def repeats(n: dict, test: str = NEWS) -> float:
    """Percent of the translations."""
    return 100 * score(n, test, "repeats")


PLACES = {"in domain": in_domain, "news": partial(score, test=NEWS)}
# what a mark may ask of a result, and columns of tables: function, digits
VALUES = {
    "parameters": (lambda n: n["parameters"] / 1e6, 2),
    "minutes": (lambda n: n["cpu_minutes"], 0),
    "loss": (lambda n: n["valid_curve"][-1][1], 2),
    "in-domain": (in_domain, 1),
    "news": (PLACES["news"], 1),
    "repeats": (repeats, 1),
    "copied": (lambda n: 100 * n["copied"], 0),
    "ablation": (lambda n: n["test"], 1),
    "bleu": (lambda n: n["bleu"], 1),
    "valid": (lambda n: n["valid"], 2),
    "first-lead": (lambda n: n["points"][0][3], 2),
    "lead": (lambda n: n["points"][-1][3], 2),
    "foretold": (lambda n: n["last by the first four"], 2),
    "exponent": (lambda n: n["exponent"], 2),
    "predicted": (lambda n: n["after ten times as many"], 2),
    "native-ms": (lambda n: n["text"]["exported, native"]["p50"], 1),
    "graph-ms": (lambda n: n["text"]["exported"]["p50"], 1),
    "ctranslate2-ms": (lambda n: n["text"]["CTranslate2 int8"]["p50"], 1),
}


def value(results: Results, text: str) -> str:
    """``VALUE RESULT`` or ``VALUE RESULT minus RESULT``."""
    column, _, names = text.partition(" ")
    if column not in VALUES or any(name not in results for name in names.split(" minus ")):
        raise UserError(f"<!-- = {text} -->: results.jsonl has no such number")
    function, digits = VALUES[column]
    found, *less = (function(results[name]["numbers"]) for name in names.split(" minus "))
    return f"{found - sum(less):.{digits}f}"


def runs(results: Results, training: tuple, systems: Iterable[str]) -> list[Runs]:
    """Of each system, for the seeds of all systems that were trained at all."""
    pair, updates, label, _ = training
    found = []
    for kind, _, own in (system.partition(", ") for system in systems):
        name = f"{pair}/{', '.join(filter(None, (kind, label, own)))}"
        names = {seed: f"{name}/{seed}/{updates}" for seed in (1, 2)}
        found.append({s: results[n]["numbers"] for s, n in names.items() if n in results})
    seeds = set.intersection(*map(set, filter(None, found)))
    return [[some[seed] for seed in sorted(seeds & some.keys())] for some in found]


def average(some: Runs, column: Column, digits: int = 1) -> str:
    return f"{mean(map(column, some)):.{digits}f}" if some else "-"


def quality(results: Results) -> str:
    """On each test set. A star: p < 0.05 by paired bootstrap, for every seed."""
    rows = []
    for training in {training[0]: training for training in LARGE}.values():  # the longest
        both = runs(results, training, TWO)
        for test in (*inside(both[1][0]), NEWS):
            bleu, chrf = (partial(score, test=test, metric=metric) for metric in ("bleu", "chrf"))
            theirs, ours = (mean(map(bleu, some)) for some in both)
            tests = [n["against"].get(TWO[0], {}).get(test, {"p": 1}) for n in both[1]]
            star = "*" * all(of["p"] < 0.05 for of in tests)
            cells = [average(some, bleu) for some in both] + [f"{ours - theirs:+.1f}{star}"]
            cells += [average(some, chrf) for some in both]
            cells += [average(some, partial(repeats, test=test)) + "%" for some in both]
            rows.append([f"{PAIRS[training[0]]}, {test}", *cells])
    head = [f"{metric}, {name}" for metric in ("chrF", "repeats") for name in ("T", "R")]
    return markdown(["test set", "Transformer (T)", "ResMLP (R)", "gain", *head], rows)


def by_training(results: Results, trainings: tuple, systems: tuple) -> str:
    """BLEU after trainings of several lengths."""
    rows = []
    for training, (place, column) in product(trainings, PLACES.items()):
        pair, updates, _, pairs = training
        of = runs(results, training, systems)
        setting = [f"{PAIRS[pair]}, {place}", str(pairs), f"{updates:,}", str(max(map(len, of)))]
        rows.append([*setting, *(average(some, column) for some in of)])
    head = ["BLEU", "million pairs", "updates", "seeds"]
    return markdown([*head, *(SYSTEMS[system] for system in systems)], rows)


def kinds(results: Results) -> str:
    """Kinds of token mixing after the shortest training, and on the captions of Multi30k."""
    rows = []
    for system, some in zip(SYSTEMS, runs(results, TRAININGS[0], SYSTEMS)):
        captions = (results.get(f"multi30k/en-de/{system}-3/{seed}") for seed in (1, 2))
        bleu = average([r["numbers"] for r in captions if r], lambda n: n["bleu"])
        names = ("parameters", "minutes", "loss", "in-domain", "news", "repeats")
        values = (average(some, *VALUES[name]) for name in names)
        rows.append([SYSTEMS[system], *values, bleu])
    head = ["", "million parameters", "CPU minutes", "loss", *PLACES, "news repeats, %", "captions"]
    return markdown(head, rows)


# ------------------------------------------------------------------------------------- speed


def measured(results: Results, mode: str) -> Iterable[tuple[str, list[str], dict, dict]]:
    """The results speed/CPU/MODE/SIZE: a CPU and a size, our models, and of each system the
    milliseconds per step and the speed-up over the Transformer."""
    for name, result in results.items():
        if re.match(rf"speed/[^/]+/{mode}/", name) and "cpu" in result["numbers"]:
            found, size = result["numbers"][mode], name.split("/")[-1]
            size = size.replace("x", " x ").replace("-", " channels, ")
            columns = found["lines"][0]["columns"]
            ms = {system: column["ms_per_step"]["median"] for system, column in columns.items()}
            gain = {system: column["speed"] for system, column in columns.items()}
            ours = sorted(found["models"].keys() - {"transformer"})
            yield f"{cpu_label(result['numbers']['cpu'])}, {size}", ours, ms, gain


def label_of(arch: str) -> str:
    """Of a model: its architecture, and its hidden units if they are options."""
    hidden = re.search(r"-ffn-embed-dim[ =](\d+)", arch)
    return f"`{arch.split()[0]}`" + (f", {int(hidden[1]):,} hidden units" if hidden else "")


def decoding(results: Results) -> str:
    """The speed-up and its three factors."""
    rows = []
    for heading, ours, ms, gain in measured(results, "decode"):
        for arch in ours:
            ways = ["transformer", f"{arch}, fairseq's search", f"{arch}, not packed", arch]
            factors = [ms[slow] / ms[fast] for slow, fast in zip(ways, ways[1:])]
            cells = [number(ms["transformer"]), number(ms[arch]), spread(gain[arch])]
            rows.append([heading, label_of(arch), *cells, *map(number, factors)])
    head = ["CPU, sentences x beam", "model", "Transformer, ms per step", "ours", "speed-up"]
    return markdown([*head, "by the model", "by our search", "by packing"], rows)


def speed(results: Results, mode: str, head: tuple[str, ...] = ()) -> str:
    rows = []
    for heading, ours, ms, gain in measured(results, mode):
        head = head or tuple(map(label_of, ours))
        cells = [f"{number(ms[arch])} ({number(gain[arch]['median'])}x)" for arch in ours]
        rows.append([heading, number(ms["transformer"]), *cells])
    return markdown(["ms (speed-up)", "Transformer", *head], rows)


def exported(results: Results) -> str:
    """Exports in int8 beside the Transformer in CTranslate2, milliseconds per step. No variable
    limits ONNX Runtime, so that the graph is left out where the others are limited."""
    rows = []
    for heading, ours, ms, _ in measured(results, "decode"):
        for arch in ours if "CTranslate2 int8" in ms else ():
            theirs, native = ms["CTranslate2 int8"], ms[f"{arch}, native int8"]
            graph = "-" if "limited" in heading else number(ms[f"{arch}, graph int8"])
            cells = [number(theirs), graph, number(native), number(theirs / native)]
            rows.append([heading, label_of(arch), *cells])
    head = ["CPU, sentences x beam", "model", "CTranslate2", "ours, ONNX Runtime", "ours, native"]
    return markdown([*head, "speed-up"], rows)


# ------------------------------------------------------------------------- published models


def model_scores(results: Results, pair: str) -> str:
    model = results[f"model/{pair}"]["numbers"]
    rows = []
    for name, s in model["scores"].items():
        exports = [f"{bleu[name]:.2f}" for bleu in model["exports"].values()]
        rows.append([name, f"{s['chrf']:.1f}", f"{s['bleu']:.2f}", *exports])
    return markdown(["test set", "chrF", "sacreBLEU", *model["exports"]], rows)


def model_training(results: Results, pair: str) -> str:
    n = results[f"model/{pair}"]["numbers"]
    cost = f"{n['updates']:,} updates in {n['cpu_minutes']:.0f} CPU minutes of one core"
    return f"{cost}, {n['parameters'] / 1e6:.2f} million parameters"


def model_sentences(results: Results, pair: str) -> str:
    target = {"de": "German", "fr": "French"}[pair.split("-")[1]]
    return markdown(["English", target], results[f"model/{pair}"]["numbers"]["sentences"][:6])


TABLES = {
    "quality": quality,
    "front quality": partial(by_training, trainings=LARGE, systems=TWO),
    "lengths": partial(by_training, trainings=TRAININGS, systems=LONG),
    "kinds": kinds,
    "decoding": decoding,
    "front speed": partial(speed, mode="decode"),
    "training": partial(speed, mode="train", head=("as many hidden units", "as many parameters")),
    "exported": exported,
    **{f"model {pair} scores": partial(model_scores, pair=pair) for pair in PAIRS},
    **{f"model {pair} training": partial(model_training, pair=pair) for pair in PAIRS},
    **{f"model {pair} sentences": partial(model_sentences, pair=pair) for pair in PAIRS},
}
MARK = re.compile(r"(<!-- (table|=) (.+?) -->).*?(<!-- / -->)", re.DOTALL)


def pages() -> list[Path]:
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.md")]
    return sorted(path for path in found if "node_modules" not in path.parts)


def fill(text: str, results: Results) -> str:
    """A page with its tables and numbers as the results say."""

    def filled(mark: re.Match) -> str:
        begin, kind, name, end = mark.groups()
        if kind == "=":
            return begin + value(results, name) + end
        if name not in TABLES:
            raise UserError(f"{begin}: no such table")
        return begin + TABLES[name](results) + end

    return MARK.sub(filled, text)


def main() -> None:
    results = load()
    for path in pages():
        text = path.read_text(encoding="utf-8")
        if (filled := fill(text, results)) != text:
            path.write_text(filled, encoding="utf-8")
            print(path.relative_to(ROOT))
    draw(results, ROOT / "docs" / "pictures")


if __name__ == "__main__":
    sys.exit(run_main(main))
