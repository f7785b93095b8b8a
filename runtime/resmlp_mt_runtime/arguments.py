"""Options that several commands have, and the ranges of those of a search."""

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

from resmlp_mt_runtime.errors import UserError


class Range(NamedTuple):
    """The least and the highest value; a float as the least allows fractions."""

    least: float
    most: float

    def has(self, value: Any) -> bool:
        """NaN is in no range, and True is not a number."""
        kind = Real if isinstance(self.least, float) else Integral  # NumPy's, too
        is_one = isinstance(value, kind) and not isinstance(value, bool)
        return is_one and bool(self.least <= value <= self.most)

    def __str__(self) -> str:
        kind = "number" if isinstance(self.least, float) else "whole number"
        return f"a {kind} from {self.least:.10g} to {self.most:.10g}"


ANY = 1 << 30
COUNT = Range(1, ANY)
RANGES = {  # by their names in fairseq
    "beam": Range(1, 1000),
    "nbest": Range(1, 1000),
    "lenpen": Range(-10.0, 10.0),  # exponents with which no length overflows
    "max_len_a": Range(0.0, 1000.0),
    "max_len_b": COUNT,
    "no_repeat_ngram_size": Range(0, ANY),
    "max_tokens": COUNT,
}


class Parser(argparse.ArgumentParser):
    """A parser that keeps the line breaks of its description, accepts no abbreviated options and
    reports errors in one line, without the usage."""

    def __init__(self, **options: Any):
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(**{"formatter_class": form, "allow_abbrev": False, **options})

    def parse_known_args(self, args=None, namespace=None):
        """An empty argument is refused: as a path it would be the working directory."""
        words = sys.argv[1:] if args is None else list(args)
        for before, word in zip([self.prog, *words], words):
            if not word or (word.startswith("--") and word.endswith("=")):
                where = word or f"after {before}"
                self.error(f"empty argument {where}, perhaps a variable that is not set")
        return super().parse_known_args(words, namespace)

    def error(self, message: str):
        raise UserError(f"{message}: see {self.prog} --help")


def within(allowed: Range) -> Callable[[str], float]:
    """A type of argument: a number of this range."""

    def number(text: str) -> float:
        with suppress(ValueError):
            value = float(text) if isinstance(allowed.least, float) else int(text)
            if allowed.has(value):
                return value
        raise argparse.ArgumentTypeError(f"give {allowed}, not {text}")

    return number


def searching(name: str) -> dict[str, Any]:
    """Arguments of ``add_argument`` for an option of a search."""
    letters = {"lenpen": "X", "max_len_a": "A", "max_len_b": "B"}
    return {"type": within(RANGES[name]), "metavar": letters.get(name, "N")}


FILE: dict[str, Any] = {"type": Path, "metavar": "FILE"}
WHOLE: dict[str, Any] = {"type": within(COUNT), "metavar": "N"}
