#!/usr/bin/env python3
"""The study's runs, each one a training from raw text to a result file.

    MULTI30K=DIR python examples/multi30k/study.py list
    MULTI30K=DIR python examples/multi30k/study.py run ROW [ROW ...] [--jobs 2]
    MULTI30K=DIR python examples/multi30k/study.py run --all

ROW may be a pattern, such as 'trial.*'. What is finished is not made again; a run that was stopped
goes on from its last checkpoint. Result files are written to results/, all else to out/study/.
"""

import argparse
import fnmatch
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import List

from fetch import find_corpora
from plan import VOCABULARY, Row, rows
from run import HERE
from texts import TEXTS

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError, check_positive
from resmlp_mt.files import make_folder, read_json, write_json
from resmlp_mt.run import Experiment, Recipe

OUT, RESULTS = HERE / "out" / "study", HERE / "results"


def experiment(row: Row, out: Path) -> Experiment:
    """The row's experiment; pieces and binary data are shared by all rows of a language pair."""
    recipe = Recipe(
        arch=row.arch,
        source="en",
        target=row.target,
        vocab_size=VOCABULARY,
        updates=row.updates,
        train_options=row.train_options,
        average=3,
        lenpen=[0.6, 1.0, 1.4],
        seed=row.seed,
        threads=1,
    )
    corpora = find_corpora(row.target, HERE / "corpus")
    if row.text == "original":
        return Experiment(out / row.name, recipe, corpora, data_root=row.data(out))
    # with the pieces of the original text, so that the text is the only difference
    same = replace(row, name=row.name.replace(row.text, "table5", 1), text="original")
    experiment(same, out).prepare()
    corpora["train"] = TEXTS[row.text](corpora["train"], out)
    return Experiment(
        out / row.name,
        recipe,
        corpora,
        data_root=row.data(out),
        spm=same.data(out) / "subwords" / "spm.model",
    )


def make(row: Row, out: Path, results: Path) -> None:
    """Run one row, here, and write its result file."""
    run = experiment(row, out)
    result = run.run() if row.scored else run.train()
    command = f"examples/multi30k/study.py run {row.name}"
    head = {"row": row.name, "table": row.table, "label": row.label, "command": command}
    write_json(results / f"{row.name}.json", {**head, **result})


def state(row: Row, out: Path, results: Path) -> str:
    if (results / f"{row.name}.json").exists():
        read_json(results / f"{row.name}.json")  # a file that was cut off is an error, not a result
        return "done"
    return "begun" if (out / row.name).exists() else "to do"


def chosen(patterns: List[str], every: bool) -> List[Row]:
    """
    Raises:
        UserError: if a pattern fits no row.
    """
    known = rows()
    for pattern in patterns:
        if not fnmatch.filter(known, pattern):
            raise UserError(f"{pattern}: no such row: study.py list shows them")
    return [
        row
        for name, row in known.items()
        if every or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    ]


def run_side_by_side(todo: List[Row], args) -> None:
    """Each row in a process of its own, *jobs* at a time; the first failure ends all.

    Raises:
        UserError: if a row fails.
    """
    # what rows share is made once, before they are side by side
    for row in {(row.target, row.text): row for row in todo}.values():
        experiment(row, args.out).prepare()
    waiting, running, failed, start = list(todo), {}, None, time.monotonic()
    try:
        while running or (waiting and not failed):
            while waiting and len(running) < args.jobs and not failed:
                row = waiting.pop(0)
                command = [sys.executable, __file__, "run", row.name, "--jobs", "1"]
                command += ["--out", str(args.out), "--results", str(args.results)]
                log = args.out / f"{row.name}.log"
                with open(log, "a", encoding="utf-8") as file:
                    process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
                running[process] = (row, log)
                print(f"{row.name}: begun (log: {log})", flush=True)
            time.sleep(0.5)
            for process in [p for p in running if p.poll() is not None]:
                row, log = running.pop(process)
                minutes = (time.monotonic() - start) / 60
                if process.returncode:
                    failed = failed or (row, log)
                print(
                    f"{row.name}: {'failed' if process.returncode else 'done'} after {minutes:.1f} "
                    f"minutes; {len(waiting)} to go",
                    flush=True,
                )
    finally:
        for process in running:
            process.terminate()
            process.wait()
    if failed:
        row, log = failed
        last = log.read_text(encoding="utf-8").strip().splitlines()[-1]
        raise UserError(f"{row.name} failed: {last} (its whole output: {log})")


def folder_options(doc: str) -> argparse.ArgumentParser:
    """The options of all that works on the study's runs: where they are, and their results."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=OUT, help="folder of study.py's runs")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of result files")
    return parser


def main() -> None:
    parser = folder_options(__doc__)
    parser.add_argument("action", choices=["list", "run"])
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--all", action="store_true", help="every row")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side, a core each")
    args = parser.parse_intermixed_args()
    check_positive(args, "jobs")
    some = chosen(args.rows, args.all or (args.action == "list" and not args.rows))
    if args.results.exists() and not args.results.is_dir():
        raise UserError(f"--results {args.results}: not a folder: give that of the result files")
    if args.action == "list":
        for row in some:
            print(f"{state(row, args.out, args.results):6}  {row.name:32} {row.updates:6} updates")
        return
    if not some:
        raise UserError("which rows? Name them, or give --all; study.py list shows them")
    make_folder(args.out)
    make_folder(args.results)
    todo = [row for row in some if state(row, args.out, args.results) != "done"]
    print(f"{len(some) - len(todo)} of {len(some)} rows are done", flush=True)
    if len(todo) == 1 or args.jobs == 1:
        for row in todo:
            make(row, args.out, args.results)
    elif todo:
        run_side_by_side(todo, args)


if __name__ == "__main__":
    sys.exit(run_main(main))
