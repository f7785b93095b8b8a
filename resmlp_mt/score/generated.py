"""Translations of a system: a text with one sentence a line, or what ``fairseq-generate`` printed.

``fairseq-generate`` prints the translations to standard output, and ``Translated ... sentences`` to
standard error. A log is therefore complete if every sentence of the test set is in it.
"""

import re
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Optional, Sequence

from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import check_same_lines, name_of, read_text

# The two forms in which the loggers of fairseq write: after a date, or without one.
LOGGED = re.compile(
    r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| [A-Z]+ \| |[A-Z]+:)(?:fairseq|resmlp_mt)[\w.]*(?: \| |:)"
)


def read_system(path: Path, sentences: Optional[int] = None) -> List[str]:
    """The translations in a text, or the best ones in a log of ``fairseq-generate``, which is
    recognised. Standard error may be in the log too.

    A file is a log if a line ``H-7 SCORE ...`` is followed by a line ``D-7 SCORE ...``. A
    translation that looks like one such line does not make it one.

    Args:
        path: plain or ``.gz``, or ``-`` for standard input.
        sentences: how many sentences the test set has, if that is known. A log must have them all.
            The lines of a text are not counted here.

    Raises:
        UserError: an unreadable file, or a log that lacks translations or has them in subwords.
    """
    lines = read_text(path)
    return _translations(lines, name_of(path), sentences) if _is_log(lines) else lines


def read_systems(
    files: Mapping[str, Path], references_path: Path, references: List[str]
) -> Dict[str, List[str]]:
    """The translations of several systems by name, as :func:`read_system` reads them.

    Raises:
        UserError: what :func:`read_system` raises; another number of lines than the references.
    """
    systems = {}
    for name, path in files.items():
        systems[name] = read_system(path, len(references))
        check_same_lines(path, len(systems[name]), references_path, len(references))
    return systems


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


def _translations(lines: Sequence[str], name: str, sentences: Optional[int]) -> List[str]:
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
    count = max(best, default=0) + 1 if sentences is None else sentences
    missing = next((number for number in range(count) if number not in best), None)
    again = "run fairseq-generate again, or give the references of its test set"
    if missing is not None:
        raise UserError(
            f"{name}: cut off or damaged: {len(best)} of {count} translations are complete, "
            f"sentence {missing} is missing: {again}"
        )
    if len(best) > count:
        raise UserError(f"{name}: {len(best)} translations but {count} references: {again}")
    found = [best[number] for number in range(len(best))]
    texts = [text for text in found if text]
    if texts and all("\u2581" in text for text in texts):
        raise UserError(
            f"{name}: its translations are subwords: run fairseq-generate with --remove-bpe "
            "sentencepiece"
        )
    return found
