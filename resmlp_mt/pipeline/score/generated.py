"""Translations of a system: a text with one sentence per line, or a log of ``fairseq-generate``,
which is complete if it has every sentence of the test set."""

import re
from collections.abc import Sequence
from pathlib import Path

from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import name_of, read_text
from resmlp_mt.text.subwords import SPACE


def read_system(path: Path, sentences: int) -> list[str]:
    """The lines of a text, or the best translations in a log, which has all *sentences*.

    A file is a log if a line ``H-7 SCORE ...`` is followed by a line ``D-7 SCORE ...``: a
    translation may look like one of them.
    """
    lines, name = read_text(path), name_of(path)
    best = _best_translations(lines)
    if best is None:
        return lines
    again = "run fairseq-generate again, without 2>&1, or give the references of its test set"
    missing = next((number for number in range(sentences) if number not in best), None)
    if missing is not None:
        raise UserError(
            f"{name}: cut off or damaged: {len(best)} of {sentences} translations are complete, "
            f"sentence {missing} is missing: {again}"
        )
    if len(best) > sentences:
        raise UserError(f"{name}: {len(best)} translations but {sentences} references: {again}")
    texts = [text for text in best.values() if text]
    if texts and all(SPACE in text for text in texts):
        remedy = "run fairseq-generate with --remove-bpe sentencepiece"
        raise UserError(f"{name}: its translations are subwords: {remedy}")
    return [best[number] for number in range(sentences)]


def _best_translations(lines: Sequence[str]) -> dict[int, str] | None:
    """The first complete translation of each sentence, if the lines are a log."""
    best: dict[int, str] = {}
    is_log, before = False, ("", "", "", "")
    kinds = ""  # kinds of the lines about a sentence, ? for any other line
    for line in lines:
        match = re.match(r"([STHDP])-(\d+)\t([^\t]*)\t?(.*)", line)
        kind, number, score, _ = fields = match.groups() if match else ("?", before[1], "", "")
        kinds = kind if kind == "S" or number != before[1] else kinds + kind
        if kind == "D" and before[:3] == ("H", number, score):
            is_log = True
        # the first is the best, and complete if no message came between or divided a line
        if kinds.lstrip("ST") == "HDP":
            best.setdefault(int(number), before[3])
        before = fields
    return best if is_log else None
