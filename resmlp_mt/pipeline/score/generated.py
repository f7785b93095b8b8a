"""Translations of a system: a text with one sentence per line, or a log of ``fairseq-generate``."""

import re
from pathlib import Path

from resmlp_mt.errors import UserError
from resmlp_mt_runtime.lines import name_of, read_text
from resmlp_mt_runtime.pieces import SPACE

# source, perhaps reference, best hypothesis, detokenized, scores: no message came between or
# divided a line
SENTENCE = re.compile(
    r"^S-(\d{1,18})\t.*\n(?:T-\1\t.*\n)?H-\1\t(\S+)\t.*\nD-\1\t\2\t(.*)\nP-\1\t", re.MULTILINE
)
# a translation may look like a line of a log, but not like these two
LOG = re.compile(r"^H-(\d{1,18})\t(\S+)\t.*\nD-\1\t\2\t", re.MULTILINE)


def read_system(path: Path, sentences: int) -> list[str]:
    """The lines of a text, or the best translations in a log, which has all *sentences*."""
    lines, name = read_text(path), name_of(path)
    text = "\n".join(lines)
    if not LOG.search(text):
        return lines
    best = {int(number): translation for number, _, translation in SENTENCE.findall(text)}
    if best.keys() != set(range(sentences)):
        raise UserError(
            f"{name}: {len(best)} complete translations for {sentences} references: run "
            "fairseq-generate again, without 2>&1, or give the references of its test set"
        )
    texts = [translation for translation in best.values() if translation]
    if texts and all(SPACE in translation for translation in texts):
        remedy = "run fairseq-generate with --remove-bpe sentencepiece"
        raise UserError(f"{name}: its translations are subwords: {remedy}")
    return [best[number] for number in range(sentences)]
