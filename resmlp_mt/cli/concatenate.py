"""A training text with longer lines behind it, each made of several of its own pairs.

  resmlp-mt concatenate --source data/text/train.en --target data/text/train.de \\
      --output-prefix longer/train

writes longer/train.en and longer/train.de: the text, then half as many pairs again, each of two to
four drawn at random. A model that is to translate longer lines than those of its training learns it
from these. Give longer/train to `resmlp-mt prepare --trainpref` afterwards, with --subword-model
for the subwords that were learnt before.
"""

import argparse
from pathlib import Path

from resmlp_mt.cli.arguments import SEED, WHOLE, number
from resmlp_mt.errors import UserError

MOST_SHARE = 100  # so that a slip of the finger does not fill the disk


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add, path = parser.add_argument, {"type": Path, "required": True}
    add("--source", **path, metavar="FILE", help="training text, plain or .gz")
    add("--target", **path, metavar="FILE", help="its target side")
    help = "first part of the names of the new files"
    add("--output-prefix", **path, metavar="DIR/train", help=help)
    add("--most", **WHOLE, default=4, help="most pairs in a line (default: 4)")
    help = "longer pairs for each pair (default: 0.5)"
    add("--share", type=number, default=0.5, metavar="X", help=help)
    add("--seed", **SEED, help="seed (default: 1)")


def run(args: argparse.Namespace) -> None:
    if not 0 < args.share <= MOST_SHARE:
        raise UserError(f"--share {args.share:g}: must be above 0 and at most {MOST_SHARE}")
    from resmlp_mt.prepare.concatenation import concatenate

    files = concatenate(
        args.source, args.target, args.output_prefix, args.most, args.share, args.seed
    )
    print("\n".join(map(str, files)))
