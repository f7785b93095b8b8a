"""Translate a text: the same number of lines in the same order.

  echo "I like tea." | resmlp-mt translate
  resmlp-mt translate --path run/model --input test.en --output test.de
  resmlp-mt translate --path averaged.pt --data DATA/data-bin < test.en > test.de

The model is a checkpoint of any fairseq translation model, an ensemble of them, or a folder of
resmlp-mt export. The data folder says whether the text is normalised and how it is split.

A line ends at the line feed. A blank line stays blank. A line that is longer than the model reads
is translated in parts. The output is written as it is made: after a stop, --resume goes on after
its last whole line.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from resmlp_mt.cli.arguments import FILE, LENPEN, WHOLE, count, number
from resmlp_mt.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help = "checkpoint, folder of resmlp-mt run (OUT/model) or resmlp-mt export; A.pt:B.pt is an "
    help += "ensemble (default: the published model, in a clone of the repository)"
    add("--path", metavar="FILE", help=help)
    help = "text, plain or .gz (default: standard input)"
    add("--input", **FILE, default=Path("-"), help=help)
    add("--output", **FILE, default=Path("-"), help="file to write (default: standard output)")
    add("--resume", action="store_true", help="go on after the last whole line of the output")
    help = "dictionaries and subwords of the training (default: beside the checkpoint)"
    add("--data", type=Path, metavar="DIR", help=help)
    help = "SentencePiece model for data that resmlp-mt prepare did not make; nothing is normalised"
    add("--spm", **FILE, help=help)
    add("--beam", **WHOLE, help="beam size (default: 4, or that of the export)")
    help = "length penalty: a higher one gives longer translations (default: what resmlp-mt run "
    add("--lenpen", **LENPEN, help=help + "chose on its validation set, or 0.6)")
    help = "write N lines for each line, the best translation first (default: 1)"
    add("--nbest", **WHOLE, default=1, help=help)
    add("--max-len-a", type=number, metavar="A", help="see B (default: 0)")
    help = "a translation has at most A x source + B subwords (default: 200)"
    add("--max-len-b", type=count, metavar="B", help=help)
    help = "let no N subwords in a row occur twice in a translation (default: they may)"
    add("--no-repeat-ngram-size", type=int, metavar="N", help=help)
    add("--max-tokens", **WHOLE, default=4096, help="source subwords per batch (default: 4096)")
    add("--fp16", action="store_true", default=None, help="compute in float16, on a GPU")
    add("--cpu", action="store_true", help="do not use a GPU")
    add("--threads", **WHOLE, help="CPU threads (default: all cores)")
    help = "translate an export by its graph where the native step is installed, too"
    add("--graph", action="store_true", default=None, help=help)


def engine_of(args: argparse.Namespace):
    """What makes the translator. Wrong options and missing files are refused at once."""
    from resmlp_mt.model_folder import length_penalty
    from resmlp_mt.pipeline.translate.options import (
        SearchOptions,
        checkpoint_paths,
        published_model,
    )

    path = args.path or published_model()
    other = ("run", "path", "input", "output", "resume", "cpu")
    given = {k: v for k, v in vars(args).items() if k not in other and v is not None}
    if (Path(path) / "config.json").is_file():
        from resmlp_mt.export.engine import ExportEngine

        return partial(ExportEngine, Path(path), **given)
    if args.graph:
        raise UserError(f"--graph: is for folders of resmlp-mt export, and {path} is none")
    paths = checkpoint_paths(path)
    beside = paths[0].parent
    given = {"data": beside, **given, "lenpen": length_penalty(args.lenpen, beside)}
    options = SearchOptions(paths=paths, cpu=args.cpu, **given)
    options.text_settings()

    def load():
        from resmlp_mt.pipeline.translate.translator import Translator

        return Translator(options)

    return load


def run(args: argparse.Namespace) -> None:
    from resmlp_mt.pipeline.translate.driver import translate

    done = translate(engine_of(args), args.input, args.output, args.nbest, args.resume)
    if str(args.output) != "-":
        print(
            f"{args.output}: {done['lines']} lines, {done['blank']} of them without a word, "
            f"in {done['seconds']:.1f} s",
            file=sys.stderr,
        )
