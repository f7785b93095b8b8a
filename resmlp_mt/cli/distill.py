"""Replace the target side of a training text by translations of a teacher.

  resmlp-mt distill --path teacher.pt --data DATA/data-bin \\
      --source DATA/text/train.en --target DATA/text/train.de --out distilled/train

This writes distilled/train.en and distilled/train.de, one sentence a line in the order of the
input, and distilled/train.json, which says how they were made. The teacher is any fairseq
translation model, or an ensemble. A run that was stopped resumes. distilled/train.beams keeps the
hypotheses of the teacher: with --beams another --out takes its targets from there.

Set --lenpen to the length penalty that is best for the teacher on your validation set. A student
learns the length of what it is given: with a penalty that is too low it writes too little.
"""

import argparse
from pathlib import Path

from resmlp_mt.cli.translate import add_search_arguments, search_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this subcommand."""
    path = {"type": Path, "required": True}
    parser.add_argument("--source", **path, metavar="FILE", help="training text, plain or .gz")
    parser.add_argument("--target", **path, metavar="FILE", help="its target side")
    parser.add_argument(
        "--out", **path, metavar="DIR/train", help="first part of the names of the new files"
    )
    add_search_arguments(parser)
    parser.add_argument(
        "--interpolate",
        action="store_true",
        help="take the hypothesis in the beam that is closest to the reference by sentence BLEU",
    )
    parser.add_argument(
        "--failures",
        choices=("reference", "drop", "keep"),
        default="reference",
        help="where the output is empty, reaches the longest length or has an unknown word: take "
        "the reference, drop the pair, or keep the output. OUT.failures.tsv lists them "
        "(default: reference)",
    )
    parser.add_argument(
        "--beams", type=Path, metavar="DIR", help="folder of the hypotheses (default: OUT.beams)"
    )


def run(args: argparse.Namespace) -> None:
    """Distill, and print what was made to standard output."""
    from resmlp_mt.translate.distillation import distill, report

    options = search_options(args, nbest=args.beam)
    files = (args.source, args.target, args.out)
    print(report(distill(options, *files, args.interpolate, args.failures, args.beams)))
