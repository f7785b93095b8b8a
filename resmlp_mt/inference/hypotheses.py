"""The hypotheses of a beam search, in buffers that stay where they are.

Words are kept as back pointers. Nothing is read on the host before the end, when one transfer
brings all of it there and the hypotheses are put together.
"""

from itertools import islice
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor


class Hypotheses:
    """What is known of B sentences with K hypotheses each, R = B K rows grouped by sentence.

    A candidate is a row and the word that follows: ``row * vocabulary + word``.

    Args:
        sentences: B.
        beam: K.
        steps: the most words of a hypothesis, its end included.
        vocabulary: number of words.
        first_word: before all of them.
        device: of the buffers.

    Attributes:
        words: the newest word of each row, int64. At first there is one row a sentence.
        scores: of each row, the sum of the log-probabilities of its words.
        first_rows: B x 1; the first row of each sentence.
        left: the sentences whose rows these are.
    """

    def __init__(
        self, sentences: int, beam: int, steps: int, vocabulary: int, first_word: int, device
    ):
        self.beam, self.vocabulary = beam, vocabulary
        self.rows = sentences * beam
        self.words = torch.full((sentences,), first_word, device=device)
        self.scores = torch.zeros(sentences, device=device)
        self.first_rows = torch.arange(sentences, device=device).unsqueeze(1)
        self.left = list(range(sentences))
        self._of_steps: List[Tuple[List[int], int]] = []  # sentences and rows of each, by step
        # by step: the candidate that became each row, its score, the normalizer of the row before
        self._candidates = torch.zeros(steps, self.rows, dtype=torch.long, device=device)
        self._scores = torch.zeros(steps, self.rows, device=device)
        self._normalizers = torch.zeros(steps, self.rows, device=device)
        # by sentence: K hypotheses that have ended, and a place for those that are one too many
        self._ended = torch.zeros(sentences, 1, dtype=torch.long, device=device)
        self._places = torch.arange(sentences, device=device).unsqueeze(1) * (beam + 1)
        self._last = torch.full((sentences * (beam + 1),), -1, device=device)
        self._last_scores = torch.zeros(sentences * (beam + 1), device=device)

    def begin(self) -> None:
        """What the host does before a step."""
        self._of_steps.append((self.left, len(self.words) // len(self.left)))

    def finish(self, step: Tensor, ends: Tensor, candidates: Tensor, scores: Tensor) -> None:
        """Keep the candidates that end a hypothesis, until there are K of a sentence.

        Args:
            step: the number of this step.
            ends: B x n, which of the candidates do.
            candidates, scores: B x n.
        """
        ended = self._ended + ends.cumsum(1)
        place = torch.where(ends, ended - 1, self.beam).clamp_(max=self.beam)
        place = (place + self._places).view(-1)
        last = candidates + step * (self.rows * self.vocabulary)
        self._last.scatter_(0, place, last.view(-1))
        self._last_scores.scatter_(0, place, scores.reshape(-1))
        self._ended.copy_(ended[:, -1:])

    def go_on(self, step: Tensor, candidates: Tensor, scores: Tensor) -> Tensor:
        """Take on the candidates, R each, as the rows of the next step; returns the row that each
        comes from."""
        words = candidates.remainder(self.vocabulary)
        if words.shape == self.words.shape:
            self.words.copy_(words)
            self.scores.copy_(scores)
        else:
            self.words, self.scores = words, scores
            self._set_first_rows()
        for kept, new in ((self._candidates, candidates), (self._scores, scores)):
            kept[:, : len(words)].index_copy_(0, step, new.unsqueeze(0))
        return candidates.div(self.vocabulary, rounding_mode="floor")

    def add_normalizers(self, step: Tensor, normalizers: Tensor) -> None:
        """Keep those of the rows of this step: one NaN or infinity among the scores of a row makes
        its normalizer so."""
        kept = self._normalizers[:, : len(normalizers)]
        kept.index_copy_(0, step, normalizers.unsqueeze(0))

    def done(self) -> List[bool]:
        """Of each sentence left, whether it has its K hypotheses; a wait for the device."""
        return self._ended.view(-1).ge(self.beam).tolist()

    def keep(self, sentences: Tensor) -> Tensor:
        """Drop all rows but those of the given ones of the sentences left; returns the rows."""
        beams = torch.arange(self.beam, device=sentences.device)
        rows = (sentences.unsqueeze(1) * self.beam + beams).view(-1)
        newest = len(self._of_steps) - 1
        for kept in (self._candidates, self._scores):
            kept[newest, : len(rows)] = kept[newest].index_select(0, rows)
        self.left = [self.left[i] for i in sentences.tolist()]
        self.words, self.scores = (x.index_select(0, rows) for x in (self.words, self.scores))
        self._ended, self._places = (
            x.index_select(0, sentences) for x in (self._ended, self._places)
        )
        self._set_first_rows()
        return rows

    def _set_first_rows(self) -> None:
        first = torch.arange(0, len(self.words), self.beam, device=self.words.device)
        self.first_rows = first.unsqueeze(1)

    def fetch(self) -> "Fetched":
        """All that was kept, on the host, by one transfer."""
        steps = len(self._of_steps)
        numbers = (self._candidates[:steps], self._last)
        floats = (self._scores[:steps], self._normalizers[:steps], self._last_scores)
        parts = [*numbers, *(x.view(torch.int32) for x in floats)]
        flat = torch.cat([part.reshape(-1) for part in parts]).cpu()
        flat = flat.split([part.numel() for part in parts])
        parts = [some.view(part.shape) for some, part in zip(flat, parts, strict=True)]
        floats = (part.int().view(torch.float32) for part in parts[2:])
        return Fetched(self.beam, self.vocabulary, self._of_steps, *parts[:2], *floats)


class Fetched:
    """The hypotheses that a search has ended with, on the host.

    Args:
        beam, vocabulary: K, V.
        of_steps: of each step the sentences that were left and the rows of each.
        candidates, scores, normalizers: T x R; what :class:`Hypotheses` kept of each step.
        last, last_scores: the candidates that ended a hypothesis, ``step * R * V + candidate`` or
            -1, K + 1 places a sentence, and their scores.
    """

    def __init__(
        self, beam, vocabulary, of_steps, candidates, last, scores, normalizers, last_scores
    ):
        self.vocabulary, self.of_steps = vocabulary, of_steps
        self.candidates, self.scores, self.normalizers = candidates, scores, normalizers
        last, last_scores = (x.view(-1, beam + 1)[:, :beam] for x in (last, last_scores))
        ended = last >= 0
        self.counts = ended.sum(1).tolist()  # hypotheses of each sentence
        step_size = candidates.size(1) * vocabulary
        self.steps = last.div(step_size, rounding_mode="floor")
        # the step at which a sentence had its K hypotheses
        whole = ended.all(1)
        self.done_at = torch.where(whole, self.steps.amax(1), len(of_steps)).tolist()
        self.steps = self.steps[ended]
        self.rows = last[ended].remainder(step_size).div(vocabulary, rounding_mode="floor")
        self.last_scores = last_scores[ended]

    def results(self, eos: int, length_penalty: Optional[float]) -> List[List[Dict[str, Tensor]]]:
        """fairseq's results: each sentence's hypotheses, the best first.

        Args:
            eos: the last word of each.
            length_penalty: the score is divided by the number of words to this power; None: by 1.
        """
        each, longest = torch.arange(len(self.steps)), max(self.steps.tolist(), default=0)
        words = torch.zeros(len(self.steps), longest + 1, dtype=torch.long)
        scores = torch.zeros(len(self.steps), longest + 1)
        rows = self.rows
        for t in reversed(range(longest)):
            # rows of hypotheses that were over by then point anywhere: what is read is not used
            candidates = self.candidates[t].index_select(0, rows)
            scores[:, t] = self.scores[t].index_select(0, rows)
            words[:, t] = candidates.remainder(self.vocabulary)
            before = candidates.div(self.vocabulary, rounding_mode="floor")
            rows = torch.where(self.steps > t, before, rows)
        words[each, self.steps], scores[each, self.steps] = eos, self.last_scores
        of_words = scores.diff(prepend=scores.new_zeros(len(scores), 1))
        final = self.last_scores
        if length_penalty is not None:
            final = final / torch.tensor([(n + 1) ** length_penalty for n in self.steps.tolist()])
        lengths = (self.steps + 1).tolist()
        hypotheses = [
            {
                "tokens": words[n, :length],
                "score": final[n],
                "attention": torch.empty(0),
                "alignment": torch.empty(0),
                "positional_scores": of_words[n, :length],
            }
            for n, length in enumerate(lengths)
        ]
        by_sentence = iter(hypotheses)
        return [
            sorted(islice(by_sentence, count), key=lambda h: -h["score"].item())
            for count in self.counts
        ]

    def not_finite(self) -> List[int]:
        """The sentences with a row that has no finite normalizer before they were done."""
        if bool(self.normalizers.isfinite().all()):
            return []
        lost = set()
        for step, (left, rows) in enumerate(self.of_steps):
            finite = self.normalizers[step, : len(left) * rows].isfinite().view(len(left), rows)
            fine = zip(left, finite.all(1).tolist(), strict=True)
            lost.update(n for n, all_finite in fine if not all_finite and step <= self.done_at[n])
        return sorted(lost)
