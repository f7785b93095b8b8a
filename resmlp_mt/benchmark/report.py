"""What a mode found: tables for the terminal and one JSON file."""

import os
import platform
import re
import shlex
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import List

import torch
from tabulate import tabulate

from resmlp_mt.files import write_json
from resmlp_mt.provenance import versions


@dataclass
class Table:
    """A title above, a heading for each column, cells, and notes below."""

    title: str
    header: List[str]
    rows: List[List[str]]
    notes: List[str] = field(default_factory=list)

    def text(self) -> str:
        align = ["left", *["right"] * (len(self.header) - 1)]
        table = tabulate(self.rows, self.header, disable_numparse=True, colalign=align)
        return "\n".join([self.title, "", table, *self.notes, ""])


@dataclass
class Report:
    """What a mode measured: all numbers as JSON values, and tables for the terminal."""

    result: dict
    tables: List[Table]


def counted(number: int, thing: str) -> str:
    """``1 sentence``, ``2 sentences``."""
    return f"{number} {thing}{'s' * (number != 1)}"


# of the variables by which OpenMP and oneDNN are told how to use a CPU
THREADING = ("OMP_", "GOMP_", "KMP_", "MKL_", "ONEDNN_", "ATEN_")


def machine(args) -> dict:
    """What the numbers depend on beside the models."""
    try:
        text = Path("/proc/cpuinfo").read_text()
        cpu = re.search(r"model name\s*: (.*)", text)[1]
    except (OSError, TypeError):
        cpu = platform.processor() or platform.machine()
    found = {
        "cpu": cpu,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "dtype": args.dtype,
        "float32_products": torch.get_float32_matmul_precision(),
        "device": args.device,
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(THREADING)},
    }
    if args.device == "cuda":
        found["gpu"] = torch.cuda.get_device_name()
    return found


def show(report: Report, args) -> None:
    found = machine(args)
    device = found.get("gpu", found["device"])
    print(
        f"{found['cpu']}, {counted(found['threads'], 'thread')}, torch {found['torch']}, "
        f"{found['dtype']} (float32 products: {found['float32_products']}), on {device}\n"
    )
    for table in report.tables:
        print(table.text())


def save(report: Report, args, settings: dict, argv: List[str]) -> Path:
    """Write the JSON file, and return its path."""
    path, made_with = args.out / f"{args.mode}.json", versions()
    if args.ctranslate2:
        made_with["ctranslate2"] = version("ctranslate2")
    write_json(
        path,
        {
            "mode": args.mode,
            "command": shlex.join(["resmlp-mt", *argv]),
            "settings": settings,
            "machine": machine(args),
            "versions": made_with,
            **report.result,
        },
    )
    return path
