#!/usr/bin/env python3
"""WMT14 from its corpora to fairseq's binary data: ``prepare.py en-de --out DIR``.

The corpora are downloaded by mtdata, or taken from --from DIR, in the layout that `mtdata get`
leaves: train-parts/NAME.eng and NAME.deu (any number of corpora), dev.eng, dev.deu, test1.eng,
test1.deu; .gz is read too. Then: normalise, clean, joint SentencePiece BPE, encode. A stopped run
goes on from its last complete step.
"""

import argparse
import sys
from pathlib import Path

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError, check_positive

EXTRA = ("mtdata", "requests")  # what setup.py calls wmt14


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pair", help="en-de or en-fr")
    parser.add_argument("--out", type=Path, required=True, help="folder for all results")
    parser.add_argument("--from", type=Path, dest="text", metavar="DIR", help="text that is there")
    parser.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help="only the first N pairs of each training corpus, to try it out; with few pairs a "
        "small --vocab-size is needed",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: all cores)")
    parser.add_argument(
        "--vocab-size", type=int, metavar="N", help="pieces (default: en-de 32,000, en-fr 40,000)"
    )
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    given = [name for name in ("limit", "workers", "vocab_size") if getattr(args, name) is not None]
    check_positive(args, *given)
    try:
        from resmlp_mt.prepare.parallel import usable_cores
        from resmlp_mt.prepare.prepare import Preparation
        from resmlp_mt.prepare.recipes import find_pair
        from resmlp_mt.prepare.reports import summary

        pair = find_pair(args.pair)
        workers = args.workers or usable_cores()
        work = Preparation(pair, args.out, args.text, args.limit, workers, args.vocab_size)
        results = work.run()
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        raise UserError(
            f"{error.name} is not installed: pip install -e '.[wmt14]' brings what this needs"
        ) from None
    print(*summary(results), sep="\n")


if __name__ == "__main__":
    sys.exit(run_main(main))
