"""BLEU and chrF by sacreBLEU, each with its signature."""

from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics import BLEU, CHRF

from resmlp_mt.errors import UserError
from resmlp_mt_runtime.lines import without_region

# sacreBLEU knows these languages by two letters only
_TWO_LETTERS = {"cmn": "zh", "zho": "zh", "yue": "zh", "jpn": "ja", "kor": "ko"}


def score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    target_lang: str | None = None,
    metrics: Sequence[str] = ("bleu", "chrf"),
) -> dict[str, Any]:
    """Scores of detokenized sentences: for each metric its value, rounded to two digits, and
    ``METRIC_signature``. BLEU has the tokenizer of the target language: ``zh``, ``ja-mecab``,
    ``ko-mecab``, or ``13a`` for all others."""
    result: dict[str, object] = {}
    for name in metrics:
        metric = CHRF() if name == "chrf" else make_bleu(target_lang or "")
        result[name] = round(metric.corpus_score(list(hypotheses), [list(references)]).score, 2)
        result[f"{name}_signature"] = str(metric.get_signature())
    return result


def make_bleu(target_lang: str) -> BLEU:
    """sacreBLEU's metric. Raises UserError if the tokenizer of the language is not installed."""
    language = without_region(target_lang)
    language = _TWO_LETTERS.get(language, language)
    try:
        return BLEU(trg_lang=language)
    except (RuntimeError, ImportError) as error:
        # sacreBLEU names the packages in the last line
        install = str(error).split("\n\n")[-1].strip()
        raise UserError(
            f"target language {language}: its tokenizer is not installed: {install}"
        ) from None
