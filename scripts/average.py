#!/usr/bin/env python3
"""Average the last checkpoints of a run: ``average.py SAVE_DIR -n 10 -o averaged.pt``.

Like fairseq's average_checkpoints.py, it takes those of epochs or, with --by update, those of
--save-interval-updates. It takes the memory of two checkpoints, however many are averaged.
"""

import argparse
import sys
from pathlib import Path

from resmlp_mt.checkpoints.averaging import average_checkpoints, last_checkpoints
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import check_positive


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("save_dir", type=Path, help="folder with checkpoint1.pt ...")
    parser.add_argument(
        "--by",
        choices=["epoch", "update"],
        default="epoch",
        help="checkpointN.pt (default) or checkpoint_EPOCH_N.pt",
    )
    parser.add_argument("--upper-bound", type=int, metavar="N", help="highest N to take")
    parser.add_argument("-n", "--count", type=int, default=10, help="how many (default 10)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="checkpoint to write")
    args = parser.parse_args()
    check_positive(args, "count")
    paths = last_checkpoints(args.save_dir, args.count, args.by, args.upper_bound)
    average_checkpoints(paths, args.output)
    print(f"{args.output}: mean of {', '.join(path.name for path in paths)}")


if __name__ == "__main__":
    sys.exit(run_main(main))
