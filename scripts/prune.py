#!/usr/bin/env python3
"""Zero the weights that are small beside the largest one of their matrix, without training again.

prune.py checkpoint.pt -o pruned.pt                     below the paper's 5%, in A, B and C
prune.py checkpoint.pt -o pruned.pt --which A --threshold 0.2

A mixes positions, B and C (fc1 and fc2) mix channels. Of A, the weights are counted that sentences
of --length tokens use: further out it still is what it was drawn as.
"""

import argparse
import sys
from pathlib import Path

from resmlp_mt.analysis.pruning import KINDS, PAPERS_THRESHOLD, prune_checkpoint
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import check_positive


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", type=Path, help="of a resmlp_mt model, not folded")
    parser.add_argument("-o", "--output", type=Path, required=True, help="checkpoint to write")
    parser.add_argument(
        "--threshold",
        type=float,
        default=PAPERS_THRESHOLD,
        help=f"share of the matrix's largest weight ({PAPERS_THRESHOLD})",
    )
    parser.add_argument(
        "--which", metavar="A,B,C", help="matrices, separated by commas (all that there are)"
    )
    parser.add_argument(
        "--length", type=int, default=32, help="longest sentences of which training had many (32)"
    )
    args = parser.parse_args()
    check_positive(args, "length")
    which = None if args.which is None else args.which.split(",")
    counts = prune_checkpoint(args.checkpoint, args.output, args.threshold, which, args.length)
    for kind in KINDS:
        if kind in counts:
            count = counts[kind]
            print(f"{kind}: {count.share:6.1%} removed, {count.small:,} of {count.total:,} weights")
    print(args.output)


if __name__ == "__main__":
    sys.exit(run_main(main))
