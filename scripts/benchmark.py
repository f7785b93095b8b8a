#!/usr/bin/env python3
"""Measure our model against fairseq's Transformer: ``benchmark.py decode --out DIR``."""

import sys

import torch

from resmlp_mt.benchmark import decode, length, memory, report, shares, train
from resmlp_mt.benchmark.options import parse
from resmlp_mt.cli.terminal import run_main

MODES = {
    "train": train.main,
    "decode": decode.main,
    "length": length.main,
    "memory": memory.main,
    "shares": shares.main,
}


def main() -> None:
    args = parse()
    if args.threads:
        torch.set_num_threads(args.threads)
    if args.out is not None:
        report.prepare_folder(args.out, pictures=args.mode in ("length", "memory"))
    found = MODES[args.mode](args)
    report.show(found, args)
    if args.out is not None:
        for path in report.save(found, args, sys.argv[1:]):
            print(path)


if __name__ == "__main__":
    sys.exit(run_main(main))
