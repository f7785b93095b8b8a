"""What a mode found: tables for the terminal, one JSON file, pictures."""

import os
import platform
import re
import shlex
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Dict, List

import torch
from tabulate import tabulate

from resmlp_mt.errors import UserError
from resmlp_mt.files import make_folder, write_json
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
class Chart:
    """One panel of a picture: its heading, the titles of its axes with units, and the points
    ``(x, Spread)`` of each model."""

    title: str
    x: str
    y: str
    lines: Dict[str, list]


@dataclass
class Report:
    """What a mode measured: all numbers as JSON values, tables for the terminal, and panels by the
    name of the picture."""

    result: dict
    tables: List[Table]
    pictures: Dict[str, List[Chart]] = field(default_factory=dict)


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


def check_folder(folder: Path) -> None:
    """Refuse, before any work, a folder that results cannot be written to.

    Raises:
        UserError: if *folder* cannot be made, or pictures cannot be drawn.
    """
    make_folder(folder)
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UserError("--out: pictures need matplotlib: pip install matplotlib") from None


def show(report: Report, args) -> None:
    found = machine(args)
    device = found.get("gpu", found["device"])
    print(
        f"{found['cpu']}, {counted(found['threads'], 'thread')}, torch {found['torch']}, "
        f"{found['dtype']} (float32 products: {found['float32_products']}), on {device}\n"
    )
    for table in report.tables:
        print(table.text())


def save(report: Report, args, settings: dict, argv: List[str]) -> List[Path]:
    """Write the JSON file and the pictures, and return their paths."""
    folder, made_with = args.out, versions()
    if getattr(args, "ctranslate2", []):
        made_with["ctranslate2"] = version("ctranslate2")
    written = [folder / f"{args.mode}.json"]
    write_json(
        written[0],
        {
            "mode": args.mode,
            "command": shlex.join(["resmlp-mt", *argv]),
            "settings": settings,
            "machine": machine(args),
            "versions": made_with,
            **report.result,
        },
    )
    for name, charts in report.pictures.items():
        written += [folder / f"{name}.{suffix}" for suffix in ("png", "svg")]
        draw(charts, *written[-2:])
    return written


def draw(charts: List[Chart], *outputs: Path) -> None:
    """Panels below each other, the same models in each. A band is from lowest to highest repeat."""
    from resmlp_mt.pictures import style

    @style.in_style
    def drawn():
        figure = style.new_figure(style.COLUMN, 5 * len(charts) * style.CM)
        panels = figure.subplots(len(charts), 1, squeeze=False)[:, 0]
        for axes, chart in zip(panels, charts):
            lines = {style.in_words(name): points for name, points in chart.lines.items()}
            for name, look in style.looks(lines).items():
                points = lines[name]
                lengths = [x for x, _ in points]
                axes.plot(lengths, [y.median for _, y in points], label=name, **look)
                low, high = [y.low for _, y in points], [y.high for _, y in points]
                band = {"color": look["color"], "alpha": 0.2, "linewidth": 0}
                axes.fill_between(lengths, low, high, **band)
            axes.set(title=chart.title, xlabel=chart.x, ylabel=chart.y)
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
            axes.grid(True)
        style.legend_below(figure, *panels[0].get_legend_handles_labels(), 2)
        return figure

    style.save(drawn(), *outputs)
