#!/usr/bin/env python3
"""Every table, number and picture in the pages, rebuilt from docs/results/results.jsonl.

    python scripts/tables.py            # write the pages and the pictures
    python scripts/tables.py --check    # change nothing, name the pages that are not up to date

A mark is <!-- NAME --> before the text and <!-- /NAME --> behind it.
"""

import argparse
import re
import sys
from pathlib import Path
from statistics import mean
from typing import Dict, List

from pictures import draw
from results import ROOT, load

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
MACHINES = {"amd": "AMD EPYC", "intel": "Intel Xeon"}
Results = Dict[str, dict]


def markdown(head: List[str], rows: List[List[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in [head, *rows]]
    return "\n".join(["", lines[0], "|" + "---|" * len(head), *lines[1:], ""])


def number(value: float) -> str:
    """Three significant digits."""
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def spread(value: dict) -> str:
    return f"{number(value['median'])} ({number(value['low'])} .. {number(value['high'])})"


# ------------------------------------------------------------------ quality at equal CPU time


def runs(results: Results, **wanted) -> List[dict]:
    """The numbers of the study's trainings that have these values, in order of their names."""
    study = [r["numbers"] for name, r in results.items() if name.split("/")[0] in TESTS]
    return [n for n in study if all(n[key] == value for key, value in wanted.items())]


def in_domain(run: dict) -> float:
    return mean(run["scores"][test]["bleu"] for test in TESTS[run["pair"]][0])


def longest(results: Results, pair: str) -> Dict[str, List[dict]]:
    """The Transformers and the gated models of the largest budget that both have, by system."""
    by_system = {name: runs(results, pair=pair, system=name) for name in ("transformer", "gated")}
    shared = set.intersection(*({n["minutes"] for n in some} for some in by_system.values()))
    most = max(shared)
    return {name: [n for n in some if n["minutes"] == most] for name, some in by_system.items()}


def gain(ours: dict, test: str) -> str:
    """BLEU over the Transformer, starred where p < 0.05."""
    tested = ours["against"]["transformer"][test]
    return f"{tested['difference']:+.1f}{'*' * (tested['p'] < 0.05)}"


def quality(results: Results, pair: str = "en-de") -> str:
    systems = longest(results, pair)
    rows = []
    for test in sum(TESTS[pair], []):
        bleu, chrf = (
            [f"{mean(n['scores'][test][of] for n in some):.1f}" for some in systems.values()]
            for of in ("bleu", "chrf")
        )
        repeats = [mean(n["scores"][test]["repeats"] for n in some) for some in systems.values()]
        repeats = [f"{100 * share:.1f}%" for share in repeats]
        gains = ", ".join(gain(n, test) for n in systems["gated"])
        rows.append([test, *bleu, gains, *chrf, *repeats])
    head = ["test set", "Transformer", "gated", "difference", "chrF", "gated", "repeats", "gated"]
    return markdown(head, rows)


def front(results: Results) -> str:
    """The first columns of :func:`quality`."""
    lines = quality(results).strip().splitlines()
    return "\n".join(["", *("|".join(line.split("|")[:5]) + "|" for line in lines), ""])


def budgets(results: Results) -> str:
    """Mean BLEU of the test sets in the domains, by minutes."""
    rows = []
    for minutes in sorted({n["minutes"] for n in runs(results, pair="en-de", joined_lines=True)}):
        some = runs(results, pair="en-de", minutes=minutes, joined_lines=True)
        bleu = {
            name: [in_domain(n) for n in some if n["system"] == name]
            for name in ("transformer", "conv", "gated")
        }
        if bleu["transformer"]:
            cells = [", ".join(f"{value:.1f}" for value in values) for values in bleu.values()]
            decayed = ", rate to 0" * some[0]["decayed"]
            lead = f"{mean(bleu['gated']) - mean(bleu['transformer']):+.1f}"
            rows.append([f"{minutes:g}{decayed}", *(cell or "-" for cell in cells), lead])
    head = ["CPU minutes", "Transformer", "convolutions", "gated", "gated less Transformer"]
    return markdown(head, rows)


def kinds(results: Results) -> str:
    """Every kind of token mixing after 48 minutes on single lines."""
    by_system = {n["system"]: n for n in runs(results, minutes=48, joined_lines=False)}
    rows = []
    for name, heading in SYSTEMS.items():
        n = by_system[name]
        cells = [f"{n['scores'][test]['bleu']:.1f}" for test in sum(TESTS["en-de"], [])]
        size = f"{n['parameters'] / 1e6:.1f} M"
        rows.append([heading, size, f"{n['updates']:,}", *cells, f"{in_domain(n):.1f}"])
    return markdown(["", "size", "updates", *sum(TESTS["en-de"], []), "mean of three"], rows)


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
    rows = [
        [n["change"], f"{n['parameters'] / 1e6:.2f}", f"{n['valid']:.1f}", f"{n['test']:.1f}"]
        for name, n in ((name, r["numbers"]) for name, r in results.items())
        if name.startswith("multi30k/ablation/")
    ]
    return markdown(["change", "M", "validation", "test"], rows)


# ------------------------------------------------------------------------------------- speed


def columns(results: Results, name: str, mode: str = "decode") -> Dict[str, dict]:
    (line,) = results[name]["numbers"][mode]
    return line["columns"]


def milliseconds(column: dict) -> str:
    return f"{number(column['ms_a_step']['median'])} ms"


def speed(results: Results) -> str:
    """The front page: fairseq in float32 on two machines, int8 beside CTranslate2 on one."""
    rows = []
    for machine, heading in MACHINES.items():
        for size, sentences in (("1x4", "one sentence"), ("64x4", "64 sentences")):
            found = columns(results, f"speed/{machine}/decode/{size}/25")
            theirs, ours = found["transformer"], found["resmlp_mt_6"]
            cells = [milliseconds(theirs), milliseconds(ours), number(ours["speed"]["median"])]
            rows.append([f"fairseq float32, {heading}, {sentences}", *cells])
    found = columns(results, "speed/amd/exported/512/1x4")
    theirs, ours = found["CTranslate2 int8"], found["exported int8"]
    ratio = theirs["ms_a_step"]["median"] / ours["ms_a_step"]["median"]
    cells = [milliseconds(theirs), milliseconds(ours), number(ratio)]
    rows.append(["int8, exported and CTranslate2, AMD EPYC, one sentence", *cells])
    return markdown(["a decoding step", "Transformer", "ResMLP", "speed-up"], rows)


def decoding(results: Results) -> str:
    rows = []
    for machine, heading in MACHINES.items():
        for setting in ("1x4/25", "64x4/25", "64x4/100", "64x4/200"):
            found = columns(results, f"speed/{machine}/decode/{setting}")
            times = [milliseconds(found[name]) for name in ("transformer", "resmlp_mt_6")]
            setting = setting.replace("x", " x ").replace("/", ", ")
            rows.append([heading, setting, *times, spread(found["resmlp_mt_6"]["speed"])])
    return markdown(["CPU", "hypotheses, words", "Transformer", "ResMLP", "speed-up"], rows)


def training(results: Results) -> str:
    rows = []
    names = {f"{machine}/train/{layers}": heading for machine, heading in MACHINES.items()
             for layers in ("6", "12")}  # fmt: skip
    names |= {f"amd/train/{kind}": MACHINES["amd"] for kind in ("toeplitz", "gated", "conv")}
    for name, heading in names.items():
        found = columns(results, f"speed/{name}", "train")
        (ours,) = (label for label in found if label != "transformer")
        times = [milliseconds(found[label]) for label in ("transformer", ours)]
        rows.append([heading, f"`{ours}`", *times, spread(found[ours]["speed"])])
    return markdown(["CPU", "", "Transformer", "ours", "speed-up"], rows)


def exported(results: Results) -> str:
    rows = []
    sizes = {"512/1x4": "6 + 6 x 512, 1 x 4", "256/1x4": "3 + 3 x 256, 1 x 4"}
    sizes["256/64x4"] = "3 + 3 x 256, 64 x 4"
    for size, heading in sizes.items():
        found = columns(results, f"speed/amd/exported/{size}")
        for precision in ("float32", "int8"):
            theirs, ours = (found[f"{name} {precision}"] for name in ("CTranslate2", "exported"))
            ratio = theirs["ms_a_step"]["median"] / ours["ms_a_step"]["median"]
            cells = [milliseconds(theirs), milliseconds(ours), number(ratio)]
            rows.append([heading, precision, *cells])
    return markdown(["layers, hypotheses", "", "CTranslate2", "exported", "speed-up"], rows)


def text_to_text(results: Results) -> str:
    """Milliseconds of a sentence of a test set, the published shape."""
    found = results["speed/amd/text/256"]["numbers"]["text"]
    rows = [
        [name, number(n["p50"]), number(n["p95"]), number(n["tokens_per_second"])]
        for name, n in found.items()
    ]
    return markdown(["", "ms a sentence", "95%", "tokens/s in batches"], rows)


def memory(results: Results) -> str:
    """MB by words of both sides: activations of training, what decoding remembers."""
    found = results["speed/amd/memory"]["numbers"]["memory"]
    rows = [
        [words, *(f"{of[part][words] / 1e6:,.0f}"
                  for part in ("training", "decoding")
                  for of in (found["transformer"], found["resmlp_mt_6"]))]
        for words in found["transformer"]["training"]
    ]  # fmt: skip
    return markdown(
        ["words", "training: Transformer", "ours", "decoding: Transformer", "ours"], rows
    )


# ------------------------------------------------------------------------- published models


def model_scores(results: Results) -> str:
    model = results["model/en-de"]["numbers"]
    rows = [[name, f"{s['bleu']:.1f}", f"{s['chrf']:.1f}"] for name, s in model["scores"].items()]
    return markdown(["test set", "sacreBLEU", "chrF"], rows)


def model_training(results: Results) -> str:
    n = results["model/en-de"]["numbers"]
    return (
        f"{n['updates']:,} updates in {n['cpu_minutes']:.0f} CPU minutes of one core, "
        f"{n['parameters'] / 1e6:.2f} million parameters"
    )


def model_sentences(results: Results) -> str:
    return markdown(["English", "German"], results["model/en-de"]["numbers"]["sentences"])


def quickstart(results: Results) -> str:
    n = results["quickstart"]["numbers"]
    return f"BLEU {n['bleu']:.1f} after {n['cpu_minutes']:.1f} CPU minutes of training"


MARKS = {
    "quality": quality,
    "front quality": front,
    "budgets": budgets,
    "kinds": kinds,
    "multi30k": multi30k,
    "ablations": ablations,
    "front speed": speed,
    "decoding": decoding,
    "training": training,
    "exported": exported,
    "text to text": text_to_text,
    "memory": memory,
    "model scores": model_scores,
    "model training": model_training,
    "model sentences": model_sentences,
    "quickstart": quickstart,
}


def pages() -> List[Path]:
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
