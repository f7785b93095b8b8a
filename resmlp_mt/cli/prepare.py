"""Raw parallel text to the binary data of fairseq, with joint SentencePiece BPE.

  resmlp-mt prepare --source-lang de --target-lang en --trainpref text/train \\
      --validpref text/valid --testpref text/test --vocab-size 8000 --out data

reads text/train.de, text/train.en ... (or .gz) and writes data/data-bin for fairseq, with the
subword model and text.json, which says how the text was made, and data/text. With --recipe, mtdata
downloads the corpora, or --from names a folder that `mtdata get` has filled:

  resmlp-mt prepare --recipe wmt14-en-de --out data

A stopped run resumes from its last complete step.
"""

import argparse
import shlex
from pathlib import Path
from typing import Dict

from resmlp_mt.cli.arguments import SEED, WHOLE, number
from resmlp_mt.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_text_arguments(parser, "8000")
    help = "wmt14-en-de, wmt14-en-fr or a recipe of mtdata, in place of the text options"
    add("--recipe", metavar="NAME", help=help)
    help = "seed of the sample that subwords are learnt from (default: 1)"
    add("--seed", **SEED, help=help)
    add("--out", type=Path, required=True, metavar="DIR", help="folder for all results")
    help = "only the first N pairs of each training corpus, to try it out"
    add("--limit", **WHOLE, help=help)
    add("--workers", **WHOLE, help="number of processes (default: all cores)")
    help = "write text of pieces for fairseq-preprocess, in place of data-bin"
    add("--pieces", action="store_true", help=help)
    help = "print the commands, with fairseq-preprocess, that give the same data"
    add("--dry-run", action="store_true", help=help)


def add_text_arguments(parser: argparse.ArgumentParser, vocab_size: str) -> None:
    """The options that say which text is prepared and how, --recipe and --seed apart.

    `resmlp-mt run` has them too.

    Args:
        vocab_size: what to call its default.
    """
    add = parser.add_argument_group("the text").add_argument
    add("-s", "--source-lang", metavar="LANG", help="language of the source")
    add("-t", "--target-lang", metavar="LANG", help="language of the target")
    help = "training text, PREF.LANG. A comma stands between several"
    add("--trainpref", metavar="PREF", help=help)
    add("--validpref", metavar="PREF", help="validation text")
    add("--testpref", metavar="PREF", help="test sets. A comma stands between several")
    help = "folder that `mtdata get` has filled, in place of a download by --recipe"
    add("--from", dest="folder", type=Path, metavar="DIR", help=help)

    title = "how it is prepared (a recipe has defaults of its own)"
    add, switch = parser.add_argument_group(title).add_argument, argparse.BooleanOptionalAction
    add("--vocab-size", **WHOLE, help=f"joint subword pieces (default: {vocab_size})")
    help = "SentencePiece model to use, none is trained then. In a folder data-bin, its dictionary "
    help += "is used too"
    add("--subword-model", type=Path, metavar="FILE", help=help)
    help = "share of characters in the vocabulary, from 0.98 to 1 (default: 1, with Chinese or "
    help += "Japanese 0.9995)"
    add("--character-coverage", type=number, metavar="X", help=help)
    help = "normalise punctuation as Moses does, here and in translate (default: no)"
    add("--normalise", action=switch, default=None, help=help)
    help = "train on each pair once (default: no)"
    add("--drop-duplicates", action=switch, default=None, help=help)
    help = "leave out training pairs with more than X times as many pieces on one side "
    help += "(1 or more. Default: 0, any)"
    add("--max-ratio", type=number, metavar="X", help=help)
    help = "leave out training pairs with more than N pieces on a side (default: 250)"
    add("--max-pieces", **WHOLE, help=help)


def text_options() -> Dict[str, str]:
    """The options of :func:`add_text_arguments`: as a user writes them, by attribute."""
    parser = argparse.ArgumentParser(add_help=False)
    add_text_arguments(parser, "")
    flags = {action.dest: action.option_strings for action in parser._actions}
    return {name: next(f for f in some if f.startswith("--")) for name, some in flags.items()}


def preparation_of(args: argparse.Namespace, out: Path, **more):
    """The preparation that the options of :func:`add_text_arguments` ask for.

    Args:
        out: folder for the results.
        more: further arguments of :class:`~resmlp_mt.prepare.preparation.Preparation`.

    Raises:
        UserError: naming an option that is missing or out of range, or a missing file.
    """
    if args.max_ratio is not None and args.max_ratio != 0 and args.max_ratio < 1:
        raise UserError(f"--max-ratio {args.max_ratio:g}: must be 0 or at least 1")
    if args.character_coverage is not None and not 0.98 <= args.character_coverage <= 1:
        raise UserError(  # as SentencePiece has it
            f"--character-coverage {args.character_coverage:g}: must be from 0.98 to 1"
        )
    for name in ("vocab_size", "character_coverage"):
        if args.subword_model is not None and getattr(args, name) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise UserError(f"--subword-model and {flag}: give one or the other")
    corpora = _corpora_of(args)
    from resmlp_mt.prepare.preparation import Preparation

    of_the_recipe = ("vocab_size", "character_coverage", "normalise", "drop_duplicates")
    of_the_recipe += ("max_ratio", "max_pieces")
    corpora = corpora.prepared_with(**{name: getattr(args, name) for name in of_the_recipe})
    return Preparation(corpora, out, subword_model=args.subword_model, **more)


def _corpora_of(args: argparse.Namespace):
    from resmlp_mt.prepare.corpora import Corpora

    if args.recipe is not None:
        for name in ("trainpref", "validpref", "testpref"):
            if getattr(args, name) is not None:
                raise UserError(f"--recipe and --{name}: give one or the other")
        return Corpora.from_recipe(args.recipe, args.folder, args.source_lang, args.target_lang)
    if args.folder is not None:
        raise UserError(f"--from {args.folder}: give --recipe with it")
    for name in ("source_lang", "target_lang", "trainpref", "validpref"):
        if getattr(args, name) is None:
            raise UserError(f"--{name.replace('_', '-')} is missing: give it, or a --recipe")
    return Corpora.from_prefixes(
        args.source_lang, args.target_lang, args.trainpref, args.validpref, args.testpref
    )


def run(args: argparse.Namespace) -> None:
    same = ("limit", "workers", "pieces", "seed")
    work = preparation_of(args, args.out, **{name: getattr(args, name) for name in same})
    if args.dry_run:
        print(*map(shlex.join, work.commands()), sep="\n")
        return
    work.run()
    print(*work.summary(), sep="\n")
