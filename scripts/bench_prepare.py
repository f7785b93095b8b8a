#!/usr/bin/env python3
"""Measure prepare.py on real text, repeated to any size, and project its cost (Linux).

bench_prepare.py --from-text SRC TGT [SRC TGT ...] --pairs 200000 2000000 --workers 2 --json OUT
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from resmlp_mt.errors import UserError, check_positive
from resmlp_mt.pipeline.steps import write_json
from resmlp_mt.pipeline.terminal import run_main


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pair", nargs="?", default="en-de", help="en-de (default) or en-fr")
    parser.add_argument(
        "--from-text",
        type=Path,
        nargs="+",
        required=True,
        metavar="FILE",
        help="real text, source and target in turn, one sentence a line, .gz allowed",
    )
    parser.add_argument("--pairs", type=int, nargs="+", default=[200_000, 2_000_000], metavar="N")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: all cores)")
    parser.add_argument("--vocab-size", type=int, metavar="N", help="pieces (default: the pair's)")
    parser.add_argument("--work", type=Path, help="folder for text and results (default: in /tmp)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="what was found, as JSON")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    for name in ("workers", "vocab_size"):
        if getattr(args, name) is not None:
            check_positive(args, name)
    if min(args.pairs) < 1:
        raise UserError(f"--pairs {min(args.pairs)}: must be at least 1")
    if len(args.from_text) % 2:
        raise UserError(f"--from-text: {len(args.from_text)} files: give source and target in turn")

    from resmlp_mt.wmt14.measure import compare, table
    from resmlp_mt.wmt14.parallel import usable_cores
    from resmlp_mt.wmt14.recipes import find_pair

    pair = find_pair(args.pair)
    files = list(zip(args.from_text[::2], args.from_text[1::2]))
    workers = args.workers or usable_cores()
    vocab_size = args.vocab_size or pair.vocab_size
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        found = compare(files, args.pairs, pair, workers, vocab_size, Path(work))
    print(table(found))
    if args.json is not None:
        write_json(
            args.json,
            {"command": " ".join([os.path.basename(sys.argv[0]), *sys.argv[1:]]), **found},
        )
        print(args.json)


if __name__ == "__main__":
    sys.exit(run_main(main))
