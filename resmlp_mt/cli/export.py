"""Export a model: a folder that translates without fairseq or PyTorch.

  resmlp-mt export --out exported
  resmlp-mt export run/model --out exported
  resmlp-mt export averaged.pt --data DATA/data-bin --out exported --int8
  python -m resmlp_mt_runtime exported < test.en > test.de

The folder contains only data: weights, subwords, dictionaries, a description with checksums and a
model card. resmlp_mt_runtime, which needs only numpy and sentencepiece, translates with it. export
reports how many lines it translates as PyTorch does: lines of --verify or, without it, 200 lines of
the validation set, if the folder of the run or of --data has one.
"""

import argparse
from pathlib import Path
from typing import Any

from resmlp_mt.cli.arguments import OUT_FOLDER, USER_DIR
from resmlp_mt_runtime.arguments import FILE
from resmlp_mt_runtime.errors import UserError, printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help = "checkpoint of a resmlp_mt model, or folder of resmlp-mt run (default: the published "
    add("checkpoint", nargs="?", help=help + "English-German model)")
    add("--out", **OUT_FOLDER, help="folder to create")
    help = "folder of the dictionaries and subwords (default: that of the checkpoint)"
    add("--data", type=Path, metavar="DIR", help=help)
    add("--spm", **FILE, help="SentencePiece model, for data not made by resmlp-mt prepare")
    add("--user-dir", **USER_DIR)
    stored = dict[str, Any](dest="precision", action="store_const", default="float32")
    one_of = parser.add_mutually_exclusive_group().add_argument
    help = "8 bits per weight: a quarter of the size, faster; translations differ a little"
    one_of("--int8", const="int8", help=help, **stored)
    help = "16 bits per weight: half the size; the arithmetic stays float32"
    one_of("--float16", const="float16", help=help, **stored)
    help = "text on which to compare translations with PyTorch's and, optionally, its references"
    add("--verify", nargs="+", type=Path, default=[], metavar=("FILE", "REFERENCES"), help=help)


def run(args: argparse.Namespace) -> None:
    from resmlp_mt.export.folder import export
    from resmlp_mt.pipeline.translate.options import SearchOptions, published_model
    from resmlp_mt.pipeline.translate.translator import Translator
    from resmlp_mt_runtime.lines import read_text

    given = {"data": args.data, "spm": args.spm, "user_dir": args.user_dir}
    options = SearchOptions.beside(args.checkpoint or published_model(), cpu=True, **given)
    texts = [read_text(path) for path in args.verify]
    if len(texts) > 2 or len(set(map(len, texts))) > 1:
        raise UserError("--verify: give a text, or a text and its translation line by line")
    same = export(Translator(options), args.out, args.precision, texts)
    size = sum(path.stat().st_size for path in args.out.iterdir()) / 1e6
    print(printable(f"{args.out}: {size:.1f} MB, {args.precision}"), same, sep="\n")
