#!/usr/bin/env python3
"""Count the lines of kinds.tsv that a model damages, by kind.

    python examples/mixed/damage.py examples/mixed/model --pair en-de
    python examples/mixed/damage.py - --pair en-de < translations

A line of kinds.tsv is a kind, English text, and what a translation must keep as it is, separated by
tabs. A number or quotes in another form ("eine Million") count as damage, too. A line that passes
is not necessarily translated well.
"""

import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from resmlp_mt.cli.main import run_main
from resmlp_mt_runtime.arguments import Parser
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.lines import read_text, write_lines

KINDS = Path(__file__).with_name("kinds.tsv")
QUOTES = '"“”„«»'
COPIED = 0.5  # share of the words of a title that a translation may have in common with it


class Line(NamedTuple):
    kind: str
    text: str
    kept: tuple[str, ...]


def lines() -> list[Line]:
    rows = (row.split("\t") for row in read_text(KINDS))
    return [Line(kind, text, tuple(kept)) for kind, text, *kept in rows]


def damage(line: Line, translation: str, language: str) -> str:
    """What is wrong with a *translation* into *language*; nothing if no rule finds anything."""
    kind, text, kept = line
    if not translation.strip():
        return "empty"
    if lost := [each for each in kept if translation.count(each) != text.count(each)]:
        return f"lost {lost[0]}"
    # what is kept, such as H₂O or %2$s, has digits and letters of its own
    source, target = without(kept, text), without(kept, translation)
    if numbers(source, "en") != numbers(target, language):
        return "another number"
    letters = [c for c in target.replace("ß", "") if c.isalpha()]
    if kind == "capitals" and (not letters or share(str.isupper, letters) < 0.9):
        return "small letters"
    if kind == "quotes" and count(QUOTES, text) != count(QUOTES, target):
        return "other quotes"
    words, found = (re.findall(r"\w+", side.lower()) for side in (source, target))
    english = [word for word in words if word.isalpha()]
    if len(english) > (kind != "alone") and source.casefold() == target.casefold():
        return "not translated"
    if kind in ("capitals", "titles") and share(found.__contains__, words) > COPIED:
        return "not translated"
    if kind == "titles" and not 0.5 <= len(found) / len(words) <= 2:
        return "another length"
    if kind == "alone":
        if not source.strip() and target.strip():
            return "something else"
        if len(target.split()) > len(text.split()) + 2:
            return "another length"
        given, made = (re.findall(r"[.!?…]+$", s.replace("...", "…")) for s in (source, target))
        if given != made:
            return "another mark"
    return ""


def without(kept: tuple[str, ...], text: str) -> str:
    for each in kept:
        text = text.replace(each, " ")
    return text


def count(characters: str, text: str) -> int:
    return sum(map(text.count, characters))


def share(test, items) -> float:
    found = [bool(test(item)) for item in items]
    return sum(found) / len(found) if found else 1.0


def numbers(text: str, language: str) -> Counter[str]:
    """The numbers of a text with a decimal point and without marks between thousands. A time is
    two numbers, however it is written."""
    group, point = (",", ".") if language == "en" else (".", ",")
    text = re.sub(r"(?<=\d)[\u00a0\u2009\u202f '’](?=\d{3}(?!\d))", "", text)
    text = re.sub(r"(\d\d)(?::|\.(?=\d\d Uhr)| ?h ?)(\d\d)(?!\d)", r"\1 \2", text)
    found = []
    for number in re.findall(r"\d+(?:[.,-]\d+)*", text):
        if number.count(point) <= 1 and re.fullmatch(
            rf"\d{{1,3}}(\{group}\d{{3}})+(\{point}\d+)?", number
        ):
            number = number.replace(group, "")
        found.append(number.replace(point, ".") if number.count(point) == 1 else number)
    return Counter(found)


def shares(
    translations: list[str], language: str, show: bool = False
) -> dict[str, tuple[int, int]]:
    """By kind, how many of how many lines are damaged."""
    given = lines()
    if len(translations) != len(given):
        raise UserError(
            f"{len(translations)} translations of the {len(given)} lines of {KINDS.name}"
        )
    found: dict[str, tuple[int, int]] = {}
    for line, translation in zip(given, translations):
        reason = damage(line, translation, language)
        if reason and show:
            print(f"{line.kind}: {reason}: {line.text} -> {translation}")
        bad, total = found.get(line.kind, (0, 0))
        found[line.kind] = bad + bool(reason), total + 1
    return found


def translate(path: Path) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder, "source"), Path(folder, "output")
        write_lines(source, [line.text for line in lines()])
        words = ["translate", "--path", path, "--input", source, "--output", output]
        words = [sys.executable, "-m", "resmlp_mt", *words, "--threads", "1"]
        subprocess.run(words, check=True)
        return read_text(output)


def main() -> None:
    parser = Parser(description=__doc__)
    parser.add_argument(
        "model", type=Path, help="what resmlp-mt translate takes, or - for translations"
    )
    parser.add_argument("--pair", choices=("en-de", "en-fr"), default="en-de")
    args = parser.parse_args()
    found = read_text(args.model) if str(args.model) == "-" else translate(args.model)
    for kind, (bad, total) in shares(found, args.pair.split("-")[1], show=True).items():
        print(f"{kind}\t{bad} of {total}")


if __name__ == "__main__":
    sys.exit(run_main(main))
