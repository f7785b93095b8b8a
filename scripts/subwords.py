#!/usr/bin/env python3
"""Joint SentencePiece BPE for fairseq: train a model, or split text into pieces.

subwords.py train --vocab-size 8000 --prefix spm train.en train.de
subwords.py encode --model spm.model train.en valid.en     (writes train.sp.en, valid.sp.en)
"""

import argparse
import sys
from pathlib import Path
from typing import Dict, List

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError, check_positive
from resmlp_mt.text.lines import read_lines, write_lines
from resmlp_mt.text.subwords import load_subwords, train_subwords


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    actions = parser.add_subparsers(dest="action", required=True)
    train = actions.add_parser("train", help="train one model for all files")
    train.add_argument("--vocab-size", type=int, required=True, help="number of pieces")
    train.add_argument("--prefix", type=Path, required=True, help="writes PREFIX.model and .vocab")
    encode = actions.add_parser("encode", help="FILE.en becomes FILE.sp.en, in its own folder")
    encode.add_argument("--model", type=Path, required=True)
    for parser_ in (train, encode):
        parser_.add_argument("files", type=Path, nargs="+", help="text, .gz allowed in training")
    return parser.parse_args()


def pieces_path(path: Path) -> Path:
    """train.en (or train.en.gz) to train.sp.en: fairseq takes the language from the end."""
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    if not plain.suffix:
        raise UserError(f"{path}: name it with its language at the end, such as train.en")
    return plain.with_suffix(f".sp{plain.suffix}")


def outputs(files: List[Path]) -> Dict[Path, Path]:
    """Each file by what is written of it.

    Raises:
        UserError: if two of them would be written to the same file.
    """
    found: Dict[Path, Path] = {}
    for path in files:
        output = pieces_path(path)
        same = next((other for other in found if other.resolve() == output.resolve()), None)
        if same is not None:
            raise UserError(f"{found[same]} and {path} would both be written to {output}: give one")
        found[output] = path
    return found


def main() -> None:
    args = parse_args()
    if args.action == "train":
        check_positive(args, "vocab_size")
        lines = (line for path in args.files for line in read_lines(path))
        print(train_subwords(lines, args.prefix, args.vocab_size))
        return
    if not args.model.is_file():
        raise UserError(f"{args.model}: no such model: train one with subwords.py train")
    wrong = f"{args.model} is no SentencePiece model: give what subwords.py train wrote"
    model = load_subwords(args.model, wrong)
    pieces = outputs(args.files)
    written = {output.resolve() for output in pieces}
    for output, path in pieces.items():
        if path.resolve() in written:
            # of an earlier call: text/*.en names it, too
            print(f"note: {path} is written, not read: it holds pieces", file=sys.stderr)
            continue
        write_lines(output, map(model.encode, read_lines(path)))
        print(output)


if __name__ == "__main__":
    sys.exit(run_main(main))
