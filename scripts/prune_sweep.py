#!/usr/bin/env python3
"""BLEU against the share of weights pruned: A, B, C and all of them, at several thresholds.

prune_sweep.py checkpoint.pt DATA_BIN --references test.de -o sweep.json
plot.py pruning sweep.json -o sweep.png

Each point prunes the checkpoint, translates the test set and scores it. The file is written after
each; the same command goes on where it was stopped, or adds points for other thresholds.
"""

import argparse
import shlex
import sys
from pathlib import Path

from resmlp_mt.analysis.pruning_sweep import THRESHOLDS, WHICH, Sweep
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import check_finite, check_positive


def show(point: dict, new: bool) -> None:
    print(
        f"{point['which']:4}  threshold {point['threshold']:<5g}  removed {point['removed']:6.1%}  "
        f"BLEU {point['bleu']:5.2f}{'' if new else '  (done before)'}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", type=Path, help="of a resmlp_mt model, not folded")
    parser.add_argument("data", type=Path, metavar="DATA_BIN", help="of fairseq-preprocess")
    parser.add_argument("--references", type=Path, required=True, help="one sentence a line")
    parser.add_argument("-o", "--output", type=Path, required=True, help="JSON file")
    parser.add_argument("--subset", default="test", help="fairseq's name of the test set (test)")
    parser.add_argument(
        "--thresholds",
        type=float,
        nargs="+",
        default=THRESHOLDS,
        metavar="SHARE",
        help=f"of the matrix's largest weight ({' '.join(map(str, THRESHOLDS))})",
    )
    parser.add_argument(
        "--which", nargs="+", choices=WHICH, help="matrices (all four, as far as there are)"
    )
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--lenpen", type=float, default=0.6, help="length penalty (0.6)")
    parser.add_argument(
        "--length", type=int, default=32, help="longest sentences of which training had many (32)"
    )
    parser.add_argument("--threads", type=int, help="CPU threads (default: PyTorch's)")
    args = parser.parse_args()
    check_positive(args, "length", "beam")
    check_finite(args, "lenpen")
    sweep = Sweep(
        args.checkpoint,
        args.data,
        args.references,
        args.output,
        args.subset,
        args.beam,
        args.lenpen,
        args.length,
        args.threads,
        shlex.join(["scripts/prune_sweep.py", *sys.argv[1:]]),
    )
    sweep.run(args.thresholds, args.which, show)
    print(args.output)


if __name__ == "__main__":
    sys.exit(run_main(main))
