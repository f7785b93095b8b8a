"""The command ``resmlp-mt``: imports only the subcommand that is called.

Each subcommand is a file of this folder with ``add_arguments(parser)`` and ``run(args)``, which
imports what it needs, so that ``--help`` answers at once.
"""

import argparse
import importlib
import os
import shlex
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from resmlp_mt import __version__
from resmlp_mt.fairseq_fixes.messages import in_one_line
from resmlp_mt.patching import logging_as_before, without_examples
from resmlp_mt_runtime import terminal
from resmlp_mt_runtime.arguments import Parser

SUBCOMMANDS = {
    "run": "all steps from raw text to BLEU: prepare, train, average, translate, score",
    "prepare": "turn raw parallel text into fairseq's binary data",
    "train": "train with a recipe, on a CPU, one GPU or several",
    "average": "average the last checkpoints of a training run",
    "translate": "translate a text line by line",
    "score": "compute BLEU and chrF of translations, with signatures",
    "plot": "draw the mixing matrices of a checkpoint",
    "export": "write a folder that translates without fairseq or PyTorch",
}
USER_DIR = Path(__file__).resolve().parent.parent
PASSES_ON = ("run", "train")  # arguments after -- to fairseq-train
# what to add to "stopped", by subcommand
RESUMED = dict.fromkeys(("prepare", "train", "run"), ": the same command resumes it")
RESUMED["translate"] = terminal.RESUMED


def build_parser(name: str) -> Parser:
    """The parser of one subcommand."""
    command = importlib.import_module(f"resmlp_mt.cli.{name}")
    parser = Parser(prog=f"resmlp-mt {name}", description=command.__doc__)
    command.add_arguments(parser)
    parser.set_defaults(run=command.run)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run a command line; returns the exit status."""
    words = sys.argv[1:] if argv is None else list(argv)
    width = max(map(len, SUBCOMMANDS))
    listed = "\n".join(f"  {name:<{width}}  {text}" for name, text in SUBCOMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="resmlp-mt",
        usage="resmlp-mt [-h] [--version] [--user-dir] SUBCOMMAND ...",
        description="ResMLP for machine translation, from raw text to BLEU.",
        epilog=f"subcommands:\n{listed}\n\nresmlp-mt SUBCOMMAND --help shows its options.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = f"resmlp-mt {__version__}"
    parser.add_argument("--version", action="version", version=version, help="print the version")
    help = "print the folder to pass to fairseq-train as --user-dir"
    parser.add_argument("--user-dir", action="version", version=str(USER_DIR), help=help)
    parser.add_argument("subcommand", nargs="?", choices=SUBCOMMANDS, help=argparse.SUPPRESS)
    if words and words[0] in SUBCOMMANDS:
        return run_main(lambda: _run(words[0], words[1:]), words[0])
    parser.parse_args(words)
    parser.print_help()
    return 2


def _run(name: str, words: list[str]) -> None:
    parser = build_parser(name)
    if name in PASSES_ON:
        end = words.index("--") if "--" in words else len(words)
        args, unknown = parser.parse_known_args(words[:end])
        if unknown:
            shown = shlex.join(unknown)
            said = "no such option; options of fairseq-train go after --"
            parser.error(f"{shown}: {said}: ... -- {shown}")
        args.fairseq_options = words[end + 1 :]
    else:
        args = parser.parse_args(words)
    args.run(args)


def run_main(main: Callable[[], None], name: str = "") -> int:
    """Call *main*, the work of the subcommand *name*; returns the exit status."""
    program = f"resmlp-mt {name}" if name else os.path.basename(sys.argv[0])
    # about fairseq's code, which no user can correct
    warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", FutureWarning)
    warnings.filterwarnings("ignore", ".*invalid escape", SyntaxWarning)
    with logging_as_before(), without_examples():
        return terminal.run_main(main, program, RESUMED.get(name, ""), in_one_line)
