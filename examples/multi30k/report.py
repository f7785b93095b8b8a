#!/usr/bin/env python3
"""The study's tables, from its result files: report.py prints them, report.py --write README.md
puts each between its marks, <!-- NAME --> and <!-- /NAME -->.
"""

import argparse
import sys
from pathlib import Path
from statistics import mean
from typing import Callable, Dict, List

from run import HERE

from resmlp_mt.errors import UserError
from resmlp_mt.pipeline.markdown import fill_file, markdown_table
from resmlp_mt.pipeline.steps import read_json
from resmlp_mt.pipeline.terminal import run_main

TEST = "test_2016_flickr"


def load(folder: Path) -> Dict[str, dict]:
    """The result files of study.py in a folder, by row.

    Raises:
        UserError: if one is cut off or no result of study.py.
    """
    results = {}
    for path in sorted(folder.glob("*.json")):
        result = read_json(path)
        if not isinstance(result, dict):
            raise UserError(f"{path}: not a result of study.py: delete it and make the row again")
        if "row" in result:
            missing = {"table", "label", "command", "recipe", "cost", "versions"} - set(result)
            if missing:
                raise UserError(
                    f"{path}: not a result of study.py ({min(missing)} is missing): delete it and "
                    "make the row again"
                )
            results[result["row"]] = result
    return results


def markdown(head: List[str], lines: List[List[str]]) -> str:
    return markdown_table(head, lines) if lines else "No run of this table is finished yet."


def option(result: dict, name: str, default: str = "") -> str:
    """The last value of an option of fairseq-train, as argparse takes it."""
    options = result["recipe"]["train_options"]
    values = [b for a, b in zip(options, options[1:]) if a == name]
    return values[-1] if values else default


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


def trials(results: Dict[str, dict]) -> str:
    rows = [r for r in results.values() if r["table"] == "trials"]
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
        lines.append([label, *cells, str(best["recipe"]["updates"]), f"{minutes:.1f}"])
    head = ["system", "trial 1", "trial 2", "trial 3", "updates", "CPU minutes"]
    return markdown(head, lines)


def table5(results: Dict[str, dict], pair: str) -> str:
    rows = [
        r
        for r in results.values()
        if r["table"] == "table5" and f"en-{r['recipe']['target']}" == pair
    ]
    lines = []
    for label in dict.fromkeys(r["label"] for r in rows):
        runs = [r for r in rows if r["label"] == label]
        scores = [r["scores"][TEST] for r in runs]
        tokenized = "compound_split_bleu" if pair == "en-de" else "tokenized_bleu"
        lines.append(
            [
                label,
                f"{runs[0]['parameters'] / 1e6:.2f}",
                str(runs[0]["recipe"]["updates"]),
                spread([r["cost"]["cpu_minutes"] for r in runs], 0),
                ", ".join(str(r["recipe"]["seed"]) for r in runs),
                spread([r["valid_nll"]["last"] for r in runs], 2),
                spread([s["bleu"] for s in scores]),
                spread([s["chrf"] for s in scores]),
                spread([s[tokenized] for s in scores]),
            ]
        )
    head = ["system", "parameters, M", "updates", "CPU minutes", "seeds", "validation nll"]
    return markdown([*head, "sacreBLEU", "chrF", "tokenized BLEU"], lines)


def ablations(results: Dict[str, dict]) -> str:
    rows = [r for r in results.values() if r["table"] == "ablations"]
    lines = []
    for r in rows:
        ends = [nll_at(r, epoch) for epoch in (1, 2, 3, 4)]
        minutes = f"{r['cost']['cpu_minutes']:.1f}"
        scores = [f"{r['scores'][split]['bleu']:.1f}" for split in ("valid", TEST)]
        last = f"{r['valid_nll']['last']:.3f}"
        lines.append([r["label"], f"{r['parameters'] / 1e6:.2f}", minutes, *ends, last, *scores])
    head = ["change", "parameters, M", "CPU minutes", "nll, epoch 1", "2", "3", "4", "end"]
    return markdown([*head, "BLEU, validation", "BLEU, test 2016"], lines)


TABLES: Dict[str, Callable[[Dict[str, dict]], str]] = {
    "trials": trials,
    "table5 en-de": lambda results: table5(results, "en-de"),
    "table5 en-fr": lambda results: table5(results, "en-fr"),
    "ablations": ablations,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--write", type=Path, help="a Markdown file with the marks")
    args = parser.parse_args()
    results = load(args.results)
    tables = {name: make(results) for name, make in TABLES.items()}
    if args.write is None:
        for name, table in tables.items():
            print(f"\n{name}\n\n{table}")
    else:
        fill_file(args.write, tables)


if __name__ == "__main__":
    sys.exit(run_main(main))
