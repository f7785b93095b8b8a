"""The words of all hypotheses of a beam search, kept as back pointers and read off at the end."""

from typing import List, NamedTuple, Tuple

import torch
from torch import Tensor


class Finished(NamedTuple):
    """A hypothesis that has ended: its last row and score (natural log, not normalized)."""

    step: int
    row: int
    score: float


class Trace:
    """Words and back pointers of all hypotheses, step by step."""

    def __init__(self) -> None:
        self._parents: List[Tensor] = []
        self._words: List[Tensor] = []
        self._scores: List[Tensor] = []

    def add(self, parents: Tensor, words: Tensor, scores: Tensor) -> None:
        """One step: for each of the rows that go on, R each, the row of the step before that it
        comes from, its word, and its score from the start."""
        self._parents.append(parents)
        self._words.append(words)
        self._scores.append(scores)

    def read(self, finished: List[Finished]) -> Tuple[Tensor, Tensor]:
        """Words, n x T, and scores from the start, n x T, of n finished hypotheses, without their
        ends of sentence; what is behind a hypothesis's last word has no meaning."""
        n, length = len(finished), max((f.step for f in finished), default=0)
        words, scores = torch.zeros(n, length, dtype=torch.long), torch.zeros(n, length)
        steps = torch.tensor([f.step for f in finished])
        rows = torch.tensor([f.row for f in finished])
        sizes = [len(parents) for parents in self._parents]
        # one transfer each from a GPU, not one a step
        parents = torch.cat(self._parents).cpu().split(sizes) if sizes else ()
        all_words = torch.cat(self._words).cpu().split(sizes) if sizes else ()
        all_scores = torch.cat(self._scores).float().cpu().split(sizes) if sizes else ()
        for t in reversed(range(length)):
            live = steps > t
            row = rows[live]
            words[live, t] = all_words[t][row]
            scores[live, t] = all_scores[t][row]
            rows[live] = parents[t][row]
        return words, scores
