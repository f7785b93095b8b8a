#!/usr/bin/env python3
"""Train on WMT14 with the paper's recipe, or the Transformer baseline with its own.

train.py en-de DATA_BIN --out DIR                               all GPUs of this machine
train.py en-fr DATA_BIN --out DIR --arch transformer_wmt_en_de  the baseline
train.py en-de DATA_BIN --out DIR --nodes 2 --gpus 8 --node-rank 0 --master-addr HOST
                                                                on each node, with its rank
train.py en-de DATA_BIN --out DIR --gpus 8 --dry-run            print the command, run nothing
train.py en-de DATA_BIN --out DIR -- --num-workers 4            more options of fairseq-train

It runs fairseq-train (torchrun for more than one GPU) in its own place. The same command again
goes on from the last checkpoint in DIR; the number of GPUs may be another one then, as each update
keeps its tokens.

The paper gives optimizer, rate, warm-up, dropout and label smoothing. It leaves open, and our
choice is: 32,768 tokens an update, 300,000 updates, 256 positions, no clipping, a checkpoint in
2,000 updates. Why: resmlp_mt/train/recipe.py.
"""

import argparse
import os
import sys
from pathlib import Path

import torch

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import check_positive
from resmlp_mt.train.command import MAX_TOKENS, PORT, Devices
from resmlp_mt.train.job import Training
from resmlp_mt.train.recipe import PRECISIONS, TOKENS_PER_UPDATE, UPDATES


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        usage="%(prog)s {en-de,en-fr} DATA_BIN --out DIR [options] [-- options of fairseq-train]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("pair", help="en-de or en-fr")
    parser.add_argument("data", type=Path, metavar="DATA_BIN", help="binary data of prepare.py")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for checkpoints")
    parser.add_argument(
        "--arch",
        default="resmlp_mt_6",
        metavar="NAME",
        help="resmlp_mt_6 (default), resmlp_mt_12, resmlp_mt_toeplitz_6 and _12, resmlp_mt_conv_6 "
        "and _12, resmlp_mt_tiny for trials, "
        "transformer_wmt_en_de (the baseline) or another transformer_*",
    )
    parser.add_argument("--gpus", type=int, metavar="N", help="a node (default: all there are)")
    parser.add_argument("--nodes", type=int, default=1, metavar="N", help="machines (1)")
    parser.add_argument("--node-rank", type=int, default=0, metavar="N", help="this one, from 0")
    parser.add_argument(
        "--master-addr",
        default=os.environ.get("MASTER_ADDR"),
        metavar="HOST",
        help="first node's host name (default: the variable MASTER_ADDR)",
    )
    parser.add_argument("--master-port", type=int, default=PORT, metavar="N", help=f"({PORT})")
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default=PRECISIONS[0],
        help="fp32 (default); tf32: the same with products in TF32 (A100 and later); fp16: weights "
        "in 16 bits, the float32 copy beside them being in no checkpoint",
    )
    parser.add_argument(
        "--tokens",
        type=int,
        default=TOKENS_PER_UPDATE,
        metavar="N",
        help=f"an update, on all GPUs together ({TOKENS_PER_UPDATE})",
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help=f"a batch on one GPU: fewer if its memory is too small ({MAX_TOKENS}, or a GPU's "
        "share if less)",
    )
    parser.add_argument(
        "--updates", type=int, default=UPDATES, metavar="N", help=f"length of training ({UPDATES})"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--dry-run", action="store_true", help="print the command, run nothing")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    args = parser.parse_args(words[:end])
    args.extra = words[end + 1 :]
    if args.gpus is None:
        args.gpus = max(1, torch.cuda.device_count())
    check_positive(args, "gpus", "nodes", "tokens", "updates")
    if args.max_tokens is not None:
        check_positive(args, "max_tokens")
    return args


def main() -> None:
    args = parse_args()
    training = Training(
        args.pair,
        args.arch,
        args.data,
        args.out,
        Devices(args.gpus, args.nodes, args.master_addr, args.master_port),
        node=args.node_rank,
        precision=args.precision,
        tokens=args.tokens,
        max_tokens=args.max_tokens,
        updates=args.updates,
        seed=args.seed,
        extra=args.extra,
    )
    if args.dry_run:
        print(training.describe())
    else:
        training.run()


if __name__ == "__main__":
    sys.exit(run_main(main))
