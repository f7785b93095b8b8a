"""BLEU and chrF of translations by sacreBLEU, with signatures.

  resmlp-mt score --references test.de --input hyp.de -t de
  resmlp-mt translate < test.en | resmlp-mt score --references test.de
  grep ^D- generate.log | sort -V | cut -f3 | resmlp-mt score --references test.de -t de

The input has one sentence per line, plain or gzip; the last command extracts it from the output of
fairseq-generate. Input and references are normalized to NFC before scoring. For TER, several
references or significance tests, use the sacrebleu command.
"""

import argparse
from pathlib import Path
from unicodedata import normalize

from resmlp_mt_runtime.arguments import FILE
from resmlp_mt_runtime.errors import UserError

STDIN = Path("-")
NAMES = {"bleu": "BLEU", "chrf": "chrF", "tokenized_bleu": "tokenized BLEU"}
NAMES["compound_split_bleu"] = "compound-split BLEU"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help = "reference translations, detokenized, one sentence per line"
    add("--references", "-r", **FILE, required=True, help=help)
    add("--input", "-i", **FILE, default=STDIN, help="translations (default: standard input)")
    help = "target language, which selects the tokenizer: zh, ja-mecab, ko-mecab, char or 13a"
    add("--target-lang", "-t", default="", metavar="LANG", help=help)
    help = "add tokenized BLEU as in papers, for German also with compounds split"
    add("--tokenized", action="store_true", help=help)


def run(args: argparse.Namespace) -> None:
    if args.references == args.input == STDIN:
        raise UserError("only one file can be standard input (-): give --input")
    if args.tokenized and not args.target_lang:
        raise UserError("--tokenized needs the language: give -t, such as -t en")
    from resmlp_mt.pipeline.score import check_tokenizer, score
    from resmlp_mt_runtime.lines import check_same_lines, read_text

    texts = map(read_text, (args.references, args.input))
    references, hypotheses = ([normalize("NFC", line) for line in text] for text in texts)
    check_same_lines(args.input, len(hypotheses), args.references, len(references))
    check_tokenizer(args.target_lang, references)
    scores = score(hypotheses, references, args.target_lang, args.tokenized)
    for key, name in NAMES.items():
        if key in scores:
            print(f"{name} {scores[key]:.2f} {scores[f'{key}_signature']}")
