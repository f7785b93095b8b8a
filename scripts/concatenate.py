#!/usr/bin/env python3
"""A training text with longer lines behind it, each made of several of its own pairs.

concatenate.py --source train.en --target train.de --output-prefix longer/train

writes longer/train.en and longer/train.de: the text, then half as many pairs again, each of two to
four drawn at random. A model that is to translate lines longer than training's learns to by these
(examples/multi30k/README.md, "Long sentences"). Split into subwords afterwards.
"""

import argparse
import sys
from pathlib import Path

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.prepare.concatenation import concatenate

MOST_SHARE = 100  # all is held in memory, so that a slip of the finger must not fill it


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    path = {"type": Path, "required": True}
    parser.add_argument("--source", **path, metavar="FILE", help="training text, plain or .gz")
    parser.add_argument("--target", **path, metavar="FILE", help="its other side")
    parser.add_argument("--output-prefix", **path, metavar="DIR/train")
    parser.add_argument("--most", type=int, default=4, metavar="N", help="pairs in a line (4)")
    parser.add_argument(
        "--share", type=float, default=0.5, metavar="X", help="longer pairs for each pair (0.5)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the drawing (1)")
    args = parser.parse_args()
    if not 0 < args.share <= MOST_SHARE:
        raise UserError(f"--share {args.share:g}: must be above 0 and at most {MOST_SHARE}")
    files = concatenate(
        args.source, args.target, args.output_prefix, args.most, args.share, args.seed
    )
    print("\n".join(map(str, files)))


if __name__ == "__main__":
    sys.exit(run_main(main))
