"""docs/results/results.jsonl: one line per result, and how numbers are written."""

import fcntl
import json
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

import torch

from resmlp_mt.cpu import CPU

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs" / "results" / "results.jsonl"


def load() -> dict[str, dict]:
    """The results by name, in the order of the file."""
    with open(FILE, encoding="utf-8") as lines:
        return {result["name"]: result for result in map(json.loads, lines)}


def append(name: str, numbers: dict, seed: int = 1) -> None:
    """Write a line, instead of one of that name, with the command that is running, the commit and
    the machine."""
    program, *words = sys.argv
    # whoever repeats it has other folders
    words = ["OUT" if before == "--out" else word for before, word in zip(sys.argv, words)]
    words = ["--out=OUT" if word.startswith("--out=") else word for word in words]
    words = [Path(word).name if word.startswith("/") else word for word in words]
    program = str(Path(program).resolve()).removeprefix(f"{ROOT}/")
    result = {
        "name": name,
        "command": shlex.join(["python", program, *words]),
        "commit": commit(),
        "machine": machine(),
        "torch": torch.__version__,
        "seed": seed,
        "numbers": numbers,
    }
    with open(FILE, "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # of trainings that end at the same time
        others = [line for line in file if json.loads(line)["name"] != name]
        file.seek(0)
        file.writelines([*others, json.dumps(result, ensure_ascii=False) + "\n"])
        file.truncate()


def number(value: float) -> str:
    """Three significant digits, two decimals at most."""
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def spread(value: dict) -> str:
    return f"{number(value['median'])} ({number(value['low'])} .. {number(value['high'])})"


def commit() -> str:
    """The short hash of HEAD, with a plus sign if a tracked file outside docs differs from it."""
    git = ["git", "-C", str(ROOT)]
    head = [*git, "describe", "--always", "--exclude=*"]
    changed = [*git, "status", "--porcelain", "-uno", "--", ".", ":!docs"]
    done = (subprocess.run(words, capture_output=True, text=True) for words in (head, changed))
    name, more = (one.stdout.strip() for one in done)
    return f"{name or 'unknown'}{'+' if more else ''}"


# CPU features that decide which products are fast, the strongest first
FEATURES = ("amx_int8", "avx512_bf16", "avx512_vnni", "avx512_f", "avx_vnni", "avx2")
# environment variables that limit a library to fewer of them
LIMITS = (
    *("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS"),
    *("CT2_FORCE_CPU_ISA", "RESMLP_MT_KERNEL"),
)


def machine() -> str:
    """The name of the CPU, and its features."""
    return f"{cpu()['name']} ({', '.join(cpu()['features'])})"


def cpu() -> dict:
    """Its name, its features, those that PyTorch uses, and limits that are set."""
    return {
        "name": CPU.get("cpu_name", platform.machine()),
        "features": [feature for feature in FEATURES if CPU.get(feature)],
        "pytorch": torch.backends.cpu.get_cpu_capability(),
        "limits": {name: os.environ[name] for name in LIMITS if name in os.environ},
    }


def cpu_label(cpu: dict) -> str:
    """The maker of a CPU, and the best of what its products can use."""
    makers = {"AMD": "AMD EPYC", "Intel": "Intel Xeon"}
    maker = next((makers[x] for x in makers if x in cpu["name"]), cpu["name"])
    known = {"amx_int8": "AMX", "avx512_vnni": "AVX-512 VNNI", "avx512_f": "AVX-512"}
    return f"{maker}, {next((known[f] for f in known if f in cpu['features']), 'AVX2')}"
