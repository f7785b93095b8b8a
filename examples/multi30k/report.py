#!/usr/bin/env python3
"""The study's tables, from its result files: report.py prints them, report.py --write FILE
--summary FILE puts each between its marks, <!-- NAME --> and <!-- /NAME -->.
"""

import argparse
import sys
from pathlib import Path
from typing import Callable, Dict

from length_tables import lengths, long_sentences
from result_files import load
from run import HERE
from study_tables import (
    ablations,
    further,
    higher_rate,
    other_texts,
    repetitions,
    summary,
    table5,
    trials,
)

from resmlp_mt.analysis.markdown import fill_file
from resmlp_mt.cli.terminal import run_main

TABLES: Dict[str, Callable[[Dict[str, dict]], str]] = {
    "trials": trials,
    "table5 en-de": lambda results: table5(results, "en-de"),
    "table5 en-fr": lambda results: table5(results, "en-fr"),
    "higher rate": higher_rate,
    "ablations": ablations,
    "further": further,
    "repetitions": repetitions,
    "other texts": other_texts,
    "lengths": lengths,
    "long sentences": long_sentences,
}
# of the repository's README
SUMMARY = {"table5 summary": summary}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--write", type=Path, help="a Markdown file with the marks")
    parser.add_argument("--summary", type=Path, help="one with the marks of the summary")
    args = parser.parse_args()
    results = load(args.results)
    if args.write is None and args.summary is None:
        for name, make in {**TABLES, **SUMMARY}.items():
            print(f"\n{name}\n\n{make(results)}")
    for file, makers in ((args.write, TABLES), (args.summary, SUMMARY)):
        if file is not None:
            fill_file(file, {name: make(results) for name, make in makers.items()})


if __name__ == "__main__":
    sys.exit(run_main(main))
