"""All pictures that there is input for, in one folder, as .png and .svg."""

from argparse import Namespace
from pathlib import Path
from typing import Callable, Dict, List, Tuple

from matplotlib.figure import Figure

from resmlp_mt.checkpoints.inspection import HAVE_MATRICES, load_ours, mixing_kind
from resmlp_mt.errors import UserError
from resmlp_mt.files import make_folder
from resmlp_mt.pictures import make
from resmlp_mt.pictures.style import SUFFIXES, save


def everything(args: Namespace) -> Tuple[List[Path], List[str]]:
    """Draw what can be drawn, then write it: bad input leaves no picture.

    Args:
        args: the options of ``plot.py all``.

    Returns:
        the files written, and a line for each picture that was left out, with the reason.

    Raises:
        UserError: what the pictures raise; a folder that cannot be made or written.
    """
    figures: Dict[str, Figure] = {}
    left_out = []

    def draw(name: str, lacks: str, figure: Callable[[], Figure]) -> None:
        if lacks:
            left_out.append(f"{name}: left out, {lacks}")
        else:
            figures[name] = figure()

    kind = mixing_kind(load_ours(args.checkpoint))
    none = "" if kind in HAVE_MATRICES else f"--token-mixing {kind} has no mixing matrices"
    draw("matrices", none, lambda: make.matrices(args.checkpoint, args.length))
    draw("rows", none, lambda: make.rows(args.checkpoint, args.length))
    draw("sparsity", "", lambda: make.shares(args.checkpoint, length=args.length))
    if args.curves:
        figures["curves"] = make.curves(args.curves)
    else:
        try:
            figures["curves"] = make.curves([args.checkpoint.parent / "train.log"])
        except UserError as error:  # nobody asked for that file
            left_out.append(f"curves: left out, it needs --curves ({error})")
    draw(
        "attention",
        "" if args.sentence and args.data_bin else "it needs --sentence and --data-bin",
        lambda: make.attention(
            args.checkpoint,
            args.data_bin,
            args.sentence,
            args.spm,
            args.translation,
            args.layer,
        ),
    )
    pruned = "" if args.pruning else "it needs --pruning"
    draw("pruning", pruned, lambda: make.pruning(args.pruning))
    draw(
        "length",
        "" if args.systems and args.references else "it needs --systems and --references",
        lambda: make.by_length(args.systems, args.references, args.source, args.edges),
    )

    make_folder(args.output)
    written = []
    for name, figure in figures.items():
        files = [args.output / f"{name}{suffix}" for suffix in SUFFIXES]
        save(figure, *files)
        written += files
    return written, left_out
