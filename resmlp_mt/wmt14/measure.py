"""What preparing costs: time, CPU time and memory of ``scripts/prepare.py``, and projections.

The text is real text, repeated with its line number changed in it, so that no pair is a duplicate
of another. Subwords learnt from it are learnt faster than from text that does not repeat itself,
and the numbers add pieces to every sentence.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import List, Tuple

from resmlp_mt.errors import UserError
from resmlp_mt.pipeline.corpus import read_parallel, write_lines
from resmlp_mt.pipeline.provenance import versions
from resmlp_mt.pipeline.steps import read_json
from resmlp_mt.wmt14.memory_watch import MemoryWatch
from resmlp_mt.wmt14.parallel import usable_cores
from resmlp_mt.wmt14.recipes import Pair

PREPARE = Path(__file__).parents[2] / "scripts" / "prepare.py"
HELD_OUT = 1000  # pairs in each of dev and test1
STEPS = {"normalise and clean": "text", "SentencePiece": "subwords", "encode": "data-bin"}


def make_text(files: List[Tuple[Path, Path]], pairs: int, pair: Pair, folder: Path) -> None:
    """Write *pairs* sentence pairs in mtdata's layout: those of *files*, again and again."""
    base = [both for source, target in files for both in read_parallel(source, target)]
    (folder / "train-parts").mkdir(parents=True)
    for side, tag in enumerate(pair.tags):
        repeated = (f"{base[i % len(base)][side]} {i}" for i in range(pairs))
        write_lines(folder / "train-parts" / f"repeated.{tag}", repeated)
        for name in ("dev", "test1"):
            write_lines(folder / f"{name}.{tag}", [both[side] for both in base[:HELD_OUT]])


def measure(text: Path, out: Path, pair: Pair, workers: int, vocab_size: int) -> dict:
    """Run ``prepare.py`` on *text*, watched.

    Raises:
        UserError: if it fails.
    """
    command = [sys.executable, str(PREPARE), pair.name, "--from", str(text), "--out", str(out)]
    command += ["--workers", str(workers), "--vocab-size", str(vocab_size)]
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    watch = MemoryWatch(process.pid)
    for line in process.stdout:
        print(line, end="", flush=True)
        begun = re.fullmatch(r"\[\d+/\d+\] (.+) \.\.\.\n", line)
        if begun:
            watch.phase = STEPS[begun[1]]
    status = process.wait()
    wall = time.monotonic() - start
    watch.stop()
    if status:
        raise UserError(f"prepare.py failed on {text}: see above")
    results = read_json(out / "manifest.json")["results"]
    cost = {step: results[step]["cost"] for step in ("inputs", *STEPS.values())}
    pairs = sum(counts["read"] for counts in results["text"]["corpora"].values())
    vocabulary = cost["subwords"]["wall_seconds"]
    return {
        "pairs": pairs,
        "pairs_kept": results["data-bin"]["splits"]["train"]["pairs"],
        "text_bytes": sum(found["bytes"] for found in results["inputs"]["corpora"].values()),
        "out_bytes": {
            step: sum(path.stat().st_size for path in (out / step).iterdir())
            for step in STEPS.values()
        },
        "wall_seconds": round(wall, 2),
        "pairs_per_second": round(pairs / wall, 1),
        "pairs_per_second_without_vocabulary": round(pairs / (wall - vocabulary), 1),
        "start_seconds": round(wall - sum(step["wall_seconds"] for step in cost.values()), 2),
        "cost": cost,
        "peak_bytes": watch.peaks,
    }


def project(found: dict, pairs: int, cores: int) -> dict:
    """Time and disk for *pairs* on *cores*, from one measurement.

    Taken for granted: everything is linear in the pairs, but for starting Python and for learning
    the subwords, whose sample is fixed; the workers' CPU time (normalising, encoding) divides by
    the cores; checking the inputs, and the main process, which reads, writes and counts, take as
    long with more of them, and nothing of the latter overlaps with the workers' part.
    """
    ratio = pairs / found["pairs"]
    seconds = {
        "start": found["start_seconds"],
        "inputs": ratio * found["cost"]["inputs"]["wall_seconds"],
    }
    for step in ("text", "data-bin"):
        cost = found["cost"][step]
        seconds[step] = ratio * (cost["cpu_seconds_main"] + cost["cpu_seconds_workers"] / cores)
    seconds["subwords"] = found["cost"]["subwords"]["wall_seconds"]
    return {
        "pairs": pairs,
        "cores": cores,
        "seconds": {step: round(value, 1) for step, value in seconds.items()},
        "hours": round(sum(seconds.values()) / 3600, 2),
        "text_and_data_bin_gigabytes": round(ratio * sum(found["out_bytes"].values()) / 1e9, 2),
    }


def compare(files, sizes: List[int], pair: Pair, workers: int, vocab_size: int, work: Path) -> dict:
    """Measure each size in turn; the folders are removed as soon as they have been read.

    Args:
        files: real text, source and target file by file.
        sizes: sentence pairs.
        work: folder for text and results.
    """
    measured, load = [], [os.getloadavg()[0]]
    for size in sizes:
        folder = work / str(size)
        make_text(files, size, pair, folder / "text")
        measured.append(measure(folder / "text", folder / "out", pair, workers, vocab_size))
        shutil.rmtree(folder)
        load.append(os.getloadavg()[0])
    largest = measured[-1]
    return {
        "pair": pair.name,
        "workers": workers,
        "cores": usable_cores(),
        "load_average": [round(value, 2) for value in load],
        "processor": processor(),
        "versions": versions(),
        "vocab_size": vocab_size,
        "measured": measured,
        "peak_rss_without_vocabulary": [_peak(found) for found in measured],
        "peak_ratio_last_to_first": round(_peak(largest) / _peak(measured[0]), 3),
        "projected": [project(largest, pairs, 16) for pairs in (4_500_000, 36_000_000)],
        "projection": " ".join(project.__doc__.split("Taken for granted: ")[1].split()),
    }


def _peak(found: dict) -> int:
    """Highest memory of all steps but the learning of the subwords."""
    return max(peak["rss"] for step, peak in found["peak_bytes"].items() if step != "subwords")


def processor() -> str:
    """The CPU's name."""
    try:
        return re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())[1]
    except (OSError, TypeError):
        return platform.processor() or platform.machine()


def table(found: dict) -> str:
    """What :func:`compare` found, for the terminal."""
    lines = [f"{found['pair']}, {found['workers']} workers on {found['cores']} cores"]
    for measured in found["measured"]:
        lines.append(
            f"{measured['pairs']:,} pairs: {measured['wall_seconds']:.0f} s, "
            f"{measured['pairs_per_second']:,.0f} pairs/s "
            f"({measured['pairs_per_second_without_vocabulary']:,.0f} without the vocabulary)"
        )
        lines.append(f"  start: {measured['start_seconds']:.1f} s")
        for step, cost in measured["cost"].items():
            thousands = measured["pairs"] / 1000
            main, workers = cost["cpu_seconds_main"], cost["cpu_seconds_workers"]
            lines.append(
                f"  {step}: {cost['wall_seconds']:.1f} s; CPU seconds per 1,000 pairs: "
                f"main process {main / thousands:.4f}, workers {workers / thousands:.4f}"
            )
        for step, peak in measured["peak_bytes"].items():
            lines.append(
                f"  peak memory, {step}: {peak['rss'] / 1e6:,.0f} MB "
                f"({peak['pss'] / 1e6:,.0f} MB with shared pages counted once)"
            )
    lines.append(
        "peak memory of the largest by that of the smallest, vocabulary apart: "
        f"{found['peak_ratio_last_to_first']:.3f}"
    )
    for projected in found["projected"]:
        lines.append(
            f"projected, {projected['pairs']:,} pairs on {projected['cores']} cores: "
            f"{projected['hours']:.2f} h {projected['seconds']}, "
            f"{projected['text_and_data_bin_gigabytes']:.0f} GB"
        )
    return "\n".join([*lines, f"projection: {found['projection']}"])
