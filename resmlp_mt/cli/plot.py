"""Draw the mixing matrix A of every layer as a heat map, by depth.

  resmlp-mt plot run/model -o A.png

The picture is as wide as a printed column (8 cm) or, for a deep model, a page (17 cm).
"""

import argparse
from importlib.util import find_spec
from pathlib import Path

from resmlp_mt.cli.arguments import USER_DIR
from resmlp_mt_runtime.arguments import FILE, WHOLE
from resmlp_mt_runtime.errors import UserError, printable
from resmlp_mt_runtime.files import check_output

HEADS, POSITIONS = 2, 16  # of each layer: enough to see bands


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("checkpoint", type=Path, help="a resmlp_mt checkpoint, or its folder")
    add("-o", "--output", **FILE, required=True, help=".png or .svg file to write")
    add("--user-dir", **USER_DIR)
    add("--length", **WHOLE, default=POSITIONS, help=f"positions to draw (default: {POSITIONS})")
    help = f"draw the first N heads of each layer (default: {HEADS})"
    add("--heads", **WHOLE, default=HEADS, help=help)


def figure_of(args: argparse.Namespace):
    from resmlp_mt.pipeline.translate.options import checkpoint_paths
    from resmlp_mt.plot import draw_matrices, mixing_matrices
    from resmlp_mt.plugin import register_user_dir

    if args.user_dir is not None:
        register_user_dir(args.user_dir)
    path: Path = args.checkpoint
    if path.is_dir():
        (path,) = checkpoint_paths(str(path))
    matrices = mixing_matrices(path, args.length)
    of_all = len(matrices["decoder"][0])
    heads = min(of_all, args.heads)
    shown = "" if heads == of_all else f", {heads} of {of_all} heads"
    return draw_matrices(matrices, heads, f"Mixing matrices A by depth{shown}")


def run(args: argparse.Namespace) -> None:
    if find_spec("matplotlib") is None:
        raise UserError("pictures need matplotlib: pip install matplotlib")
    from resmlp_mt.plot import save

    if args.output.suffix not in (".png", ".svg"):
        raise UserError(f"{args.output}: name a .png or .svg file")
    check_output(args.output)
    save(figure_of(args), args.output)
    print(printable(str(args.output)))
