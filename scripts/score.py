#!/usr/bin/env python3
"""Scores of translations, or of fairseq-generate's own output, against references.

score.py --hypotheses FILE --references FILE      (one sentence a line)
score.py --generated LOG --references FILE --pair en-de

Files are plain or .gz; one of them may be - for standard input. sacreBLEU and chrF come with their
signatures. With --pair (or --lang) there is tokenized BLEU too, for German also with compounds
split, and the paper's row of Table 5 beside it.
"""

import argparse
import re
import sys
from pathlib import Path

from resmlp_mt.analysis.by_length import EDGES
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.files import write_json
from resmlp_mt.score.evaluation import evaluate
from resmlp_mt.score.report import report, systems_by_length
from resmlp_mt.score.scoring import read_generated, read_system
from resmlp_mt.text.lines import check_one_stdin, check_same_lines, name_of, read_text


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--hypotheses", type=Path, help="translations, one a line")
    given.add_argument("--generated", type=Path, help="output of fairseq-generate")
    parser.add_argument("--references", type=Path, required=True, help="references, one a line")
    languages = parser.add_mutually_exclusive_group()
    languages.add_argument("--pair", metavar="SRC-TGT", help="en-de, en-fr ...")
    languages.add_argument("--lang", metavar="TGT", help="the same as --pair en-TGT")
    parser.add_argument(
        "--baseline",
        type=Path,
        metavar="FILE",
        help="a second system's translations or fairseq-generate log: paired bootstrap against it",
    )
    parser.add_argument("--samples", type=int, default=1000, help="of the bootstrap (1000)")
    parser.add_argument("--seed", type=int, default=12345, help="of the bootstrap (12345)")
    parser.add_argument(
        "--by-length", type=Path, metavar="PICTURE", help="BLEU by sentence length: .png or .svg"
    )
    parser.add_argument(
        "--source", type=Path, metavar="FILE", help="lengths are the source's, not the references'"
    )
    parser.add_argument(
        "--edges",
        type=int,
        nargs="+",
        default=EDGES,
        metavar="WORDS",
        help=f"longest sentence of each bucket but the last ({' '.join(map(str, EDGES))})",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all of it as JSON too")
    args = parser.parse_args()
    if args.source and not args.by_length:
        parser.error("--source is for --by-length: give both")
    return args


def check_outputs(args: argparse.Namespace) -> None:
    """Refuse what could not be written, before anything is computed."""
    for path in filter(None, (args.by_length, args.json)):
        if path.is_dir() or not path.parent.is_dir():
            raise UserError(f"{path}: name a file in a folder that is there")
    if args.by_length:
        if args.by_length.suffix not in (".png", ".svg"):
            raise UserError(f"{args.by_length}: name a .png or .svg file")
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            raise UserError("--by-length needs matplotlib: pip install matplotlib") from None


def main() -> None:
    args = parse()
    pair = args.pair or (f"en-{args.lang}" if args.lang else None)
    if pair and not re.fullmatch(r"[a-z]+-[a-z]+", pair):
        raise UserError(f"--pair {pair}: give two languages, such as en-de")
    check_outputs(args)
    check_one_stdin(
        hypotheses=args.hypotheses,
        generated=args.generated,
        references=args.references,
        baseline=args.baseline,
        source=args.source,
    )
    path = args.generated or args.hypotheses
    hypotheses = read_generated(path) if args.generated else read_text(path)
    references = read_text(args.references)
    baseline = read_system(args.baseline) if args.baseline else None
    source = read_text(args.source) if args.source else None
    for what, other, lines in (
        ("hypotheses", path, hypotheses),
        ("hypotheses", args.baseline, baseline),
        ("sources", args.source, source),
    ):
        if lines is not None:
            check_same_lines(other, lines, args.references, references, what)

    result = {
        "hypotheses": name_of(path),
        "references": name_of(args.references),
        **({"baseline": name_of(args.baseline)} if args.baseline else {}),
        **evaluate(
            hypotheses,
            references,
            pair,
            baseline,
            args.samples,
            args.seed,
            args.edges if args.by_length else None,
            source,
        ),
    }
    if args.by_length:
        from resmlp_mt.pictures.length import draw_by_length  # needs matplotlib
        from resmlp_mt.pictures.style import save

        title, side = "BLEU by sentence length", result["by_length"]["words_of"]
        save(draw_by_length(systems_by_length(result), side, title), args.by_length)
    if args.json:
        write_json(args.json, result)
    sys.stdout.write(report(result))  # all at once: its reader may want the first lines only


if __name__ == "__main__":
    sys.exit(run_main(main))
