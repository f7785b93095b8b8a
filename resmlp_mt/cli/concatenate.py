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

from resmlp_mt.errors import UserError

MOST_SHARE = 100  # so that a slip of the finger does not fill the disk


def add_arguments(parser: argparse.ArgumentParser) -> None:
    path = {"type": Path, "required": True}
    parser.add_argument("--source", **path, metavar="FILE", help="training text, plain or .gz")
    parser.add_argument("--target", **path, metavar="FILE", help="its target side")
    parser.add_argument(
        "--output-prefix",
        **path,
        metavar="DIR/train",
        help="first part of the names of the new files",
    )
    parser.add_argument(
        "--most", type=int, default=4, metavar="N", help="most pairs in a line (default: 4)"
    )
    parser.add_argument(
        "--share",
        type=float,
        default=0.5,
        metavar="X",
        help="longer pairs for each pair (default: 0.5)",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed (default: 1)")


def run(args: argparse.Namespace) -> None:
    if not 0 < args.share <= MOST_SHARE:
        raise UserError(f"--share {args.share:g}: must be above 0 and at most {MOST_SHARE}")
    from resmlp_mt.prepare.concatenation import concatenate

    files = concatenate(
        args.source, args.target, args.output_prefix, args.most, args.share, args.seed
    )
    print("\n".join(map(str, files)))
