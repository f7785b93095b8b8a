"""Types of arguments that several commands have. A bad value is a UserError."""

import argparse
import math
from pathlib import Path
from typing import Any

from resmlp_mt_runtime.errors import UserError

LENPEN_RANGE = (-10, 10)  # exponents with which no length overflows


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage."""

    def error(self, message: str):
        raise UserError(f"{message}: see {self.prog} --help")


def count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value


def number(text: str) -> float:
    """A finite number."""
    value = float(text)
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"must be a number, not {text}")
    return value


def is_length_penalty(value) -> bool:
    """Whether it is a number in the range: NaN is not, and true is no number."""
    low, high = LENPEN_RANGE
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and low <= value <= high


def length_penalty(text: str) -> float:
    value = number(text)
    if not is_length_penalty(value):
        low, high = LENPEN_RANGE
        raise argparse.ArgumentTypeError(f"must be from {low} to {high}, not {text}")
    return value


FILE: dict[str, Any] = {"type": Path, "metavar": "FILE"}
WHOLE: dict[str, Any] = {"type": count, "metavar": "N"}
LENPEN: dict[str, Any] = {"type": length_penalty, "metavar": "X"}
