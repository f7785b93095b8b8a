"""Scores of systems that translated the same test set, side by side, as one result."""

from typing import Dict, List, Mapping, Optional, Sequence

from resmlp_mt.errors import UserError
from resmlp_mt.score.by_length import bleu_by_length
from resmlp_mt.score.sacre import paired, score
from resmlp_mt.score.table5 import paper_row
from resmlp_mt.score.tokenized_bleu import tokenized_scores


def evaluate(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    language_pair: Optional[str] = None,
    metrics: Sequence[str] = ("bleu", "chrf"),
    tokenize: Optional[str] = None,
    tokenized: bool = False,
    test: Optional[str] = None,
    samples: Optional[int] = None,
    edges: Optional[Sequence[int]] = None,
    source: Optional[Sequence[str]] = None,
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
        edges: longest sentences of buckets: BLEU by length.
        source: the sentences whose lengths count then. Default: the (first) references.

    Returns:
        JSON values: ``language_pair``, ``sentences``; ``signatures`` by metric; ``systems``: by
        name the scores. Where asked for: ``paper``: what
        :func:`resmlp_mt.score.table5.paper_row` gives; ``paired``: what
        :func:`resmlp_mt.score.sacre.paired` returns; ``by_length``: ``words_of`` (``source`` or
        ``reference``) and ``systems``, by name the buckets.

    Raises:
        UserError: what the functions for each part raise; *tokenized* without a language pair or
            with several references.
    """
    target_lang = language_pair.split("-", 1)[1] if language_pair else None
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
            scores.update(tokenized_scores(hypotheses, references[0], target_lang))
        kinds: List[str] = [key for key in scores if not key.endswith("_signature")]
        result["signatures"] = {kind: scores[f"{kind}_signature"] for kind in kinds}
        result["systems"][name] = {kind: scores[kind] for kind in kinds}
    if tokenized and paper_row(language_pair):
        result["paper"] = paper_row(language_pair)
    if test:
        result["paired"] = paired(
            systems, references, target_lang, metrics, tokenize, test, samples
        )
    if edges is not None:
        by = references[0] if source is None else source
        result["by_length"] = {
            "words_of": "reference" if source is None else "source",
            "systems": {
                name: bleu_by_length(hypotheses, references, by, edges, target_lang, tokenize)
                for name, hypotheses in systems.items()
            },
        }
    return result
