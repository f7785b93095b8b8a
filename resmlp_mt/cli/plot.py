"""Draw a checkpoint, its training or its translations, at the size of a printed column (8 cm).

  resmlp-mt plot all checkpoint.pt -o DIR          all that there is input for, as .png and .svg
  resmlp-mt plot matrices checkpoint.pt -o A.png
  resmlp-mt plot curves train.log other.json -o curves.png
  resmlp-mt plot attention checkpoint.pt --data data-bin --sentence "A dog ." -o attention.png
  resmlp-mt plot length ours=hyp.de theirs=generate.log --references test.de -o length.png

resmlp-mt plot KIND --help shows the options of each kind.
"""

import argparse
from pathlib import Path

from resmlp_mt.errors import UserError, check_finite, check_positive

KINDS = {
    "all": "every picture that there is input for",
    "matrices": "the mixing matrix A of every layer as a heat map, by depth",
    "rows": "rows of A as curves; for weights by distance a curve for each head",
    "sparsity": "share of small weights in A, B and C by layer: the paper's figure",
    "curves": "learning curves",
    "attention": "cross-attention for a sentence, pieces along the axes",
    "length": "BLEU by sentence length",
    "pruning": "BLEU against the share of weights pruned",
}
OF_A_CHECKPOINT = ("all", "matrices", "rows", "sparsity", "attention")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    for kind, text in KINDS.items():
        add_kind(kinds.add_parser(kind, help=text, description=text, allow_abbrev=False), kind)


def add_kind(one: argparse.ArgumentParser, kind: str) -> None:
    """The options of one kind of picture; ``all`` has those of several."""
    every = kind == "all"
    if kind in OF_A_CHECKPOINT:
        one.add_argument("checkpoint", type=Path, help="of a resmlp_mt model")
    if every:
        one.add_argument("-o", "--output", type=Path, required=True, help="folder to write")
        one.set_defaults(title=None, head=None, row=None, reach=12, threshold=0.05)
    else:
        one.add_argument(
            *("-o", "--output"),
            type=Path,
            action="append",
            required=True,
            help=".png or .svg; may be given more than once",
        )
        one.add_argument("--title", help="heading of the picture; '' for none")
    if kind in ("all", "matrices", "rows", "sparsity"):
        one.add_argument(
            "--length",
            type=int,
            default=32,
            help="positions of A, as many as the longest sentences of which training had many (32)",
        )
    if kind in ("matrices", "rows"):
        one.add_argument("--head", type=int, nargs="+", help="from 1 (default: at most 8)")
    if kind == "rows":
        one.add_argument("--row", type=int, nargs="+", help="t, from 0 (default: four in between)")
        one.add_argument("--reach", type=int, default=12, help="largest distance s - t shown (12)")
    if kind == "sparsity":
        one.add_argument(
            "--threshold",
            type=float,
            default=0.05,
            help="small: below this share of the largest weight of a matrix (0.05)",
        )
    if kind in ("all", "curves"):
        one.add_argument(
            "--curves" if every else "curves",
            nargs="+",
            metavar="[LABEL=]FILE",
            help="log of fairseq-train --log-format json, or result file with valid_curve (.json)",
        )
    if kind in ("all", "attention"):
        one.add_argument(
            "--data", type=Path, required=not every, help="folder with the dictionaries"
        )
        one.add_argument(
            "--spm",
            type=Path,
            metavar="FILE",
            help="(default: the one in --data; if it has none, the text is in pieces already)",
        )
        one.add_argument("--sentence", required=not every, metavar="TEXT", help="to be translated")
        one.add_argument(
            "--translation", metavar="TEXT", help="in place of the translation by the model"
        )
        one.add_argument("--layer", type=int, nargs="+", help="of the decoder (default: the last)")
        one.add_argument("--beam", type=int, default=4, help="(4)")
        one.add_argument("--lenpen", type=float, default=0.6, help="length penalty (0.6)")
    if kind in ("all", "length"):
        one.add_argument(
            "--systems" if every else "systems",
            nargs="+",
            metavar="NAME=FILE",
            help="translations, one a line, or a log of fairseq-generate",
        )
        one.add_argument("--references", type=Path, required=not every, help="one sentence a line")
        one.add_argument("--source", type=Path, help="lengths are its, not those of the references")
        one.add_argument(
            "--edges",
            type=int,
            nargs="+",
            default=(10, 20, 30, 40, 50, 60),
            metavar="WORDS",
            help="longest sentence of each bucket but the last (10 20 30 40 50 60)",
        )
    if kind in ("all", "pruning"):
        one.add_argument(
            "--pruning" if every else "pruning",
            type=Path,
            metavar="FILE",
            help="result of resmlp-mt prune --sweep",
        )


def run(args: argparse.Namespace) -> None:
    for name in ("length", "reach", "beam"):
        if hasattr(args, name):
            check_positive(args, name)
    for name in ("lenpen", "threshold"):
        if hasattr(args, name):
            check_finite(args, name)
    try:
        from resmlp_mt.pictures import kinds
        from resmlp_mt.pictures.style import check_pictures, save
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise UserError("pictures need matplotlib: pip install matplotlib") from None
    if args.kind == "all":
        written, left_out = kinds.draw_all(args, args.output)
        print("\n".join([*map(str, written), *left_out]))
        return
    check_pictures(args.output)
    save(kinds.DRAW[args.kind](args), *args.output)
    print("\n".join(map(str, args.output)))
