"""Fold the affine maps of a checkpoint into its weights, to translate with it.

  resmlp-mt fold checkpoint.pt --output folded.pt

fairseq-generate and fairseq-interactive take the result like any checkpoint. It has no state of the
optimizer and cannot be trained further: keep the checkpoint that it was made from for that.

An averaged checkpoint has no such state either, and the folded one is larger: its output layer has
a matrix of its own, and token mixing has an offset for each position.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=Path, help="checkpoint of a resmlp_mt model")
    parser.add_argument("--output", "-o", type=Path, required=True, help="checkpoint to write")


def run(args: Namespace) -> None:
    from resmlp_mt.checkpoints.folding import fold_checkpoint

    left = fold_checkpoint(args.checkpoint, args.output)
    before, after = (path.stat().st_size / 1e6 for path in (args.checkpoint, args.output))
    maps = "no affine map" if left == 0 else f"{left} affine maps"
    print(f"{args.output}: {maps} left, {after:.1f} MB ({args.checkpoint}: {before:.1f} MB)")
