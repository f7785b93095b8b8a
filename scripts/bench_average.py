#!/usr/bin/env python3
"""The memory that averaging checkpoints takes, and how exact it is: ``bench_average.py --help``.

Makes checkpoints with random weights and Adagrad's state in a temporary folder, averages them in a
process of its own, and compares with the mean computed plainly in float64. For Linux.
"""

import argparse
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import torch

from resmlp_mt.benchmark.pair import build, check_architecture, complete
from resmlp_mt.errors import check_positive
from resmlp_mt.pipeline.averaging import average_checkpoints, last_checkpoints, load_checkpoint
from resmlp_mt.pipeline.dictionaries import synthetic_dictionary
from resmlp_mt.pipeline.terminal import run_main


def make_checkpoints(folder: Path, args) -> None:
    """``checkpoint_1_N.pt``: the weights go for a random walk."""
    dictionary = synthetic_dictionary(args.vocabulary)
    positions = {f"max_{side}_positions": args.positions for side in ("source", "target")}
    options = complete(args.arch, {**positions, "share_all_embeddings": True})
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model = build(options, task, args)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.2)
    for update in range(1, args.count + 1):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
                optimizer.state[parameter]["sum"].add_(parameter.square())
        state = {"model": model.state_dict(), "last_optimizer_state": optimizer.state_dict()}
        torch.save(state, folder / f"checkpoint_1_{update}.pt")


def memory(name: str) -> int:
    """Bytes of this process: ``VmRSS`` (now) or ``VmHWM`` (its highest)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}")


def average(folder: Path, count: int, results) -> None:
    before, start = memory("VmRSS"), time.monotonic()
    average_checkpoints(last_checkpoints(folder, count, by="update"), folder / "averaged.pt")
    results.put((before, memory("VmHWM"), time.monotonic() - start))


def largest_difference(folder: Path, count: int) -> float:
    """Between the file and the mean in float64, over all parameters."""
    paths = last_checkpoints(folder, count, by="update")
    states = [load_checkpoint(path, mapped=True)["model"] for path in paths]
    averaged = load_checkpoint(folder / "averaged.pt", mapped=True)["model"]
    worst = 0.0
    for name, value in averaged.items():
        mean = torch.stack([state[name].double() for state in states]).mean(0)
        worst = max(worst, (value.double() - mean).abs().max().item())
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--arch", default="resmlp_mt_12")
    parser.add_argument("--count", type=int, default=10, help="checkpoints (10)")
    parser.add_argument("--vocabulary", type=int, default=32768)
    parser.add_argument("--positions", type=int, default=256)
    parser.add_argument("--dir", type=Path, help="where the temporary folder is made")
    args = parser.parse_args()
    check_positive(args, "count", "vocabulary", "positions")
    check_architecture("--arch", args.arch)
    args.seed, args.device, args.dtype = 1, "cpu", "float32"
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="average-", dir=args.dir) as name:
        folder = Path(name)
        results = spawn.Queue()
        for target, arguments in (
            (make_checkpoints, (folder, args)),
            (average, (folder, args.count, results)),
        ):
            process = spawn.Process(target=target, args=arguments)
            process.start()
            process.join()
            if process.exitcode:
                raise SystemExit(process.exitcode)
        before, peak, seconds = results.get()
        size = (folder / "checkpoint_1_1.pt").stat().st_size
        difference = largest_difference(folder, args.count)
        averaged = (folder / "averaged.pt").stat().st_size
    print(f"{args.count} checkpoints of {args.arch}, {size / 1e6:,.0f} MB each")
    print(f"averaged in {seconds:.1f} s to {averaged / 1e6:,.0f} MB")
    print(
        f"memory: {peak / 1e6:,.0f} MB at most, {(peak - before) / 1e6:,.0f} MB more than before; "
        f"{(peak - before) / size:.2f} checkpoints ({peak / size:.2f} with Python and PyTorch)"
    )
    print(f"largest difference from the mean in float64: {difference:.2g}")


if __name__ == "__main__":
    sys.exit(run_main(main))
