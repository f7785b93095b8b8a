"""Translate a text: the same number of lines in the same order.

  echo "I like tea." | resmlp-mt translate
  resmlp-mt translate --path run/model --input test.en --output test.de
  resmlp-mt translate --path averaged.pt --data DATA/data-bin < test.en > test.de

The model is a checkpoint of any fairseq translation model, an ensemble of them, or a folder of
resmlp-mt run or export. The folder --data says how text is split into subwords.
"""

import argparse
from dataclasses import fields
from pathlib import Path

from resmlp_mt.cli.arguments import USER_DIR
from resmlp_mt_runtime import command
from resmlp_mt_runtime.arguments import FILE
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.folder import CONFIG

__doc__ = (__doc__ or "") + command.LINES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help = "checkpoint, folder of resmlp-mt run (OUT/model) or resmlp-mt export, or a published "
    help += "model: resmlp_mt.en-de (default) or resmlp_mt.en-fr; A.pt:B.pt is an ensemble"
    add("--path", metavar="PATH", help=help)
    command.add_arguments(parser)
    help = "folder of the dictionaries and subwords (default: that of the checkpoint)"
    add("--data", type=Path, metavar="DIR", help=help)
    add("--spm", **FILE, help="SentencePiece model, for data not made by resmlp-mt prepare")
    add("--fp16", action="store_true", default=None, help="compute in float16, on a GPU")
    add("--cpu", action="store_true", help="do not use a GPU")
    add("--user-dir", **USER_DIR)


def run(args: argparse.Namespace) -> None:
    """Wrong options and missing files are refused before a model is loaded."""
    from resmlp_mt.pipeline.translate.options import SearchOptions, published_model

    path = args.path or published_model()
    if (Path(path) / CONFIG).is_file():
        for name in ("data", "spm", "fp16", "user_dir"):
            if getattr(args, name) is not None:
                option = name.replace("_", "-")
                raise UserError(f"--{option}: only for checkpoints, but {path} is an export")
        command.run(args, *command.model_of(Path(path), vars(args)))
        return
    if args.engine:
        raise UserError(f"--engine: only for folders of resmlp-mt export, but {path} is not one")
    names = [each.name for each in fields(SearchOptions) if hasattr(args, each.name)]
    options = SearchOptions.beside(path, **{name: getattr(args, name) for name in names})

    def load():
        from resmlp_mt.pipeline.translate.translator import Translator

        return Translator(options)

    files = [*options.paths, options.text.subword_model, *options.data.glob("dict.*.txt")]
    command.run(args, load, options.source(), files)
