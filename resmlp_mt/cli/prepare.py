"""Turn raw parallel text into fairseq's binary data, with joint SentencePiece BPE.

  resmlp-mt prepare --source-lang de --target-lang en --trainpref text/train \\
      --validpref text/valid --testpref text/test --vocab-size 8000 --out data

reads text/train.de, text/train.en ... (or .gz), one sentence per line. It writes data/text, the
clean text, and data/data-bin for fairseq, with the subword model and text.json, which records how
text is cleaned. The same command resumes a stopped run after its last complete step.
"""

import argparse
from dataclasses import fields
from pathlib import Path

from resmlp_mt.cli.arguments import OUT_FOLDER
from resmlp_mt_runtime.arguments import WHOLE, Range, within
from resmlp_mt_runtime.errors import UserError, printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_text_arguments(parser, "8000, or what the text allows")
    parser.add_argument("--out", **OUT_FOLDER, help="folder for all results")


def add_text_arguments(parser: argparse.ArgumentParser, vocab_size: str) -> None:
    """Options for the text and how it is prepared, of `resmlp-mt run` too."""
    add = parser.add_argument_group("the text (all required except --testpref)").add_argument
    add("-s", "--source-lang", required=True, metavar="LANG", help="language of the source")
    add("-t", "--target-lang", required=True, metavar="LANG", help="language of the target")
    help = "training text, PREF.LANG; separate several by commas"
    add("--trainpref", required=True, metavar="PREF", help=help)
    add("--validpref", required=True, metavar="PREF", help="validation text")
    add("--testpref", metavar="PREF", help="test sets, separated by commas")

    add, switch = parser.add_argument_group("how it is prepared").add_argument, "store_true"
    add("--vocab-size", **WHOLE, help=f"subwords of the joint vocabulary (default: {vocab_size})")
    help = "use this SentencePiece model, and the dictionaries next to it, if any"
    add("--subword-model", type=Path, metavar="FILE", help=help)
    help = "share of the text's characters that get a subword, 0.98 to 1. Below 1, all others are "
    help += "spelled in bytes; at 1, characters that the text lacks, or has only within longer "
    help += "subwords, are unknown (default: 1; Chinese, Japanese, --augment: 0.9995)"
    add("--character-coverage", type=within(Range(0.98, 1.0)), metavar="X", help=help)
    help = "add training lines in capitals, with tags, addresses, other numbers, other scripts ..."
    add("--augment", action=switch, default=None, help=help)
    add("--drop-duplicates", action=switch, help="train on each pair once")
    help = "drop training pairs that are not UTF-8 instead of refusing the text"
    add("--skip-invalid", action=switch, help=help)
    help = "drop training pairs with more than X times as many subwords on one side as on "
    help += "the other (default: off)"
    add("--max-ratio", type=within(Range(1.0, 1e6)), metavar="X", help=help)
    help = "drop training pairs with more than N subwords on a side (default: 250)"
    add("--max-pieces", **WHOLE, help=help)
    add("--limit", **WHOLE, help="use only the first N pairs of each training corpus")
    add("--workers", **WHOLE, help="number of processes (default: all cores)")


def preparation_of(args: argparse.Namespace, out: Path, default_vocab_size: int | None = None):
    """The preparation that the options of :func:`add_text_arguments` ask for."""
    for name in ("vocab-size", "character-coverage"):
        if args.subword_model is not None and getattr(args, name.replace("-", "_")) is not None:
            raise UserError(f"--subword-model and --{name}: give one or the other")
    # before what takes seconds to import
    from resmlp_mt.pipeline.prepare.corpora import find_corpora

    languages = (args.source_lang, args.target_lang)
    corpora = find_corpora(languages, args.trainpref, args.validpref, args.testpref)
    from resmlp_mt.pipeline.prepare.preparation import Preparation, PrepareOptions

    given = {each.name: getattr(args, each.name, None) for each in fields(PrepareOptions)}
    given["default_vocab_size"] = default_vocab_size
    options = PrepareOptions(**{k: v for k, v in given.items() if v is not None})
    return Preparation(corpora, options, out, args.subword_model, args.workers)


def run(args: argparse.Namespace) -> None:
    work = preparation_of(args, args.out)
    work.run()
    print(*map(printable, work.summary()), sep="\n")
