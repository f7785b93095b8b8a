"""Translations out of fairseq-generate's log, and their scores with signatures."""

import re
from pathlib import Path
from typing import List, Sequence

from sacrebleu.metrics import BLEU, CHRF

from resmlp_mt.errors import UserError
from resmlp_mt.pipeline.corpus import read_lines


def read_generated(log: Path) -> List[str]:
    """The best translation of each sentence in a log of ``fairseq-generate``, in corpus order.

    Raises:
        UserError: if the log has no translations, lacks some, or does not end as a whole one does.
    """
    best, finished = {}, False
    for line in read_lines(log):
        match = re.match(r"D-(\d+)\t[^\t]*\t?(.*)", line)
        if match:
            best.setdefault(int(match[1]), match[2])
        finished = finished or "Translated " in line
    if not best:
        raise UserError(f"{log}: no translations in it: give the output of fairseq-generate")
    missing = next((i for i in range(len(best)) if i not in best), None)
    if missing is not None or not finished:
        where = "" if missing is None else f", sentence {missing} is missing"
        raise UserError(f"{log}: cut off{where}: run fairseq-generate again")
    return [best[i] for i in range(len(best))]


def score(hypotheses: Sequence[str], references: Sequence[str]) -> dict:
    """sacreBLEU and chrF of detokenized text, each with its signature.

    Raises:
        UserError: if the numbers of lines differ.
    """
    if len(hypotheses) != len(references):
        raise UserError(
            f"{len(hypotheses)} hypotheses but {len(references)} references: "
            "both need one line a sentence"
        )
    result = {}
    for name, metric in (("bleu", BLEU()), ("chrf", CHRF())):
        value = metric.corpus_score(list(hypotheses), [list(references)])
        result[name] = round(value.score, 2)
        result[f"{name}_signature"] = str(metric.get_signature())
    return result
