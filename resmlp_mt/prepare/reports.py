"""What a step's report holds beside its counts, and what the terminal shows of them all."""

import resource
import time
from pathlib import Path
from typing import Dict, List

from resmlp_mt.text.lines import sha256_of


def digests(folder: Path) -> Dict[str, str]:
    """SHA-256 of every file in a folder, by name."""
    return {path.name: sha256_of(path) for path in sorted(folder.iterdir()) if path.is_file()}


def spent() -> Dict[str, float]:
    """Seconds: of the clock, of this process's CPU, and of its workers', once they have ended."""
    spent = {"wall_seconds": time.monotonic()}
    for name, who in (("main", resource.RUSAGE_SELF), ("workers", resource.RUSAGE_CHILDREN)):
        usage = resource.getrusage(who)
        spent[f"cpu_seconds_{name}"] = usage.ru_utime + usage.ru_stime
    return spent


def since(before: Dict[str, float]) -> Dict[str, float]:
    return {name: round(now - before[name], 3) for name, now in spent().items()}


def summary(results: dict) -> List[str]:
    """A few lines for the terminal: what was read, dropped and why, and what is left."""
    text, data = results["text"], results["data-bin"]
    lines = []
    for name, counts in text["corpora"].items():
        reasons = {k: v for k, v in counts.items() if k not in ("read", "kept")}
        lines.append(f"{name}: {counts['read']:,} pairs read{_listed(reasons)}")
    train = data["splits"]["train"]["pairs"]
    lines.append(f"all: {text['pairs']:,} pairs encoded{_listed(data['dropped'])}")
    held_out = ", ".join(
        f"{split} {data['splits'][split]['pairs']:,}" for split in ("valid", "test")
    )
    lines.append(f"data-bin: train {train:,} pairs, {held_out}; {data['types']:,} types")
    return lines


def _listed(dropped: Dict[str, int]) -> str:
    if not dropped:
        return ", none dropped"
    reasons = sorted(dropped.items(), key=lambda item: -item[1])
    return ", dropped: " + ", ".join(f"{number:,} {reason}" for reason, number in reasons)
