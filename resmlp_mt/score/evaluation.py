"""Scores of systems that translated the same test set, side by side, as one result."""

from typing import Dict, List, Mapping, Optional, Sequence

from resmlp_mt.errors import UserError
from resmlp_mt.score.sacre import paired, score
from resmlp_mt.score.tokenized_bleu import tokenized_scores
from resmlp_mt.text.lines import without_region

# Table 5 of the paper, on newstest2014, and the score to compare with: compounds are split in both
TABLE_5 = {
    "en-de": {
        "metric": "compound_split_bleu",
        "bleu": {
            "GNMT": 24.6,
            "ConvS2S": 25.2,
            "Transformer (base)": 27.3,
            "ResMLP-6": 26.4,
            "ResMLP-12": 26.8,
        },
    },
    "en-fr": {
        "metric": "tokenized_bleu",
        "bleu": {
            "GNMT": 39.9,
            "ConvS2S": 40.5,
            "Transformer (base)": 38.1,
            "ResMLP-6": 40.3,
            "ResMLP-12": 40.6,
        },
    },
}


def target_language(language_pair: Optional[str]) -> Optional[str]:
    """``en`` of ``de-en``."""
    return language_pair.split("-", 1)[1] if language_pair else None


def evaluate(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    language_pair: Optional[str] = None,
    metrics: Sequence[str] = ("bleu", "chrf"),
    tokenize: Optional[str] = None,
    tokenized: bool = False,
    test: Optional[str] = None,
    samples: Optional[int] = None,
) -> dict:
    """
    Args:
        systems: detokenized translations by name.
        references: lists of detokenized sentences.
        language_pair: such as ``de-en``. The target language chooses the tokenizers.
        metrics, tokenize: as for :func:`resmlp_mt.score.sacre.score`.
        tokenized: tokenized BLEU too, for German also with compounds split, and for the two
            language pairs of the paper its row of Table 5.
        test, samples: as for :func:`resmlp_mt.score.sacre.paired`. Default: no test.

    Returns:
        JSON values: ``language_pair``, ``sentences``; ``signatures`` by metric; ``systems``: by
        name the scores. Where asked for: ``paper``, a row of :data:`TABLE_5`; ``paired``: what
        :func:`resmlp_mt.score.sacre.paired` returns.

    Raises:
        UserError: what the functions for each part raise; *tokenized* without a language pair or
            with several references.
    """
    target_lang = target_language(language_pair)
    if tokenized and not target_lang:
        raise UserError("--tokenized needs the languages: give -l, such as -l de-en")
    if tokenized and len(references) > 1:
        raise UserError("--tokenized scores against one reference: give one")
    result: Dict[str, object] = {
        "language_pair": language_pair,
        "sentences": len(references[0]),
        "signatures": {},
        "systems": {},
    }
    for name, hypotheses in systems.items():
        scores = score(hypotheses, references, target_lang, metrics, tokenize)
        if tokenized:
            scores.update(tokenized_scores(hypotheses, references[0], without_region(target_lang)))
        kinds: List[str] = [key for key in scores if not key.endswith("_signature")]
        result["signatures"] = {kind: scores[f"{kind}_signature"] for kind in kinds}
        result["systems"][name] = {kind: scores[kind] for kind in kinds}
    if tokenized and language_pair in TABLE_5:
        result["paper"] = TABLE_5[language_pair]
    if test:
        result["paired"] = paired(
            systems, references, target_lang, metrics, tokenize, test, samples
        )
    return result
