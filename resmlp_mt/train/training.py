"""Train with fairseq-train, watched through its own log."""

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Dict, List, Optional

from tqdm import tqdm

from resmlp_mt.files import read_json, write_json
from resmlp_mt.train.programs import run_program

_RECORD = re.compile(r"\| (train_inner|train|valid) \| (\{.*\})$")


def parse_record(line: str) -> Optional[tuple]:
    """``(kind, values)`` of a statistics line of ``fairseq-train --log-format json``, or None."""
    match = _RECORD.search(line)
    if match is None:
        return None
    values = {}
    for name, value in json.loads(match[2]).items():
        with suppress(TypeError, ValueError):  # a value that is no number is of no use here
            values[name] = float(value)
    return match[1], values


def read_curve(log: Path) -> Dict[str, List[tuple]]:
    """Learning curves from a log: lists of (update, nll in bits a token), ``train`` and ``valid``.

    Where a run was interrupted and continued, the later record of an update counts.
    """
    curves: Dict[str, dict] = {"train": {}, "valid": {}}
    for line in Path(log).read_text(encoding="utf-8").split("\n"):
        record = parse_record(line)
        if record is None:
            continue
        kind, values = record
        if kind == "train_inner":
            curves["train"][int(values["num_updates"])] = values["nll_loss"]
        elif kind == "valid":
            curves["valid"][int(values["valid_num_updates"])] = values["valid_nll_loss"]
    return {kind: sorted(points.items()) for kind, points in curves.items()}


def train(
    data_bin: Path,
    save_dir: Path,
    options: List[str],
    updates: int,
    threads: Optional[int] = None,
    matmul_precision: str = "highest",
) -> dict:
    """Train until *updates*; goes on from ``checkpoint_last.pt`` in *save_dir* if it is there.

    Args:
        data_bin: what ``fairseq-preprocess`` made.
        save_dir: folder for checkpoints and ``train.log``.
        options: further options of ``fairseq-train``.
        updates: the last update; drives the progress bar and ``--max-update``.
        threads: CPU threads.
        matmul_precision: see :func:`resmlp_mt.compat.matmul_precision.set_matmul_precision`.

    Returns:
        the cost over all continuations, ``{"wall_minutes": ..., "cpu_minutes": ...}``.
    """
    cost_file = save_dir / "cost.json"
    with tqdm(total=updates, unit="update", mininterval=1, dynamic_ncols=True) as bar:

        def show(line: str) -> None:
            record = parse_record(line)
            if record is None:
                return
            kind, values = record
            if kind == "train_inner":
                bar.update(int(values["num_updates"]) - bar.n)
                bar.set_postfix_str(f"epoch {values['epoch']:.0f}, loss {values['loss']:.2f}")
            elif kind == "valid":
                bar.write(
                    f"    epoch {values['epoch']:3.0f}, update {values['valid_num_updates']:6.0f}: "
                    f"validation nll {values['valid_nll_loss']:.3f} bits a token"
                )

        cost = run_program(
            "train",
            [
                data_bin,
                *("--save-dir", save_dir, "--max-update", updates),
                *("--log-format", "json", "--log-interval", 20, "--num-workers", 0),
                *options,
            ],
            save_dir / "train.log",
            on_line=show,
            threads=threads,
            matmul_precision=matmul_precision,
        )
        bar.update(updates - bar.n)
    if cost_file.exists():
        cost = {name: value + read_json(cost_file)[name] for name, value in cost.items()}
    write_json(cost_file, cost)
    return cost
