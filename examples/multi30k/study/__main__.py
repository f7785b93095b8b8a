"""The study behind the tutorial, from its runs to its tables and pictures.

    cd examples/multi30k
    MULTI30K=DIR python -m study list                      # every run, and what is done
    MULTI30K=DIR python -m study run 'trial.*' --jobs 2    # make some runs
    MULTI30K=DIR python -m study run --all
    MULTI30K=DIR python -m study measure compare           # and what is read off them
    python -m study report                                 # the tables
    python -m study draw                                   # the pictures

A run whose result file is there is not made again. A run that was stopped resumes.
"""

import argparse
import sys
from pathlib import Path

# for `python examples/multi30k/study` too
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tabulate import tabulate

from resmlp_mt.cli.arguments import Parser, count
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from study import measures, runs
from study.result_files import HERE, RESULTS, load
from study.tables import FRONT, TABLES

OUT = HERE.parent / "out" / "study"


def parse_args() -> argparse.Namespace:
    parser = Parser(
        prog="study", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of result files")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the runs")
    actions = parser.add_subparsers(dest="action", required=True)
    listing = actions.add_parser("list", help="every run, and what is done")
    listing.add_argument("rows", nargs="*", metavar="ROW", help="a name or pattern: 'trial.*'")
    run = actions.add_parser("run", help="make runs")
    run.add_argument("rows", nargs="*", metavar="ROW", help="a name or pattern: 'trial.*'")
    run.add_argument("--all", action="store_true", help="every row")
    run.add_argument("--jobs", type=count, default=2, help="runs side by side, a core each")
    measure = actions.add_parser("measure", help="what is read off the runs")
    measure.add_argument("kinds", nargs="+", choices=list(measures.KINDS))
    report = actions.add_parser("report", help="print the tables")
    draw = actions.add_parser("draw", help="draw the pictures")
    draw.add_argument("--pictures", type=Path, default=HERE / "pictures", help="their folder")
    for action in (listing, run, measure, report, draw):
        # where they stand behind the action too
        action.add_argument("--results", type=Path, default=argparse.SUPPRESS)
        action.add_argument("--out", type=Path, default=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    if args.results.exists() and not args.results.is_dir():
        raise UserError(f"--results {args.results}: not a folder: give that of the result files")
    if args.action == "list":
        for row in runs.chosen(args.rows, not args.rows):
            state = runs.state(row, args.out, args.results)
            print(f"{state:6}  {row.name:36} {row.updates:6} updates")
    elif args.action == "run":
        some = runs.chosen(args.rows, args.all)
        if not some:
            raise UserError("which rows? Name them, or give --all: python -m study list shows them")
        runs.run(some, args.out, args.results, args.jobs)
    elif args.action == "measure":
        for kind in args.kinds:
            print(measures.measure(kind, args.out, args.results))
    elif args.action == "report":
        results = load(args.results)
        for name, make in {**TABLES, **FRONT}.items():
            head, lines = make(results)
            print(f"\n{name}\n\n{tabulate(lines, head, disable_numparse=True)}")
    else:
        from study.draw import draw

        print("\n".join(map(str, draw(load(args.results), args.pictures))))


if __name__ == "__main__":
    sys.exit(run_main(main))
