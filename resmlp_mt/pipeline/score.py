"""Scores of translations: BLEU and chrF by sacreBLEU, and BLEU of tokens as in the literature.

Tokenized BLEU is that of ``multi-bleu.perl`` of Moses. The papers of Table 5 tokenize hypotheses
and references alike, by language:

- **German**, as ``get_ende_bleu.sh`` of tensor2tensor: typographic quotes, the low ones too (its
  issue 317), become ASCII quotes, other punctuation as by ``replace-unicode-punctuation.perl``.
  Then ``tokenizer.perl -l de``. Then, if asked, compounds are split.
- **French**, as ``prepare-wmt14en2fr.sh`` of fairseq: the apostrophe U+2019 becomes an ASCII one.
  Then ``tokenizer.perl -a -l fr``. Its ``-a`` (``12-year`` to ``12 @-@ year``) splits compounds
  (fairseq issue 2009). Split again, ``12 @ ##AT##-##AT## @ year``, they raise BLEU.
- **Others** of LANGUAGES: ``tokenizer.perl`` with the language; if asked, compounds are split.

The escaping of Moses (``&apos;`` for an apostrophe) is left out: it never makes two tokens equal.
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import regex
import sacremoses
from sacrebleu.metrics import BLEU, CHRF

from resmlp_mt_runtime.errors import UserError, say
from resmlp_mt_runtime.languages import two_letters

# sacreBLEU has no tokenizer for these, which are written without spaces: Thai, Lao, Khmer, Burmese,
# Tibetan, Dzongkha
_BY_CHARACTER = ("th", "lo", "km", "my", "bo", "dz")
# scripts without spaces between words
_UNSPACED = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]"
)


def score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    target_lang: str = "",
    tokenized: bool = False,
) -> dict[str, Any]:
    """Scores of detokenized sentences: for BLEU and chrF the value, rounded to two digits, and
    ``METRIC_signature``. BLEU has the tokenizer of the target language: ``zh``, ``ja-mecab``,
    ``ko-mecab``, ``char`` for Thai and others without spaces, or ``13a``. *tokenized* adds
    :func:`tokenized_scores`."""
    result: dict[str, object] = {}
    for name, metric in (("bleu", make_bleu(target_lang)), ("chrf", CHRF())):
        result[name] = round(metric.corpus_score(list(hypotheses), [list(references)]).score, 2)
        result[f"{name}_signature"] = str(metric.get_signature())
    if tokenized:
        result |= tokenized_scores(hypotheses, references, two_letters(target_lang))
    return result


def make_bleu(target_lang: str) -> BLEU:
    """sacreBLEU's metric. Raises UserError if the tokenizer of the language is not installed."""
    language = two_letters(target_lang)
    try:
        return BLEU(tokenize="char" if language in _BY_CHARACTER else None, trg_lang=language)
    except (RuntimeError, ImportError) as error:
        # sacreBLEU names the packages in the last line
        install = str(error).split("\n\n")[-1].strip()
        raise UserError(f"target language {language} needs a tokenizer: {install}") from None


def check_tokenizer(target_lang: str, references: Sequence[str]) -> None:
    """Raise a UserError if the tokenizer of the language is not installed. Warn if it is 13a, but
    most letters are of scripts without spaces, so that BLEU takes a sentence for a word."""
    tokenizer, text = make_bleu(target_lang).tokenizer, "".join(references)
    unspaced = 2 * len(_UNSPACED.findall(text)) > sum(map(str.isalpha, text))
    if unspaced and tokenizer.signature() == "13a":
        say("warning: no spaces between words: for BLEU, give the language, such as -t zh")


# Where sacremoses gives the tokens of tokenizer.perl, except for a change of November 2018, since
# when it splits off the last point of every line. Others have rules that sacremoses lacks: the
# colon in Finnish and Swedish, the middle dot in Catalan, apostrophes in Irish and Tetun, the
# scripts of India. Moses does not split Chinese into words.
LANGUAGES = ("cs", "de", "el", "en", "es", "et", "fr", "hu", "is", "it", "lt", "lv", "nl", "pl")
LANGUAGES += ("pt", "ro", "ru", "sk", "sl")
_ASCII_QUOTES = str.maketrans("„“”‟«»‘’‚‛‹›", '"' * 6 + "'" * 6)
_PUNCTUATION = sacremoses.MosesPunctNormalizer("de")


def tokenized_scores(
    hypotheses: Sequence[str], references: Sequence[str], language: str
) -> dict[str, object]:
    """``multi-bleu.perl`` of detokenized text: case-sensitive, not smoothed, 0 to 100, rounded to
    two digits. ``tokenized_bleu`` and for German ``compound_split_bleu``, each with a
    ``NAME_signature`` like sacreBLEU's. Raises a UserError for a *language* not in LANGUAGES."""
    quotes = {"de": "ascii", "fr": "apostrophe"}.get(language, "raw")
    hyphens = {"tokenized_bleu": "aggressive" if language == "fr" else "whole"}
    if language == "de":
        hyphens["compound_split_bleu"] = "compounds"
    result: dict[str, object] = {}
    for name, treated in hyphens.items():
        sides = [tokenize(x, language, treated == "compounds") for x in (hypotheses, references)]
        # the text is tokenized already: force suppresses the warning of sacreBLEU
        metric = BLEU(tokenize="none", smooth_method="none", force=True)
        result[name] = round(metric.corpus_score(sides[0], [sides[1]]).score, 2)
        tokens = f"tok:moses-{language}-{sacremoses.__version__}|hyphens:{treated}|quotes:{quotes}"
        result[f"{name}_signature"] = str(metric.get_signature()).replace("tok:none", tokens)
    return result


def tokenize(lines: Sequence[str], language: str, split_compounds: bool = False) -> list[str]:
    """The tokens of each line, separated by spaces: see the head of this file."""
    if language not in LANGUAGES:
        wrong = f"not available for language {language!r}, only for {' '.join(LANGUAGES)}"
        raise UserError(f"--tokenized: {wrong}, whose tokens are those of papers")
    if language == "de":
        ascii_quotes = (line.translate(_ASCII_QUOTES) for line in lines)
        lines = list(map(_PUNCTUATION.replace_unicode_punct, ascii_quotes))
    elif language == "fr":
        lines = [line.replace("’", "'") for line in lines]
    options = {"aggressive_dash_splits": language == "fr", "return_str": True, "escape": False}
    moses = partial(sacremoses.MosesTokenizer(language).tokenize, **options)
    return list(map(split_compound_words if split_compounds else str, map(moses, lines)))


def split_compound_words(line: str) -> str:
    """``rich-text format`` to ``rich ##AT##-##AT## text format``, as in GNMT and later papers."""
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line)
