"""The log of fairseq-train: its records, learning curves, progress."""

import json
import re
from contextlib import suppress
from pathlib import Path

from resmlp_mt.progress import Progress

_RECORD = re.compile(r"\| (train_inner|train|valid) \| (.*)$")
_PAIR = re.compile(r"(\w+)[= ]([^ ,|]+)(?=,| \||$)")  # "loss=9.1, " or "loss 9.1 | "
_PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+) ")
_SHOWN = r"early stop since|no update is left|no time is left|Loaded checkpoint"
_MESSAGE = re.compile(rf"\| WARNING \| [^|]* \| (.*)$|((?:{_SHOWN}).*)$")


def parse_record(line: str) -> tuple[str, dict[str, float]]:
    """The kind and the values of a statistics line of fairseq-train in the format ``json`` or
    ``simple``; empty if the line is none, or two that processes wrote into each other."""
    match = _RECORD.search(line)
    kind, text = match.groups() if match else ("", "")
    try:
        record = json.loads(text)
    except ValueError:
        prefix = "valid_" if kind == "valid" else ""
        record = {prefix + name: value for name, value in _PAIR.findall(text)}
    if not isinstance(record, dict):
        return "", {}
    values = {}
    for name, value in record.items():
        with suppress(TypeError, ValueError):  # not a number
            values[name] = float(value)
    for name in ("loss", "valid_loss"):
        if name in values:
            # cross_entropy without label smoothing logs the nll only once, as the loss
            values.setdefault(name.replace("loss", "nll_loss"), values[name])
    return kind, values


def read_curve(log: Path) -> dict[str, list[tuple]]:
    """Learning curves ``train`` and ``valid``: lists of (update, nll in bits per token). After
    a resume the later record of an update counts."""
    curves: dict[str, dict] = {"train": {}, "valid": {}}
    for line in Path(log).read_text(encoding="utf-8").split("\n"):
        kind, values = parse_record(line)
        with suppress(KeyError):  # an incomplete record
            if kind == "train_inner":
                curves["train"][int(values["num_updates"])] = values["nll_loss"]
            elif kind == "valid":
                curves["valid"][int(values["valid_num_updates"])] = values["valid_nll_loss"]
    return {kind: sorted(points.items()) for kind, points in curves.items()}


class TrainingProgress(Progress):
    """Counts the updates in a log. The model's size, validations, warnings, a resume and an early
    end get lines."""

    def __init__(self, updates: int):
        super().__init__("    train", updates, "updates")
        self.messages: set[str] = set()

    def show(self, line: str) -> None:
        """Take a line of the log."""
        if message := _MESSAGE.search(line):
            self._say_once(message[1] or message[2])
        if parameters := _PARAMETERS.search(line):
            self._say_once(f"model: {parameters[1]} parameters")
        kind, values = parse_record(line)
        with suppress(KeyError):  # an incomplete record
            if kind == "train_inner":
                note = f"epoch {values['epoch']:.0f}, loss {values['loss']:.2f}"
                self.set_postfix_str(note, refresh=False)
                self._advance(int(values["num_updates"]))
            elif kind == "valid":
                update = int(values["valid_num_updates"])
                bleu = f", BLEU {values['valid_bleu']:.1f}" if "valid_bleu" in values else ""
                text = (
                    f"    epoch {values['epoch']:3.0f}, update {update:6}: validation nll "
                    f"{values['valid_nll_loss']:.3f} bits per token{bleu}"
                )
                self._advance(update)
                self.say(text)

    def _say_once(self, message: str) -> None:
        if message not in self.messages:
            self.messages.add(message)
            self.say(f"    {message}")

    def _advance(self, update: int) -> None:
        if self.n:
            self.update(update - self.n)
        else:  # the first record: no rate yet
            self.resume(update)
