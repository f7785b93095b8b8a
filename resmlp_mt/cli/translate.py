"""Translate a text: the same number of lines in the same order.

  echo "I like tea." | resmlp-mt translate
  resmlp-mt translate --path run/model --input test.en --output test.de
  resmlp-mt translate --path averaged.pt --data DATA/data-bin < test.en > test.de

The model is a checkpoint of any fairseq translation model, an ensemble of them, or a folder of
resmlp-mt export. The data folder says whether the text is normalised and how it is split.

Only a line feed ends a line. A blank line stays blank. A line that is longer than the model reads
is translated in parts. Each line is written as soon as it and those before it are translated; piped
input is translated as it arrives. After a stop, --resume continues after the last whole line;
.OUTPUT.source beside the output records what it is made from.
"""

import argparse
from functools import partial
from pathlib import Path

from resmlp_mt.cli.arguments import FILE, LENPEN, USER_DIR, WHOLE, count, number
from resmlp_mt.errors import UserError, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help = "checkpoint, folder of resmlp-mt run (OUT/model) or resmlp-mt export; A.pt:B.pt is an "
    help += "ensemble (default: the published model, in a clone of the repository)"
    add("--path", metavar="PATH", help=help)
    help = "text, plain or gzip (default: standard input)"
    add("--input", "-i", **FILE, default=Path("-"), help=help)
    add(
        "--output", "-o", **FILE, default=Path("-"), help="file to write (default: standard output)"
    )
    add("--resume", action="store_true", help="continue after the last whole line of the output")
    help = "dictionaries and subwords of the training (default: beside the checkpoint)"
    add("--data", type=Path, metavar="DIR", help=help)
    help = "SentencePiece model for data that resmlp-mt prepare did not make; nothing is normalised"
    add("--spm", **FILE, help=help)
    add("--beam", **WHOLE, help="beam size (default: 4, or that of the export)")
    help = "length penalty: a higher one gives longer translations (default: what resmlp-mt run "
    add("--lenpen", **LENPEN, help=help + "chose on its validation set, or 0.6)")
    help = "write N translations of each line, on N lines, the best first (default: 1)"
    add("--nbest", **WHOLE, default=1, help=help)
    help = "write SCORE<TAB>TRANSLATION, with the log probability divided by length^lenpen"
    add("--scores", action="store_true", help=help)
    help = "a translation has at most A x source + B tokens (default: as many as the model writes)"
    add("--max-len-a", type=number, metavar="A", help=help)
    add("--max-len-b", type=count, metavar="B", help="see A")
    help = "no N tokens come twice in the same order in a translation"
    add("--no-repeat-ngram-size", **WHOLE, help=help)
    add("--max-tokens", **WHOLE, default=4096, help="source tokens per batch (default: 4096)")
    add("--fp16", action="store_true", default=None, help="compute in float16, on a GPU")
    add("--cpu", action="store_true", help="do not use a GPU")
    add("--threads", **WHOLE, help="CPU threads (default: all cores)")
    add("--user-dir", **USER_DIR)
    help = "what translates with an export (default: native, where it was built)"
    add("--engine", choices=("native", "numpy"), help=help)


def engine_of(args: argparse.Namespace) -> tuple:
    """A function that makes the translator, and what its translations are made from. Wrong options
    and missing files are refused at once."""
    from resmlp_mt.model_folder import read_lenpen
    from resmlp_mt.pipeline.translate.options import (
        SearchOptions,
        checkpoint_paths,
        published_model,
    )
    from resmlp_mt.text.lines import sha256_of

    path = args.path or published_model()
    other = ("run", "path", "input", "output", "resume", "scores", "cpu")
    given = {k: v for k, v in vars(args).items() if k not in other and v is not None}
    if (Path(path) / "config.json").is_file():
        from resmlp_mt_runtime import Model

        for name in ("data", "spm", "fp16", "user_dir"):
            if name in given:
                option = name.replace("_", "-")
                raise UserError(f"--{option}: is for checkpoints, and {path} is an export")
        source = {k: v for k, v in given.items() if k not in ("threads", "max_tokens", "engine")}
        source["model"] = [sha256_of(Path(path) / "config.json")]  # which has digests of all files
        return partial(Model, Path(path), **given), source
    if args.engine:
        raise UserError(f"--engine: is for folders of resmlp-mt export, which {path} is not")
    paths = checkpoint_paths(path)
    beside = paths[0].parent
    given = {"data": beside, "lenpen": read_lenpen(beside), **given}
    options = SearchOptions(paths=paths, cpu=args.cpu, **given)

    def load():
        from resmlp_mt.pipeline.translate.translator import Translator

        return Translator(options)

    return load, options.source()


def run(args: argparse.Namespace) -> None:
    from resmlp_mt.pipeline.translate.driver import translate, with_text

    to_file, (load, source) = str(args.output) != "-", engine_of(args)
    made_from = with_text(args.input, {**source, "scores": args.scores}) if to_file else None
    lines = translate(
        load,
        args.input,
        args.output,
        args.nbest,
        args.resume,
        scores=args.scores,
        made_from=made_from,
    )
    if to_file:
        say(f"{args.output}: {lines} lines")
