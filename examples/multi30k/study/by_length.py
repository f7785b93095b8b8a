"""BLEU of short, middling and long sentences."""

from typing import List, Optional, Sequence

from resmlp_mt.errors import UserError
from resmlp_mt.score.sacre import check_counts, score


def bleu_by_length(
    hypotheses: Sequence[str],
    references: Sequence[str],
    by: Sequence[str],
    edges: Sequence[int],
    target_lang: Optional[str] = None,
) -> List[dict]:
    """sacreBLEU of each bucket of sentences.

    Args:
        hypotheses, references, target_lang: as for :func:`resmlp_mt.score.sacre.score`.
        by: the sentences whose lengths count, the sources or the references.
        edges: longest sentence of each bucket, in words, which white space separates. One more
            bucket takes all longer sentences.

    Returns:
        for each bucket the words ``from`` and ``to`` (both in it; ``to`` is None for the last),
        the number of ``sentences`` and their ``bleu``, None for a bucket without any.

    Raises:
        UserError: if the numbers of sentences differ or are 0, or *edges* do not rise from 1 on.
    """
    check_counts(hypotheses, by)
    edges = list(edges)
    if not edges or edges[0] < 1 or edges != sorted(set(edges)):
        raise UserError(
            f"edges {' '.join(map(str, edges))}: give numbers of words from 1 on, each larger than "
            "the one before"
        )
    buckets: List[List[int]] = [[] for _ in range(len(edges) + 1)]
    for number, sentence in enumerate(by):
        words = len(sentence.split())
        buckets[sum(words > edge for edge in edges)].append(number)
    rows = []
    for low, high, bucket in zip([0, *(edge + 1 for edge in edges)], [*edges, None], buckets):
        bleu = None
        if bucket:
            chosen = [[lines[i] for i in bucket] for lines in (hypotheses, references)]
            bleu = score(*chosen, target_lang, ("bleu",))["bleu"]
        rows.append({"from": low, "to": high, "sentences": len(bucket), "bleu": bleu})
    return rows


def words_label(bucket: dict) -> str:
    """The range of words of a bucket, as a heading: ``0-10``, ``11-20``, ``over 20``."""
    return (
        f"over {bucket['from'] - 1}" if bucket["to"] is None else f"{bucket['from']}-{bucket['to']}"
    )
