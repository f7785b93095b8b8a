"""Draw a checkpoint, its training or its translations, at the size of a printed column (8 cm).

  resmlp-mt plot matrices checkpoint.pt -o A.png
  resmlp-mt plot curves train.log other.json -o curves.png
  resmlp-mt plot attention run/model/model.pt --sentence "A dog ." -o attention.png
  resmlp-mt plot length ours=hyp.de theirs=generate.log --references test.de -o length.png

resmlp-mt plot KIND --help shows the options of each kind.
"""

import argparse
from pathlib import Path

from resmlp_mt.cli.arguments import LANGUAGE_PAIR, LENPEN, WHOLE, number
from resmlp_mt.errors import UserError

KINDS = {
    "matrices": "the mixing matrix A of every layer as a heat map, by depth",
    "rows": "rows of A as curves, or, for weights by distance alone, one curve per head",
    "sparsity": "share of small weights in A, B and C by layer, the figure of the paper",
    "curves": "learning curves",
    "attention": "cross-attention for a sentence, pieces along the axes",
    "length": "BLEU by sentence length",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    for kind, text in KINDS.items():
        add_kind(kinds.add_parser(kind, help=text, description=text, allow_abbrev=False), kind)


def add_kind(parser: argparse.ArgumentParser, kind: str) -> None:
    """The options of one kind of picture."""
    add, file = parser.add_argument, {"type": Path, "metavar": "FILE"}
    help = ".png or .svg file to write. May be given more than once"
    add("-o", "--output", **file, action="append", required=True, help=help)
    add("--title", metavar="TEXT", help="heading of the picture, '' for none")
    if kind in ("matrices", "rows", "sparsity", "attention"):
        add("checkpoint", type=Path, help="checkpoint of a resmlp_mt model")
    if kind in ("matrices", "rows", "sparsity"):
        help = "positions of A to look at: the length of a long training sentence (default: 32)"
        add("--length", **WHOLE, default=32, help=help)
    if kind in ("matrices", "rows"):
        add("--head", **WHOLE, nargs="+", help="heads, from 1 (default: at most 8)")
    if kind == "rows":
        help = "rows t, from 0 (default: four in between)"
        add("--row", type=int, metavar="N", nargs="+", help=help)
        add("--reach", **WHOLE, default=12, help="largest distance s - t shown (default: 12)")
    elif kind == "sparsity":
        help = "small is below this share of the largest weight of the matrix (default: 0.05)"
        add("--threshold", type=number, default=0.05, metavar="X", help=help)
    elif kind == "curves":
        help = "log of fairseq-train --log-format json, or result file with valid_curve (.json)"
        add("curves", nargs="+", metavar="[LABEL=]FILE", help=help)
    elif kind == "attention":
        help = "folder with the dictionaries (default: the folder of the checkpoint)"
        add("--data", type=Path, metavar="DIR", help=help)
        add("--sentence", required=True, metavar="TEXT", help="source sentence")
        help = "SentencePiece model (default: that of --data. Without one the text is in pieces)"
        add("--spm", **file, help=help)
        help = "translation to look at (default: that of the model)"
        add("--translation", metavar="TEXT", help=help)
        add("--layer", **WHOLE, nargs="+", help="layers of the decoder (default: the last)")
        add("--beam", **WHOLE, default=4, help="beam size (default: 4)")
        help = "length penalty (default: what resmlp-mt run chose and stored beside the model, or "
        add("--lenpen", **LENPEN, help=help + "0.6)")
    elif kind == "length":
        help = "translations, one a line, or a log of fairseq-generate"
        add("systems", nargs="+", metavar="NAME=FILE", help=help)
        add("--references", **file, required=True, help="references, one sentence a line")
        add("--language-pair", "-l", **LANGUAGE_PAIR)
        add("--source", **file, help="count the words of this text (default: of the references)")
        help = "longest sentence of each bucket but the last (default: 10 20 30 40 50 60)"
        edges = (10, 20, 30, 40, 50, 60)
        add("--edges", type=int, nargs="+", default=edges, metavar="WORDS", help=help)
        add("--baseline", metavar="NAME", help="draw the differences from this system")


def run(args: argparse.Namespace) -> None:
    try:
        from resmlp_mt.plot.kinds import DRAW
        from resmlp_mt.plot.style import check_pictures, save
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise UserError("pictures need matplotlib: pip install '.[plot]'") from None
    check_pictures(args.output)
    save(DRAW[args.kind](args), *args.output)
    print("\n".join(map(str, args.output)))
