"""Translations of a system: a text with a sentence a line, or what ``fairseq-generate`` printed.

Its log says nowhere that it is whole: it is complete if every sentence of the test set is in it.
"""

import re
from pathlib import Path
from typing import Dict, Iterator, List, Sequence

from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import name_of, read_text
from resmlp_mt.text.subwords import SPACE

# the two forms in which fairseq's loggers write: after a date, or without one
LOGGED = re.compile(
    r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| [A-Z]+ \| |[A-Z]+:)(?:fairseq|resmlp_mt)[\w.]*(?: \| |:)"
)


def read_system(path: Path, sentences: int) -> List[str]:
    """The lines of a text, or the best translations in a log, which has all *sentences*.

    Standard error may be in the log. A file is a log if a line ``H-7 SCORE ...`` is followed by a
    line ``D-7 SCORE ...``: a translation that looks like one of them does not make it one.
    """
    lines = read_text(path)
    return _translations(lines, name_of(path), sentences) if _is_log(lines) else lines


def _is_log(lines: Sequence[str]) -> bool:
    hypothesis = None
    for line in _standard_output(lines):
        match = re.match(r"([HD])(-\d+\t\S+)\t", line)
        if match and match[1] == "D" and match[2] == hypothesis:
            return True
        hypothesis = match[2] if match and match[1] == "H" else None
    return False


def _standard_output(lines: Sequence[str]) -> Iterator[str]:
    """The lines without what loggers wrote, which may stand in the middle of a line."""
    begun = ""
    for line in lines:
        logged = LOGGED.search(line)
        if logged:
            begun += line[: logged.start()]
        else:
            yield begun + line
            begun = ""
    if begun:
        yield begun


def _translations(lines: Sequence[str], name: str, sentences: int) -> List[str]:
    best: Dict[int, str] = {}
    last = None
    for line in _standard_output(lines):
        match = re.match(r"([DP])-(\d+)\t(.*)", line)
        if match and match[1] == "D":
            last = match
            continue
        # P-7 directly after D-7 shows that the translation is complete
        if match and last and match[2] == last[2]:
            best.setdefault(int(match[2]), last[3].partition("\t")[2])
        last = None
    missing = next((number for number in range(sentences) if number not in best), None)
    again = "run fairseq-generate again, or give the references of its test set"
    if missing is not None:
        raise UserError(
            f"{name}: cut off or damaged: {len(best)} of {sentences} translations are complete, "
            f"sentence {missing} is missing: {again}"
        )
    if len(best) > sentences:
        raise UserError(f"{name}: {len(best)} translations but {sentences} references: {again}")
    found = [best[number] for number in range(sentences)]
    texts = [text for text in found if text]
    if texts and all(SPACE in text for text in texts):
        remedy = "run fairseq-generate with --remove-bpe sentencepiece"
        raise UserError(f"{name}: its translations are subwords: {remedy}")
    return found
