"""docs/results/results.jsonl: a line for each result of the tables, and how numbers are written."""

import json
import platform
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs" / "results" / "results.jsonl"


def load(path: Path = FILE) -> dict[str, dict]:
    """The results by name, in the order of the file. A later line of the same name wins."""
    with open(path, encoding="utf-8") as lines:
        return {result["name"]: result for result in map(json.loads, lines)}


def append(name: str, numbers: dict, seed: int | None = None, path: Path = FILE) -> None:
    """Add a line with the command that runs now, the commit and the machine."""
    program, *words = sys.argv
    # whoever repeats it has another folder
    words = ["OUT" if before == "--out" else word for before, word in zip(sys.argv, words)]
    program = str(Path(program).resolve()).removeprefix(f"{ROOT}/")
    result = {
        "name": name,
        "command": shlex.join(["python", program, *words]),
        "commit": commit(),
        "machine": machine(),
        "torch": version("torch"),
        "seed": seed,
        "numbers": numbers,
    }
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(result, ensure_ascii=False) + "\n")


def number(value: float) -> str:
    """Three significant digits, two decimals at most."""
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def spread(value: dict) -> str:
    return f"{number(value['median'])} ({number(value['low'])} .. {number(value['high'])})"


def commit() -> str:
    """The short hash of HEAD, with a plus sign if a tracked .py file differs from it."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--exclude=*"]
    changed = ["git", "-C", str(ROOT), "status", "--porcelain", "-uno", "--", "*.py"]
    head, dirty = (
        subprocess.run(words, capture_output=True, text=True).stdout.strip()
        for words in (git, changed)
    )
    return f"{head or 'unknown'}{'+' if dirty else ''}"


# what decides which products are fast
EXTENSIONS = ("amx_int8", "avx512_bf16", "avx512_vnni", "avx512f", "avx_vnni", "avx2")


def machine() -> str:
    """The name of the CPU, and its extensions."""
    try:
        cpu = Path("/proc/cpuinfo").read_text()
        flags = re.search(r"flags\s*: (.*)", cpu)[1].split()
        known = ", ".join(name for name in EXTENSIONS if name in flags)
        return f"{re.search(r'model name.*: (.*)', cpu)[1]} ({known})"
    except (OSError, TypeError):
        return platform.processor() or platform.machine()
