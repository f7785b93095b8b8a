"""BLEU of short, middling and long sentences."""

from typing import List, Sequence

from sacrebleu.metrics import BLEU

from resmlp_mt.errors import UserError
from resmlp_mt.score.scoring import check_counts

EDGES = (10, 20, 30, 40, 50, 60)


def bleu_by_length(
    hypotheses: Sequence[str],
    references: Sequence[str],
    by: Sequence[str],
    edges: Sequence[int] = EDGES,
) -> List[dict]:
    """sacreBLEU of each bucket of sentences.

    Args:
        hypotheses, references: a sentence each, detokenized.
        by: the sentences whose lengths count, the sources or the references; in words, which are
            what white space separates.
        edges: longest sentence of each bucket, in words; one more bucket takes all longer ones.

    Returns:
        for each bucket the words ``from`` and ``to`` (both in it; ``to`` is None for the last),
        the number of ``sentences`` and their ``bleu``, None for a bucket without any.

    Raises:
        UserError: if the numbers of sentences differ or are 0, or *edges* do not rise from 1 on.
    """
    check_counts(hypotheses, references)
    check_counts(by, references)
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
    return [
        {
            "from": low,
            "to": high,
            "sentences": len(bucket),
            "bleu": _bleu([hypotheses[i] for i in bucket], [references[i] for i in bucket]),
        }
        for low, high, bucket in zip([0, *(edge + 1 for edge in edges)], [*edges, None], buckets)
    ]


def words_label(bucket: dict) -> str:
    """A bucket's range of words, as a heading: ``0-10``, ``11-20``, ``over 20``."""
    return (
        f"over {bucket['from'] - 1}" if bucket["to"] is None else f"{bucket['from']}-{bucket['to']}"
    )


def _bleu(hypotheses: List[str], references: List[str]):
    return round(BLEU().corpus_score(hypotheses, [references]).score, 2) if hypotheses else None
