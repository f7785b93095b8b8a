#!/usr/bin/env python3
"""Every table and number between marks in the Markdown files, rebuilt from result files.

    python scripts/tables.py            # write them
    python scripts/tables.py --check    # change nothing, name the files that are not up to date

A mark is <!-- NAME --> before the text and <!-- /NAME --> behind it.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import Dict, List

ROOT = Path(__file__).resolve().parents[1]
STABILITY = ROOT / "scripts" / "results" / "stability.json"
sys.path[1:1] = [str(ROOT / folder) for folder in (".", "examples/multi30k")]

import deploy_tables  # noqa: E402
import mixed_tables  # noqa: E402
import speed_tables  # noqa: E402
from study import result_files  # noqa: E402
from study import tables as study_tables  # noqa: E402

from resmlp_mt.cli.terminal import run_main  # noqa: E402
from resmlp_mt.errors import UserError  # noqa: E402
from resmlp_mt.files import read_json  # noqa: E402

Texts = Dict[str, str]


def markdown(table) -> str:
    """A table (heading, rows) in Markdown; text as it is."""
    if isinstance(table, str):
        return table
    head, rows = table
    lines = [f"| {' | '.join(cells)} |" for cells in [head, *rows]]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def texts() -> Texts:
    """What stands between the marks of each name, in whichever page they are."""
    results = result_files.load()
    makers = {**study_tables.TABLES, **study_tables.FRONT, **study_tables.SENTENCES}
    found = {name: make(results) for name, make in makers.items()}
    for tables in (speed_tables, deploy_tables, mixed_tables):
        found |= {name: make() for name, make in tables.TABLES.items()}
    found["quickstart cost"] = quickstart()
    found["browser"] = browser()
    found["warm-up"] = warm_up(read_json(STABILITY)["details"]["trainings"])
    return {name: markdown(table) for name, table in found.items()}


def quickstart() -> str:
    """What the quickstart took, and its score."""
    result = read_json(ROOT / "examples" / "quickstart" / "result.json")
    scores, minutes = result["scores"], result["cost"]
    return (
        f"{minutes['wall_minutes']:.1f} minutes on two cores ({minutes['cpu_minutes']:.1f} CPU "
        f"minutes) give sacreBLEU {scores['bleu']:.1f} and chrF {scores['chrf']:.1f}"
    )


def warm_up(trainings: List[dict]) -> str:
    """What became of Adagrad at the rate of the paper, without warm-up and with its own."""
    paper = [t for t in trainings if t["rate"] == 0.2]
    without = [t for t in paper if t["warm_up"] == 0]
    whole, short = ([t for t in paper if t["warm_up"] == n] for n in (32000, 400))
    assert all(t["diverged"] for t in without)
    assert not any(t["diverged"] for t in whole + short)
    depths = ", ".join(str(t["layers"]) for t in without)
    return (
        f"Without warm-up a rate of 0.2 ended in NaN within {max(t['done'] for t in without) + 1} "
        f"updates at {depths} layers\nof {without[0]['channels']} channels. With "
        f"{short[0]['warm_up']} updates of warm-up {short[0]['done'] - short[0]['warm_up']} updates"
        " at 0.2 were finite at each depth. With the\n"
        f"{whole[0]['warm_up']:,} of the paper {whole[0]['done']:,} updates were, which end at a "
        f"rate of {whole[0]['last_rate']:.3f}."
    )


def browser() -> tuple:
    """What the check of the page of examples/browser found."""
    result = read_json(ROOT / "examples" / "browser" / "result.json")
    model, versions, of = result["model"], result["versions"], f"of {result['sentences']}"
    loaded, of_model, of_runtime = (
        f"{result[f'bytes_{name}'] / 1e6:.1f} MB" for name in ("loaded", "of_model", "of_runtime")
    )
    seconds = sorted(result["seconds_to_first_translation"])
    layers, channels = " + ".join(map(str, model["layers"])), model["channels"][1]
    rows = [
        ["model", f"{layers} layers, {channels} channels, {model['precision']}"],
        ["translations that are those of `runtime.py`", f"{result['same_translation']} {of}"],
        [f"all {result['beam']} of the beam are", f"{result['same_alternatives']} {of}"],
        ["loaded", f"{loaded}: the model {of_model}, ONNX Runtime {of_runtime}"],
        [
            "time to the first translation",
            f"{seconds[len(seconds) // 2]:.1f} s ({seconds[0]:.1f} to {seconds[-1]:.1f}) from a "
            f"server on the same computer, nothing stored ({result['processor']}, load "
            f"{result['load_average']:.0f})",
        ],
        [
            "versions",
            f"Chromium {versions['chromium']}, ONNX Runtime Web {versions['onnxruntime-web']}, "
            f"node {versions['node'].lstrip('v')}",
        ],
    ]
    return ["what", "found"], rows


def pages() -> List[Path]:
    """The Markdown files of the repository."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("scripts/**/*.md")]
    for folder in ("*", "*/study", "*/model"):
        found += ROOT.glob(f"examples/{folder}/*.md")
    return sorted(found)


def marks(text: str) -> List[str]:
    """The names of the marks in a page."""
    return re.findall(r"<!-- /(.+?) -->", text)


def fill(text: str, found: Texts) -> str:
    """Put each text between its marks: lines below the mark, one line of text behind it.

    Raises:
        UserError: for a mark that is not closed, or of which nothing is known.
    """
    for name in marks(text):
        if name not in found:
            raise UserError(f"nothing is known of the mark <!-- {name} -->: delete it")
        pattern = re.compile(
            rf"<!-- {re.escape(name)} -->.*?<!-- /{re.escape(name)} -->", re.DOTALL
        )
        if not pattern.search(text):
            raise UserError(f"<!-- /{name} --> has no <!-- {name} --> before it")
        between = f"\n{found[name]}\n" if "\n" in found[name] else found[name]
        filled = f"<!-- {name} -->{between}<!-- /{name} -->"
        text = pattern.sub(lambda _, new=filled: new, text)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    changed = {}
    found, filled = texts(), set()
    for path in pages():
        text = path.read_text(encoding="utf-8")
        filled.update(marks(text))
        try:
            new = fill(text, found)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        if new != text:
            changed[path] = new
    if set(found) - filled:
        raise UserError(f"no page has the marks of {', '.join(sorted(set(found) - filled))}")
    if args.check and changed:
        raise UserError(f"not as the result files say: {', '.join(map(str, changed))}: make tables")
    for path, new in changed.items():
        path.write_text(new, encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(run_main(main))
