#!/usr/bin/env python3
"""Draw the mixing matrices of a checkpoint, by depth: ``plot_mixing.py checkpoint.pt -o A.png``."""

import argparse
import sys
from pathlib import Path

from resmlp_mt.errors import UserError, check_positive
from resmlp_mt.pipeline.checkpoints import layers_of, mixing_matrices
from resmlp_mt.pipeline.plots import plot_matrices
from resmlp_mt.pipeline.terminal import run_main


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True, help=".png or .svg")
    parser.add_argument("--length", type=int, default=32, help="positions shown (default 32)")
    parser.add_argument("--head", type=int, default=1, help="which head's matrix (default 1)")
    args = parser.parse_args()
    check_positive(args, "length")
    if args.output.suffix not in (".png", ".svg"):
        raise UserError(f"{args.output}: name a .png or .svg file")
    matrices = mixing_matrices(args.checkpoint, args.length)
    heads = next(iter(matrices.values())).size(0)
    if not 1 <= args.head <= heads:
        raise UserError(f"--head {args.head}: this model has {heads}")
    panels = [
        (f"{side}, layer {layer + 1}", matrices[side, layer][args.head - 1].numpy())
        for side in ("encoder", "decoder")
        for layer in layers_of(matrices, side)
    ]
    columns = max(len(layers_of(matrices, side)) for side in ("encoder", "decoder"))
    plot_matrices(panels, args.output, f"Mixing matrices of {args.checkpoint.name}", columns)
    print(args.output)


if __name__ == "__main__":
    sys.exit(run_main(main))
