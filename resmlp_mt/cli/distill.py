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
    add, path = parser.add_argument, {"type": Path, "required": True}
    add("--source", **path, metavar="FILE", help="training text, plain or .gz")
    add("--target", **path, metavar="FILE", help="its target side")
    help = "first part of the names of the new files"
    add("--out", **path, metavar="DIR/train", help=help)
    add_search_arguments(parser)
    help = "take the hypothesis in the beam that is closest to the reference by sentence BLEU"
    add("--interpolate", action="store_true", help=help)
    help = "where the output is empty, reaches the longest length or has an unknown word: take the "
    help += "reference, or drop the pair. OUT.failures.tsv lists them (default: reference)"
    add("--failures", choices=("reference", "drop"), default="reference", help=help)
    help = "folder of the hypotheses (default: OUT.beams)"
    add("--beams", type=Path, metavar="DIR", help=help)


def run(args: argparse.Namespace) -> None:
    """Distill, and print what was made to standard output."""
    from resmlp_mt.translate.distillation import distill, report

    files = (args.source, args.target, args.out)
    made = distill(search_options(args), *files, args.interpolate, args.failures, args.beams)
    print(report(made))
