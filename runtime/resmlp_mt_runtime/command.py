"""Translate a text with an exported model: the same number of lines in the same order.

  echo "I like tea." | resmlp-translate exported
  resmlp-translate exported --input test.en --output test.de

The folder is all you need. It contains only data: nothing in it is executed.
"""

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from resmlp_mt_runtime import __version__
from resmlp_mt_runtime.arguments import FILE, RANGES, WHOLE, Parser, searching
from resmlp_mt_runtime.errors import say
from resmlp_mt_runtime.files import check_output
from resmlp_mt_runtime.terminal import RESUMED, run_main

LINES = """
Only a line feed ends a line. Blank lines stay blank. Lines of more than 40 subwords are translated
in parts, split at ends of sentences or clauses; lines in capitals are lowercased, their
translations uppercased. Each line is written as soon as it and those before it are translated;
piped input is translated as it arrives. After a stop, --resume continues after the last complete
line; .OUTPUT.source next to the output records what it was made from.
"""
HOW = ("threads", "max_tokens", "engine")  # options that change no translation but by rounding


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of every program that translates."""
    add = parser.add_argument
    help = "text, plain or gzip (default: standard input)"
    add("--input", "-i", **FILE, default=Path("-"), help=help)
    help = "file to write (default: standard output)"
    add("--output", "-o", **FILE, default=Path("-"), help=help)
    add("--resume", action="store_true", help="continue after the last complete line of the output")
    add("--beam", **searching("beam"), help="beam size (default: 4, or that of the export)")
    help = "length penalty: a higher one favours longer translations (default: what resmlp-mt run "
    add("--lenpen", **searching("lenpen"), help=help + "chose on its validation set, or 0.6)")
    help = "write the N best translations of each line on N lines, best first (default: 1)"
    add("--nbest", **searching("nbest"), default=1, help=help)
    help = "write SCORE<TAB>TRANSLATION: log probability / length^lenpen; for a line translated "
    add("--scores", action="store_true", help=help + "in parts, their mean")
    help = "a translation has at most A x source + B tokens (default: only the model's limit)"
    add("--max-len-a", **searching("max_len_a"), help=help)
    add("--max-len-b", **searching("max_len_b"), help="see --max-len-a")
    help = "allow no sequence of N tokens twice in a translation (default: 0, off)"
    add("--no-repeat-ngram-size", **searching("no_repeat_ngram_size"), help=help)
    help = "source tokens per batch (default: 4096)"
    add("--max-tokens", **searching("max_tokens"), default=4096, help=help)
    add("--threads", **WHOLE, help="CPU threads (default: all CPUs of the process)")
    help = "native (C++, the default if it is built) or numpy (several times slower)"
    add("--engine", choices=("native", "numpy"), help=help)


def run(args: argparse.Namespace, load: Callable, made_from: dict, files: Iterable[Path]) -> None:
    """Translate as :func:`add_arguments` says, by what *load* gives, which reads the *files*."""
    from resmlp_mt_runtime.driver import translate  # takes a while, and --help needs none

    check_output(args.output, *files)
    made_from = {**made_from, "scores": args.scores}
    lines = translate(
        load, args.input, args.output, args.nbest, args.resume, args.scores, made_from=made_from
    )
    if str(args.output) != "-":
        say(f"{args.output}: {lines * args.nbest} lines")


def model_of(folder: Path, options: dict) -> tuple[Callable, dict, list[Path]]:
    """A function that loads an export, what its translations are made from, and its files."""
    from resmlp_mt_runtime.folder import CONFIG, FILES, not_an_export
    from resmlp_mt_runtime.lines import sha256_of
    from resmlp_mt_runtime.model import Model

    given = {name: options[name] for name in (*HOW, *RANGES) if options.get(name) is not None}
    search = {name: value for name, value in given.items() if name not in HOW}
    try:
        digest = sha256_of(folder / CONFIG)  # it has the digests of all other files
    except OSError as error:
        raise not_an_export(error, folder) from None
    files = [folder / name for name in (CONFIG, *FILES)]
    return partial(Model, folder, **given), {"model": [digest], **search}, files


def main(words: list[str] | None = None) -> int:
    """Run a command line; returns the exit status."""
    parser = Parser(prog="resmlp-translate", description=(__doc__ or "") + LINES)
    version = f"{parser.prog} {__version__}"
    parser.add_argument("--version", action="version", version=version, help="print the version")
    parser.add_argument("folder", type=Path, help="folder written by resmlp-mt export")
    add_arguments(parser)

    def work():
        args = parser.parse_args(words)
        run(args, *model_of(args.folder, vars(args)))

    return run_main(work, parser.prog, RESUMED)
