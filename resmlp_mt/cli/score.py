"""BLEU, chrF and TER of translations by sacreBLEU, with signatures.

  resmlp-mt score --references test.de -i hyp.de -l en-de
  resmlp-mt score --references test.de -i baseline.de ours.de -l en-de --paired-bs
  fairseq-generate ... | resmlp-mt score --references test.de -l en-de --tokenized

A system is a text with one sentence a line, plain or .gz, or what fairseq-generate prints. The
options are those of the program sacrebleu, with the tokenized BLEU of the papers beside them.
`resmlp-mt plot length` draws BLEU by sentence length.
"""

import argparse
import sys
from pathlib import Path
from typing import List

from resmlp_mt.cli.arguments import LANGUAGE_PAIR, WHOLE
from resmlp_mt.errors import UserError
from resmlp_mt.files import check_output, write_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add, files = parser.add_argument, {"type": Path, "nargs": "+"}
    help = "reference translations, detokenized, one sentence a line. Several files are several "
    help += "references of each sentence"
    add("--references", "-r", **files, required=True, metavar="REF", help=help)
    help = "translations, a file for each system, - is standard input (default: -)"
    add("--input", "-i", **files, default=[Path("-")], metavar="SYS", help=help)
    add("--language-pair", "-l", **LANGUAGE_PAIR)
    metrics = {"choices": ("bleu", "chrf", "ter"), "default": ("bleu", "chrf")}
    add("--metrics", "-m", nargs="+", **metrics, help="metrics (default: bleu chrf)")
    help = "tokenizer for BLEU (default: by language zh, ja-mecab, ko-mecab, or 13a)"
    add("--tokenize", "-tok", metavar="NAME", help=help)
    add("--json", type=Path, metavar="FILE", help="write the scores as JSON too")

    test = parser.add_argument_group(
        "significance tests of all systems against the first",
        "The environment variable SACREBLEU_SEED is the seed (default: 12345).",
    )
    kind = test.add_mutually_exclusive_group()
    kind.add_argument("--paired-bs", action="store_true", help="paired bootstrap")
    kind.add_argument("--paired-ar", action="store_true", help="approximate randomization")
    test.add_argument("--paired-bs-n", **WHOLE, help="resamplings (default: 1000)")
    test.add_argument("--paired-ar-n", **WHOLE, help="trials (default: 10000)")

    add = parser.add_argument_group("beside sacreBLEU").add_argument
    help = "tokenized BLEU as the papers count it, for German also with compounds split. For en-de "
    help += "and en-fr, Table 5 of the paper is shown beside it"
    add("--tokenized", action="store_true", help=help)


def check_options(args: argparse.Namespace) -> None:
    """Refuse what can be refused before anything is read."""
    if [*args.references, *args.input].count(Path("-")) > 1:
        raise UserError("only one file can be standard input (-)")
    twice = next((path for path in args.input if args.input.count(path) > 1), None)
    if twice:
        raise UserError(f"-i: {twice} is given twice: give each system once")
    for test in ("paired_bs", "paired_ar"):
        if getattr(args, f"{test}_n") and not getattr(args, test):
            option = "--" + test.replace("_", "-")
            raise UserError(f"{option}-n: give {option} too")
    if args.json:
        check_output(args.json, *args.references, *args.input)


def run(args: argparse.Namespace) -> None:
    check_options(args)
    from resmlp_mt.score.evaluation import evaluate
    from resmlp_mt.score.generated import read_systems
    from resmlp_mt.score.report import report
    from resmlp_mt.text.lines import check_same_lines, name_of, read_text

    first, *others = args.references
    references: List[List[str]] = [read_text(first)]
    for path in others:
        references.append(read_text(path))
        check_same_lines(path, len(references[-1]), first, len(references[0]))
    files = {name_of(path): path for path in args.input}
    systems = read_systems(files, first, references[0])
    test = "bs" if args.paired_bs else "ar" if args.paired_ar else None
    result = evaluate(
        systems,
        references,
        args.language_pair,
        metrics=args.metrics,
        tokenize=args.tokenize,
        tokenized=args.tokenized,
        test=test,
        samples=args.paired_bs_n if args.paired_bs else args.paired_ar_n,
    )
    if args.json:
        write_json(args.json, {"references": list(map(name_of, args.references)), **result})
    sys.stdout.write(report(result))  # all at once: its reader may close the pipe after some lines
