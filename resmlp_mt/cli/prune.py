"""Set small weights to zero: those below a share of the largest weight of their matrix.

  resmlp-mt prune checkpoint.pt -o pruned.pt             below 5%, as in the paper, in A, B and C
  resmlp-mt prune checkpoint.pt -o pruned.pt --which A --threshold 0.2

The model is not trained again. A mixes positions. B and C (fc1 and fc2) mix channels. Of A only
the weights that sentences of --length tokens use are counted, because training hardly changes the
others.
"""

import argparse
from pathlib import Path

from resmlp_mt.cli.arguments import WHOLE, number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add, file = parser.add_argument, {"type": Path, "metavar": "FILE"}
    add("checkpoint", type=Path, help="checkpoint of a resmlp_mt model, not folded")
    add("-o", "--output", **file, required=True, help="checkpoint to write")
    help = "share of the largest weight of a matrix (default: 0.05)"
    add("--threshold", type=number, default=0.05, metavar="SHARE", help=help)
    add("--which", nargs="+", choices=("A", "B", "C"), help="matrices (default: all)")
    help = "positions of A to look at: the length of a long training sentence (default: 32)"
    add("--length", **WHOLE, default=32, help=help)


def run(args: argparse.Namespace) -> None:
    from resmlp_mt.plot.pruning import prune_checkpoint

    counts = prune_checkpoint(args.checkpoint, args.output, args.threshold, args.which, args.length)
    for kind, count in counts.items():
        print(f"{kind}: {count.share:6.1%} removed, {count.small:,} of {count.total:,} weights")
    print(args.output)
