"""The log of fairseq-train: its records, and progress by them."""

import json
import re
from contextlib import suppress

from resmlp_mt_runtime.terminal import Progress

_RECORD = re.compile(r"\| (train_inner|valid) \| (\{.*\})$")
_PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+) ")
_SHOWN = r"early stop since|no update is left|Loaded checkpoint"
_MESSAGE = re.compile(rf"\| WARNING \| [^|]* \| (.*)$|((?:{_SHOWN}).*)$")


def parse_record(line: str) -> tuple[str, dict[str, float]]:
    """The kind (``train_inner`` or ``valid``) and the values of a line of statistics, which
    fairseq-train writes with ``--log-format json``; empty if the line is none, or two that
    processes wrote into each other."""
    if not (match := _RECORD.search(line)):
        return "", {}
    try:
        record = json.loads(match[2])
    except ValueError:
        return "", {}
    values = {}
    for name, value in record.items():
        with suppress(TypeError, ValueError):  # not a number
            values[name] = float(value)
    if "valid_loss" in values:
        # cross_entropy without label smoothing logs the nll only once, as the loss
        values.setdefault("valid_nll_loss", values["valid_loss"])
    return match[1], values


class TrainingProgress(Progress):
    """Counts the updates in a log. The model's size, validations, warnings, a resume and an early
    end get lines."""

    def __init__(self, updates: int, size: str = ""):
        super().__init__("    train", updates, "updates")
        self.size = size  # of the model, before its parameters
        self.messages: set[str] = set()

    def show(self, line: str) -> None:
        """Take a line of the log."""
        if message := _MESSAGE.search(line):
            self._say_once(message[1] or message[2])
        if parameters := _PARAMETERS.search(line):
            self._say_once(f"model: {self.size}{parameters[1]} parameters")
        kind, values = parse_record(line)
        with suppress(KeyError):  # an incomplete record
            if kind == "train_inner":
                note = f"epoch {values['epoch']:.0f}, loss {values['loss']:.2f}"
                self.note = f", {note}"
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
        if not self.n:  # the first record, perhaps of a resumed training: start the clock
            self.start(update)
        else:
            self.update(update - self.n)
