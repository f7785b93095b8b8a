"""Tokenized BLEU as ``multi-bleu.perl`` of Moses computes it, on tokens as in the literature.

BLEU of tokenized text depends on the tokens. The papers of Table 5 tokenize by language, hypotheses
and references alike:

- **German**: typographic quotes become ASCII quotes, other Unicode punctuation is replaced as by
  ``replace-unicode-punctuation.perl``. Then ``tokenizer.perl -l de``. Then, if asked, compounds are
  split. This is ``get_ende_bleu.sh`` of tensor2tensor. Every quote of its reference is an ASCII
  quote, the low ones too (tensor2tensor issue 317).
- **French**: a typographic apostrophe (U+2019) becomes an ASCII apostrophe. Then ``tokenizer.perl
  -a -l fr``. This is ``prepare-wmt14en2fr.sh`` of fairseq. Its ``-a`` (``12-year`` to ``12 @-@
  year``) splits compounds (fairseq issue 2009). They must not be split again: both together give
  ``12 @ ##AT##-##AT## @ year`` and a higher BLEU than in the papers.
- **Others**: ``tokenizer.perl`` with the language. Then, if asked, compounds are split.

The escaping of Moses (``&apos;`` for an apostrophe) is left out. It renames tokens and never makes
two of them equal, so BLEU does not change.
"""

import re
from functools import cache
from typing import Dict, List, Sequence

import sacremoses
from sacrebleu.metrics import BLEU
from sacremoses.corpus import NonbreakingPrefixes

from resmlp_mt.errors import UserError
from resmlp_mt.score.sacre import check_counts

LANGUAGES = sorted(set(NonbreakingPrefixes().available_langs.values()))
_ASCII_QUOTES = {
    **dict.fromkeys(map(ord, "„“”‟«»"), '"'),
    **dict.fromkeys(map(ord, "‘’‚‛‹›"), "'"),
}
_PUNCTUATION = sacremoses.MosesPunctNormalizer("de")
_APOSTROPHE = {ord("’"): "'"}


def tokenized_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    language: str,
    split_compounds: bool = False,
) -> float:
    """``multi-bleu.perl`` of detokenized text: 0 to 100, case-sensitive, not smoothed, not rounded.

    Args:
        hypotheses, references: a sentence each, detokenized.
        language: of both, as Moses calls it (``de``).
        split_compounds: see :func:`split_compound_words`.

    Raises:
        UserError: what :func:`tokenize` raises; no sentences, or different numbers of them.
    """
    check_counts(hypotheses, references)
    sides = [tokenize(side, language, split_compounds) for side in (hypotheses, references)]
    return _multi_bleu().corpus_score(sides[0], [sides[1]]).score


def tokenized_scores(
    hypotheses: Sequence[str], references: Sequence[str], language: str
) -> Dict[str, object]:
    """``tokenized_bleu``, for German ``compound_split_bleu`` too, each with its signature.

    Raises:
        UserError: what :func:`tokenized_bleu` raises.
    """
    result = {}
    for name, split in (("tokenized_bleu", False), ("compound_split_bleu", True)):
        if not split or language == "de":
            value = tokenized_bleu(hypotheses, references, language, split)
            result[name] = round(value, 2)
            result[f"{name}_signature"] = tokenized_signature(language, split)
    return result


def tokenized_signature(language: str, split_compounds: bool = False) -> str:
    """What :func:`tokenized_bleu` did, in the form of the signatures of sacreBLEU."""
    metric = _multi_bleu()
    metric.corpus_score(["a"], [["a"]])  # a metric has a signature once it has seen references
    quotes = {"de": "ascii", "fr": "apostrophe"}.get(language, "raw")
    hyphens = "compounds" if split_compounds else "aggressive" if language == "fr" else "whole"
    tokens = f"tok:moses-{language}-{sacremoses.__version__}|hyphens:{hyphens}|quotes:{quotes}"
    return str(metric.get_signature()).replace("tok:none", tokens)


def tokenize(lines: Sequence[str], language: str, split_compounds: bool = False) -> List[str]:
    """The tokens of each line, with a space between them: see the head of this file.

    Raises:
        UserError: if Moses has no tokenizer for *language*, or *split_compounds* is asked of
            French, where the tokenizer splits them.
    """
    if language not in LANGUAGES:
        raise UserError(
            f"no Moses tokenizer for language {language!r}: sacremoses has {' '.join(LANGUAGES)}"
        )
    if language == "fr" and split_compounds:
        raise UserError("French compounds are split by its tokenizer: do not split them again")
    moses = _tokenizer(language)
    tokenized = [
        moses.tokenize(
            _plain_quotes(line, language),
            aggressive_dash_splits=language == "fr",
            return_str=True,
            escape=False,
        )
        for line in lines
    ]
    return list(map(split_compound_words, tokenized)) if split_compounds else tokenized


def split_compound_words(line: str) -> str:
    """``rich-text format`` to ``rich ##AT##-##AT## text format``, as in GNMT and later papers."""
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line)


def _plain_quotes(line: str, language: str) -> str:
    if language == "de":
        return _PUNCTUATION.replace_unicode_punct(line.translate(_ASCII_QUOTES))
    return line.translate(_APOSTROPHE) if language == "fr" else line


@cache
def _tokenizer(language: str) -> sacremoses.MosesTokenizer:
    return sacremoses.MosesTokenizer(language)


def _multi_bleu() -> BLEU:
    """The text is tokenized already; ``force`` keeps sacreBLEU from warning of it."""
    return BLEU(tokenize="none", smooth_method="none", force=True)
