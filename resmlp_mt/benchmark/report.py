"""What a mode found: tables for the terminal, one JSON file, pictures."""

import platform
import re
import shlex
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Dict, List, Optional

import torch

from resmlp_mt.benchmark.timing import Spread
from resmlp_mt.errors import UserError
from resmlp_mt.files import write_json
from resmlp_mt.provenance import versions
from resmlp_mt.score.terminal_table import Table


@dataclass
class Chart:
    """One panel of a picture: a line for each model.

    Attributes:
        title, x, y: heading and axes, with units.
        lines: for each model its points, ``(x, Spread)``.
    """

    title: str
    x: str
    y: str
    lines: Dict[str, list]


@dataclass
class Report:
    """What a mode gives back.

    Attributes:
        result: all numbers, as JSON values.
        tables: for the terminal.
        pictures: panels by the picture's name.
    """

    result: dict
    tables: List[Table]
    pictures: Dict[str, List[Chart]] = field(default_factory=dict)


def number(value: float) -> str:
    """A number with three or so digits that count."""
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def spread_text(value: Spread) -> str:
    """``median (low .. high)``."""
    return f"{number(value.median)} ({number(value.low)} .. {number(value.high)})"


def counted(number: int, thing: str) -> str:
    """``1 sentence``, ``2 sentences``."""
    return f"{number} {thing}{'s' * (number != 1)}"


def megabytes(value: Optional[float]) -> str:
    return "-" if value is None else number(value / 1e6)


def machine(args) -> dict:
    """What the numbers depend on, the models apart."""
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
    }
    if args.device == "cuda":
        found["gpu"] = torch.cuda.get_device_name()
    return found


def machine_line(found: dict) -> str:
    device = found.get("gpu", found["device"])
    return (
        f"{found['cpu']}, {counted(found['threads'], 'thread')}, "
        f"torch {found['torch']}, {found['dtype']} (float32 products: "
        f"{found['float32_products']}), on {device}"
    )


def prepare_folder(folder: Path, pictures: bool) -> None:
    """Find out before the work, not after it, whether results can be kept.

    Raises:
        UserError: if *folder* cannot be made, or pictures cannot be drawn.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {folder}: {error.strerror}: name another folder") from None
    if pictures:
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            raise UserError("--out: pictures need matplotlib: pip install matplotlib") from None


def show(report: Report, args) -> None:
    print(machine_line(machine(args)) + "\n")
    for table in report.tables:
        print(table.text())


def save(report: Report, args, argv: List[str]) -> List[Path]:
    """Write the JSON file and the pictures; gives their names."""
    folder = args.out
    made_with = versions()
    if args.ctranslate2:
        made_with["ctranslate2"] = version("ctranslate2")
    settings = {name: value for name, value in vars(args).items() if name not in ("mode", "out")}
    write_json(
        folder / f"{args.mode}.json",
        {
            "mode": args.mode,
            "command": shlex.join(["scripts/benchmark.py", *argv]),
            "settings": settings,
            "machine": machine(args),
            "versions": made_with,
            **report.result,
        },
    )
    written = [folder / f"{args.mode}.json"]
    for name, charts in report.pictures.items():
        from resmlp_mt.benchmark.pictures import draw  # only where matplotlib is needed

        for suffix in ("png", "svg"):
            written.append(folder / f"{name}.{suffix}")
            draw(charts, written[-1])
    return written
