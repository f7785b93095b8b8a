#!/usr/bin/env python3
"""Average the last checkpoints of a run: ``average.py SAVE_DIR -n 10 -o averaged.pt``."""

import argparse
import sys
from pathlib import Path

from resmlp_mt.errors import check_positive
from resmlp_mt.pipeline.averaging import average_checkpoints, last_checkpoints
from resmlp_mt.pipeline.terminal import run_main


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("save_dir", type=Path, help="folder with checkpoint1.pt ...")
    parser.add_argument("-n", "--count", type=int, default=10, help="how many (default 10)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="checkpoint to write")
    args = parser.parse_args()
    check_positive(args, "count")
    paths = last_checkpoints(args.save_dir, args.count)
    average_checkpoints(paths, args.output)
    print(f"{args.output}: mean of {', '.join(path.name for path in paths)}")


if __name__ == "__main__":
    sys.exit(run_main(main))
