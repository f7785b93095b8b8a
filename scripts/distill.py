#!/usr/bin/env python3
"""Sequence-level distillation: a training text with a teacher's translations as its target side.

distill.py --teacher checkpoint.pt --data DATA_BIN --spm spm.model \\
    --source train.en --target train.de --output-prefix distilled/train

writes distilled/train.en and distilled/train.de, one sentence a line in the order of the input, and
distilled/train.json, which says how they were made. The teacher is any fairseq translation model,
ours or another, or an ensemble. A run that was stopped goes on where it was. The teacher's beams
stay in distilled/train.beams: with --beams another --output-prefix takes its targets from there.
"""

import argparse
import sys
from pathlib import Path

import torch

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import check_finite, check_positive
from resmlp_mt.translate.distillation import FAILURES, Targets, distill
from resmlp_mt.translate.distillation_report import report
from resmlp_mt.translate.search import Search


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    path = {"type": Path, "required": True}
    parser.add_argument("--teacher", **path, metavar="CHECKPOINT")
    parser.add_argument(
        "--ensemble", type=Path, nargs="+", default=[], metavar="CHECKPOINT", help="more teachers"
    )
    parser.add_argument("--data", **path, metavar="DATA_BIN", help="the teacher's binary data")
    parser.add_argument("--spm", **path, metavar="MODEL", help="SentencePiece model of that data")
    parser.add_argument("--source", **path, metavar="FILE", help="training text, plain or .gz")
    parser.add_argument("--target", **path, metavar="FILE", help="its references")
    parser.add_argument("--output-prefix", **path, metavar="DIR/train")
    parser.add_argument("--beam", type=int, default=4, metavar="N", help="hypotheses (4)")
    parser.add_argument(
        "--lenpen", type=float, default=0.6, metavar="X", help="length penalty (0.6)"
    )
    parser.add_argument(
        "--max-len", type=int, default=200, metavar="N", help="subwords of a hypothesis (200)"
    )
    parser.add_argument(
        "--interpolate",
        action="store_true",
        help="take the hypothesis in the beam that is nearest to the reference by sentence BLEU",
    )
    parser.add_argument(
        "--keep-original", action="store_true", help="add the original pairs behind the teacher's"
    )
    parser.add_argument(
        "--failures",
        choices=FAILURES,
        default=FAILURES[0],
        help="where the output is empty, ran into --max-len or has an unknown word: take the "
        "reference (default), drop the pair, or keep what there is; all are listed",
    )
    parser.add_argument("--beams", type=Path, metavar="DIR", help="for the teacher's hypotheses")
    parser.add_argument(
        "--shards", type=int, metavar="N", help="processes (one a GPU; without a GPU 1)"
    )
    parser.add_argument(
        "--max-tokens", type=int, default=4096, metavar="N", help="source subwords a batch (4096)"
    )
    parser.add_argument("--cpu", action="store_true", help="leave GPUs alone")
    return parser.parse_args()


def main() -> None:
    args = parse()
    gpus = 0 if args.cpu else torch.cuda.device_count()
    args.shards = max(1, gpus) if args.shards is None else args.shards
    check_positive(args, "beam", "max_len", "shards", "max_tokens")
    check_finite(args, "lenpen")
    search = Search(
        (args.teacher, *args.ensemble),
        args.data,
        args.spm,
        beam=args.beam,
        lenpen=args.lenpen,
        max_len=args.max_len,
        max_tokens=args.max_tokens,
        cpu=args.cpu,
    )
    targets = Targets(args.interpolate, args.keep_original, args.failures)
    made = distill(
        search,
        args.source,
        args.target,
        args.output_prefix,
        targets,
        args.beams,
        args.shards,
    )
    print("\n".join(report(args.output_prefix, made)))


if __name__ == "__main__":
    sys.exit(run_main(main))
