#!/usr/bin/env python3
"""Fold a checkpoint's affine maps for deployment: ``fold.py checkpoint.pt -o folded.pt``.

fairseq-generate and fairseq-interactive take the result like any checkpoint, with --user-dir.
It only translates: train on with the checkpoint it was made from.
"""

import argparse
import sys
from pathlib import Path

from resmlp_mt.checkpoints.deployment import fold_checkpoint
from resmlp_mt.cli.terminal import run_main


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("checkpoint", type=Path, help="checkpoint of a resmlp_mt model")
    parser.add_argument("-o", "--output", type=Path, required=True, help="checkpoint to write")
    args = parser.parse_args()
    left = fold_checkpoint(args.checkpoint, args.output)
    before, after = (path.stat().st_size / 1e6 for path in (args.checkpoint, args.output))
    maps = "no affine map" if left == 0 else f"{left} affine maps"
    print(f"{args.output}: {maps} left, {after:.1f} MB ({args.checkpoint}: {before:.1f} MB)")


if __name__ == "__main__":
    sys.exit(run_main(main))
