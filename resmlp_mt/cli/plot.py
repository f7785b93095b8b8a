"""Draw the matrices of a checkpoint, or learning curves, at the size of a printed column (8 cm).

  resmlp-mt plot matrices run/model -o A.png
  resmlp-mt plot curves run/checkpoints/train.log other/train.log -o curves.png

Each kind has its own options: resmlp-mt plot KIND --help.
"""

import argparse
from pathlib import Path

from resmlp_mt.cli.arguments import FILE, WHOLE
from resmlp_mt.errors import UserError

MOST_HEADS = 8  # per layer
KINDS = {
    "matrices": "the mixing matrix A of every layer as a heat map, by depth",
    "curves": "learning curves of one or more trainings",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    for kind, text in KINDS.items():
        subparser = kinds.add_parser(kind, help=text, description=text, allow_abbrev=False)
        add = subparser.add_argument
        help = ".png or .svg file to write; may be given more than once"
        add("-o", "--output", **FILE, action="append", required=True, help=help)
        add("--title", metavar="TEXT", help="title of the picture, '' for none")
        if kind == "matrices":
            add("checkpoint", type=Path, help="a resmlp_mt checkpoint, or its folder")
            add("--length", **WHOLE, default=32, help="positions of A to draw (default: 32)")
        else:
            help = "log of fairseq-train, in its format simple or json"
            add("curves", nargs="+", metavar="[LABEL=]FILE", help=help)


def figure_of(args: argparse.Namespace):
    if args.kind == "curves":  # needs no PyTorch
        from resmlp_mt.plot.curves import draw_curves, read_curves

        title = "Learning curves" if args.title is None else args.title
        return draw_curves(read_curves(args.curves), title)
    from resmlp_mt.pipeline.translate.options import checkpoint_paths
    from resmlp_mt.plot.matrices import arrange, draw_matrices, mixing_matrices

    path: Path = args.checkpoint
    if path.is_dir():
        (path,) = checkpoint_paths(str(path))
    matrices = mixing_matrices(path, args.length)
    count = len(next(iter(matrices.values())))
    shown = f", heads 1 to {MOST_HEADS} of {count}" if count > MOST_HEADS else ""
    title = f"Mixing matrices A by depth{shown}" if args.title is None else args.title
    return draw_matrices(arrange(matrices, range(1, min(count, MOST_HEADS) + 1)), title)


def run(args: argparse.Namespace) -> None:
    try:
        from resmlp_mt.plot.style import check_pictures, save
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise UserError("pictures need matplotlib: pip install '.[plot]'") from None
    check_pictures(args.output)
    save(figure_of(args), *args.output)
    print(*args.output, sep="\n")
