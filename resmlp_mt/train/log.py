"""The log of fairseq-train: its records, the learning curves, a progress bar."""

import json
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Dict, List, Optional

from tqdm import tqdm

_RECORD = re.compile(r"\| (train_inner|train|valid) \| (\{.*\})$")
_ENDS = r"early stop since|no update is left|no time is left"
_MESSAGE = re.compile(rf"\| WARNING \| [^|]* \| (.*)$|((?:{_ENDS}).*)$")


def parse_record(line: str) -> Optional[tuple]:
    """``(kind, values)`` of a statistics line of ``fairseq-train --log-format json``. None for any
    other line, also for what two processes wrote on one."""
    match = _RECORD.search(line)
    if match is None:
        return None
    try:
        record = json.loads(match[2])
    except ValueError:
        return None
    values = {}
    for name, value in record.items():
        with suppress(TypeError, ValueError):  # a value in words is of no use here
            values[name] = float(value)
    for name in ("loss", "valid_loss"):
        if name in values:
            # cross_entropy, which smooths no labels, does not say twice what is the same
            values.setdefault(name.replace("loss", "nll_loss"), values[name])
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
        with suppress(KeyError):  # of a record that is not whole
            if kind == "train_inner":
                curves["train"][int(values["num_updates"])] = values["nll_loss"]
            elif kind == "valid":
                curves["valid"][int(values["valid_num_updates"])] = values["valid_nll_loss"]
    return {kind: sorted(points.items()) for kind, points in curves.items()}


class TrainingBar(tqdm):
    """A bar over updates, moved by the lines of the log.

    Validations, warnings and an early end get lines above it.
    """

    def __init__(self, updates: int):
        # a log file of a cluster needs no line a second
        often = 1 if sys.stderr.isatty() else 60
        super().__init__(total=updates, unit="update", mininterval=often, dynamic_ncols=True)
        self.messages: set = set()

    def show(self, line: str) -> None:
        """Take a line of the log."""
        message, record = _MESSAGE.search(line), parse_record(line)
        if message is not None:
            text = message[1] or message[2]
            if text not in self.messages:
                self.messages.add(text)
                self.write(f"    {text}")
        if record is not None:
            with suppress(KeyError):  # of a record that is not whole
                self._show_record(*record)

    def _show_record(self, kind: str, values: Dict[str, float]) -> None:
        if kind == "train_inner":
            text = f"epoch {values['epoch']:.0f}, loss {values['loss']:.2f}"
            self.update(int(values["num_updates"]) - self.n)
            self.set_postfix_str(text)
        elif kind == "valid":
            bleu = f", BLEU {values['valid_bleu']:.1f}" if "valid_bleu" in values else ""
            text = (
                f"    epoch {values['epoch']:3.0f}, update {values['valid_num_updates']:6.0f}: "
                f"validation nll {values['valid_nll_loss']:.3f} bits a token{bleu}"
            )
            self.update(int(values["valid_num_updates"]) - self.n)
            self.write(text)
