#!/usr/bin/env python3
"""Every table, number and picture in the pages, rebuilt from docs/results/results.jsonl.

    python scripts/tables.py            # write the pages and the pictures
    python scripts/tables.py --check    # change nothing, name the pages that are not up to date

A mark is <!-- NAME --> before the text and <!-- /NAME --> behind it.
"""

import argparse
import re
import sys
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Dict, List

from pictures import draw
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
COSTS = ("updates", "cpu_minutes")
LONGEST = (("Adam", 116), ("Muon", 36))  # optimizer and minutes
MACHINES = {"amd": "AMD EPYC", "intel": "Intel Xeon"}
Results = Dict[str, dict]


def markdown(head: List[str], rows: List[List[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in [head, *rows]]
    return "\n".join(["", lines[0], "|" + "---|" * len(head), *lines[1:], ""])


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
        rows.append([test, *(" / ".join(pair) for pair in (bleu, chrf, repeats)), gains])
    head = ["", "BLEU", "chrF", "repeats", "gain"]
    return markdown(head, rows)


def front(results: Results) -> str:
    """BLEU alone, a row for each system."""
    systems, tests = longest(results, "en-de"), sum(TESTS["en-de"], [])
    rows = []
    for name, some in systems.items():
        gains = [gain(some[0], test) if name == "gated" else "" for test in tests]
        bleu = [f"{mean(n['scores'][test]['bleu'] for n in some):.1f}" for test in tests]
        cells = [f"{value} ({more})" if more else value for value, more in zip(bleu, gains)]
        rows.append([SYSTEMS[name], *cells])
    return markdown(["", *tests], rows)


def budgets(results: Results) -> str:
    """Mean BLEU of the test sets in the domains, by minutes."""
    some = [n for pair in TESTS for n in runs(results, pair=pair, joined_lines=True)]
    rows = []
    pairs = sorted({(n["pair"], n["minutes"]) for n in some})
    for (pair, minutes), tuned in product(pairs, ("", ", tuned")):
        alike = [n for n in some if (n["pair"], n["minutes"]) == (pair, minutes)]
        bleu = {
            name: [in_domain(n) for n in alike if n["system"] == name + tuned]
            for name in ("transformer", "conv", "gated")
        }
        if bleu["transformer"]:
            cells = [", ".join(f"{value:.1f}" for value in values) for values in bleu.values()]
            budget = f"{minutes:g}{tuned}{', rate to 0' * alike[0]['decayed']}"
            lead = f"{mean(bleu['gated']) - mean(bleu['transformer']):+.1f}"
            rows.append([pair, budget, *(cell or "-" for cell in cells), lead])
    head = ["", "CPU minutes", "Transformer", "convolutions", "gated", "lead"]
    return markdown(head, rows)


def copying(results: Results) -> str:
    """English-French with every character of the text in the vocabulary, and without the rarest."""
    rows = []
    for heading, system in (("unknown", "gated"), ("in bytes", "gated, bytes")):
        (n,) = runs(results, pair="en-fr", system=system, minutes=30)
        news = n["scores"]["newstest2014"]["bleu"]
        rows.append([heading, *(f"{x:.1f}" for x in (in_domain(n), news, 100 * n["copied"]))])
    return markdown(["other characters", "in domain", "newstest2014", "copied, %"], rows)


def curves(results: Results) -> str:
    """Loss on the validation set of the longest English-French trainings, by updates."""
    systems = {name: some[0] for name, some in longest(results, "en-fr").items()}
    losses = {name: dict(n["valid_curve"]) for name, n in systems.items()}
    shared = sorted(set.intersection(*map(set, losses.values())))
    rows = [[f"{update:,}", *(f"{of[update]:.2f}" for of in losses.values())] for update in shared]
    costs = [60 * n["cpu_minutes"] / n["updates"] for n in systems.values()]
    rows.append(["CPU seconds an update", *map(number, costs)])
    return markdown(["updates", *(SYSTEMS[name] for name in systems)], rows)


def trials(results: Results) -> str:
    """Validation loss of short English-French trainings with other options, by system."""
    some = [r["numbers"] for name, r in results.items() if name.startswith("trial/en-fr/")]
    rows = []
    for tokens, *options in sorted({(n["tokens"], *n["set"]) for n in some}):
        alike = {n["system"]: n for n in some if [n["tokens"], *n["set"]] == [tokens, *options]}
        changed = [word.strip("-").replace("=", " ") for word in options]
        losses = {s: f"{n['valid']:.2f} ({n['cpu_minutes']:.0f})" for s, n in alike.items()}
        cells = [losses.get(system, "-") for system in ("transformer", "gated")]
        rows.append([f"{tokens:,}", ", ".join(changed), *cells])
    return markdown(["tokens an update", "options", "Transformer", "gated"], rows)


def optimizers(results: Results) -> str:
    """Validation loss of short English-German trainings with Adam and with Muon."""
    some = [r["numbers"] for name, r in results.items() if name.startswith("trial/en-de/")]
    rows = []
    for options in sorted({tuple(n["set"]) for n in some}):
        given = {"lr": "0.002", **dict(word.split("=") for word in options)}
        alike = {n["system"]: n for n in some if tuple(n["set"]) == options}
        losses = {s: f"{n['valid']:.2f} ({n['cpu_minutes']:.1f})" for s, n in alike.items()}
        cells = [losses.get(system, "-") for system in ("transformer", "gated")]
        rows.append([given["optimizer"], given["lr"], *cells])
    return markdown(["optimizer", "learning rate", "Transformer", "gated"], rows)


def of_optimizers(results: Results) -> Dict[tuple, List[dict]]:
    """English-French Transformers and gated models, by optimizer and minutes."""
    spelled = {("Adam", n): ("transformer", "gated") for n in (30, 60, 116)}
    spelled["Muon", 36] = "transformer, bytes, muon", "gated, bytes, muon"
    return {
        (name, minutes): [runs(results, pair="en-fr", system=s, minutes=minutes)[0] for s in both]
        for (name, minutes), both in spelled.items()
    }


def muon(results: Results) -> str:
    """Adam and Muon after some budgets."""
    rows = []
    for (name, _), both in of_optimizers(results).items():
        cells = [name, *(" / ".join(f"{n[of]:,.0f}" for n in both) for of in COSTS)]
        for of in (in_domain, lambda n: n["scores"]["newstest2014"]["bleu"]):
            cells.append(" / ".join(f"{of(n):.1f}" for n in both))
        repeats = [f"{100 * n['scores']['newstest2014']['repeats']:.1f}%" for n in both]
        rows.append([*cells, " / ".join(repeats)])
    head = ["", "updates", "CPU minutes", "in domain", "newstest2014", "news repeats"]
    return markdown(head, rows)


def muon_curves(results: Results) -> str:
    """Validation loss of the same before the rate falls."""
    found = of_optimizers(results)
    losses = {name: [dict(n["valid_curve"]) for n in found[name, m]] for name, m in LONGEST}
    rows = [
        [
            f"{update:,}",
            *(" / ".join(f"{of[update]:.2f}" for of in some) for some in losses.values()),
        ]
        for update in (1000, 2000)
    ]
    return markdown(["updates", *losses], rows)


def long_sentences(results: Results) -> str:
    """BLEU and repeats by the length of the source, of the longest English-French trainings."""
    systems = [some[0]["by_length"] for some in longest(results, "en-fr").values()]
    rows = []
    for theirs, ours in zip(*systems):
        low, high = theirs["from"], theirs["to"]
        words = f"{max(1, low)} to {high}" if high else f"{low} or more"
        bleu = f"{theirs['bleu']:.1f} / {ours['bleu']:.1f}"
        repeats, begin = (
            f"{100 * theirs[of]:.1f}% / {100 * ours[of]:.1f}%" for of in ("repeats", "begin")
        )
        references = f"{100 * theirs['references_repeat']:.1f}%"
        rows.append([words, bleu, references, repeats, begin if low > 10 else "-"])
    head = ["words of the source", "BLEU", "references repeat", "repeats", "begin at words 9 to 16"]
    return markdown(head, rows)


def positions(results: Results) -> str:
    """Whether positional embeddings keep the gated model from loops in long sentences."""
    rows = []
    for heading, system, minutes in (
        ("Transformer", "transformer", 60),
        ("Transformer, tuned", "transformer, tuned", 50),
        ("gated", "gated", 60),
        ("gated, tuned, with positions", "gated, tuned", 50),
    ):
        (n,) = runs(results, pair="en-fr", system=system, minutes=minutes)
        shares = [n["scores"]["newstest2014"]["repeats"], *(b["begin"] for b in n["by_length"][2:])]
        cells = [f"{n['cpu_minutes']:.0f}", f"{in_domain(n):.1f}"]
        rows.append([heading, *cells, *(f"{100 * share:.1f}%" for share in shares)])
    head = ["", "CPU minutes", "in domain", "news repeats", "11 to 20", "21 to 30", "31 or more"]
    return markdown(head, rows)


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
    """Every kind of token mixing after 48 minutes on single lines."""
    by_system = {n["system"]: n for n in runs(results, minutes=48, joined_lines=False)}
    rows = []
    for name, heading in SYSTEMS.items():
        n = by_system[name]
        out = f"{n['scores']['newstest2014']['bleu']:.1f}"
        rows.append([heading, f"{in_domain(n):.1f}", out])
    return markdown(["", "in domain", "newstest2014"], rows)


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


def columns(results: Results, name: str, mode: str = "decode") -> Dict[str, dict]:
    (line,) = results[name]["numbers"][mode]
    return line["columns"]


def times(found: Dict[str, dict], theirs: str, ours: str) -> List[str]:
    """Milliseconds of both, and the speed-up of the medians."""
    medians = [found[name]["ms_a_step"]["median"] for name in (theirs, ours)]
    return [*map(number, medians), f"{medians[0] / medians[1]:.1f}"]


def speed(results: Results) -> str:
    """The front page: fairseq in float32 on two machines, int8 beside CTranslate2 on one."""
    rows = []
    for machine, heading in MACHINES.items():
        for size, sentences in (("1x4", "1 sentence"), ("64x4", "64 sentences")):
            found = columns(results, f"speed/{machine}/decode/{size}/25")
            rows.append([f"{heading}, {sentences}", *times(found, "transformer", "resmlp_mt_6")])
    for machine, heading in MACHINES.items():
        found = columns(results, f"speed/{machine}/exported/512/1x4")
        cells = times(found, "CTranslate2 int8", "native int8")
        rows.append([f"{heading}, 1 sentence, int8: CTranslate2, native", *cells])
    return markdown(["ms a decoding step", "Transformer", "ResMLP", "speed-up"], rows)


def decoding(results: Results) -> str:
    rows = []
    for machine, heading in MACHINES.items():
        for setting in ("1x4/25", "64x4/25"):
            found = columns(results, f"speed/{machine}/decode/{setting}")
            milliseconds = times(found, "transformer", "resmlp_mt_6")[:2]
            setting = setting.replace("/25", "")
            label = f"{heading}, {setting}"
            rows.append([label, " / ".join(milliseconds), spread(found["resmlp_mt_6"]["speed"])])
    return markdown(["", "ms a step, Transformer / ResMLP", "speed-up"], rows)


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


def model_sentences(results: Results, pair: str) -> str:
    target = {"de": "German", "fr": "French"}[pair.split("-")[1]]
    return markdown(["English", target], results[f"model/{pair}"]["numbers"]["sentences"])


def quickstart(results: Results) -> str:
    n = results["quickstart"]["numbers"]
    return f"BLEU {n['bleu']:.1f} after {n['cpu_minutes']:.1f} CPU minutes of training"


MARKS = {
    "quality": quality,
    "quality en-fr": partial(quality, pair="en-fr"),
    "repetition": repetition,
    "front quality": front,
    "budgets": budgets,
    "curves": curves,
    "copying": copying,
    "trials": trials,
    "optimizers": optimizers,
    "muon": muon,
    "muon curves": muon_curves,
    "long sentences": long_sentences,
    "positions": positions,
    "positions alone": positions_alone,
    "kinds": kinds,
    "multi30k": multi30k,
    "ablations": ablations,
    "front speed": speed,
    "decoding": decoding,
    "training": training,
    "exported": exported,
    **{f"text to text {m}": partial(text_to_text, machine=m) for m in MACHINES},
    **{f"model {pair} scores": partial(model_scores, pair=pair) for pair in TESTS},
    **{f"model {pair} training": partial(model_training, pair=pair) for pair in TESTS},
    **{f"model {pair} sentences": partial(model_sentences, pair=pair) for pair in TESTS},
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
