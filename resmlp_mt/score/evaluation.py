"""All that can be said of a system's translations of one test set, as one result."""

from typing import Optional, Sequence

from resmlp_mt.analysis.by_length import bleu_by_length
from resmlp_mt.score.scoring import score
from resmlp_mt.score.significance import paired_bootstrap
from resmlp_mt.score.table5 import paper_row
from resmlp_mt.score.tokenized_bleu import tokenized_scores


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[str],
    pair: Optional[str] = None,
    baseline: Optional[Sequence[str]] = None,
    samples: int = 1000,
    seed: int = 12345,
    edges: Optional[Sequence[int]] = None,
    source: Optional[Sequence[str]] = None,
) -> dict:
    """
    Args:
        hypotheses, references: a sentence each, detokenized.
        pair: languages, such as ``en-de``: tokenized BLEU and the paper's row.
        baseline: a second system's translations: paired bootstrap against it.
        samples, seed: of the bootstrap.
        edges: longest sentences of buckets: BLEU by length.
        source: the sentences whose lengths count then; by default the references'.

    Returns:
        JSON values: ``sentences``; what :func:`resmlp_mt.score.scoring.score` returns; with
        *pair* what ``tokenized_scores`` returns, ``pair`` and ``paper`` (None where it has no
        row); with *baseline* ``paired_bootstrap``; with *edges* ``by_length``: ``words_of``
        (``source`` or ``reference``) and the buckets of ``system`` and ``baseline``.

    Raises:
        UserError: what the functions for each part raise.
    """
    result = {"sentences": len(references), **score(hypotheses, references)}
    if pair:
        language = pair.split("-")[1]
        result.update(tokenized_scores(hypotheses, references, language))
        result.update(pair=pair, paper=paper_row(pair))
    if edges is not None:
        by = references if source is None else source
        result["by_length"] = {
            "words_of": "reference" if source is None else "source",
            "system": bleu_by_length(hypotheses, references, by, edges),
        }
        if baseline is not None:
            rows = bleu_by_length(baseline, references, by, edges)
            result["by_length"]["baseline"] = rows
    if baseline is not None:
        result["paired_bootstrap"] = paired_bootstrap(
            baseline, hypotheses, references, samples, seed
        )
    return result
