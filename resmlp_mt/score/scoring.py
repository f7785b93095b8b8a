"""Translations out of fairseq-generate's log, and their scores with signatures."""

import re
from pathlib import Path
from typing import Dict, List, Sequence

from sacrebleu.metrics import BLEU, CHRF

from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import name_of, read_text


def read_generated(log: Path) -> List[str]:
    """The best translation of each sentence in a log of ``fairseq-generate``, in corpus order.

    The logs of several shards may follow one another in one file.

    Args:
        log: a file, plain or ``.gz``, or ``-`` for standard input.

    Raises:
        UserError: if the log has no translations, lacks some, or does not end as a whole one does.
    """
    return _translations(read_text(log), name_of(log))


def read_system(path: Path) -> List[str]:
    """A system's translations: those of a file that is a log of ``fairseq-generate``, or its lines.

    It is a log if all is there that the program prints of a sentence; a translation that happens to
    look like one of those lines does not make it one.

    Raises:
        UserError: what :func:`read_generated` raises.
    """
    lines = read_text(path)
    return _translations(lines, name_of(path)) if _is_log(lines) else lines


def _is_log(lines: Sequence[str]) -> bool:
    printed: Dict[str, set] = {"H": set(), "D": set(), "P": set()}
    for line in lines:
        match = re.match(r"([HDP])-(\d+)\t", line)
        if match:
            printed[match[1]].add(match[2])
    return bool(set.intersection(*printed.values()))


def _translations(lines: Sequence[str], name: str) -> List[str]:
    best, announced = {}, 0
    for line in lines:
        match = re.match(r"D-(\d+)\t[^\t]*\t?(.*)", line)
        if match:
            best.setdefault(int(match[1]), match[2])
        elif "\t" not in line:  # the program's own words; a sentence comes after a tab
            done = re.search(r"Translated ([\d,]+) sentences", line)
            announced += int(done[1].replace(",", "")) if done else 0
    if not best:
        raise UserError(f"{name}: no translations in it: give the output of fairseq-generate")
    missing = next((i for i in range(len(best)) if i not in best), None)
    if missing is not None:
        raise UserError(
            f"{name}: cut off, sentence {missing} is missing: run fairseq-generate again"
        )
    if not announced:
        raise UserError(
            f"{name}: cut off after {len(best)} translations, 'Translated ... sentences' is not at "
            "its end: run fairseq-generate again"
        )
    if announced != len(best):
        raise UserError(
            f"{name}: {len(best)} translations, but it says 'Translated {announced} sentences': "
            "cut off, or of two runs: run fairseq-generate again"
        )
    return [best[i] for i in range(len(best))]


def check_counts(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """
    Raises:
        UserError: if there are no sentences, or not one reference for each hypothesis.
    """
    if len(hypotheses) != len(references):
        raise UserError(
            f"{len(hypotheses)} hypotheses but {len(references)} references: "
            "both need one line a sentence"
        )
    if not hypotheses:
        raise UserError("nothing to score: no hypotheses and no references")


def score(hypotheses: Sequence[str], references: Sequence[str]) -> dict:
    """sacreBLEU and chrF of detokenized text, each with its signature.

    Raises:
        UserError: if the numbers of lines differ or are 0.
    """
    check_counts(hypotheses, references)
    result = {}
    for name, metric in (("bleu", BLEU()), ("chrf", CHRF())):
        value = metric.corpus_score(list(hypotheses), [list(references)])
        result[name] = round(value.score, 2)
        result[f"{name}_signature"] = str(metric.get_signature())
    return result
