"""The hypotheses of a beam search, as back pointers in buffers that stay where they are.

The host reads nothing before the end: then one transfer brings everything there, and the
hypotheses are put together.
"""

from itertools import islice

import torch
from torch import Tensor


class Hypotheses:
    """K hypotheses for each of B sentences, R = B K rows grouped by sentence.

    A candidate is a row and its next word: ``row * vocabulary + word``. Each step keeps the best
    2 K of each sentence. A hypothesis has at most *steps* words, its end included.

    Attributes:
        words: the newest word of each row, int64. At first there is one row a sentence.
        scores: n x 1; the sum of the log-probabilities of each row's words.
        first_candidates: B x 1; the candidate of each sentence's first row and word 0.
        left: the sentences whose rows these are.
    """

    def __init__(
        self,
        sentences: int,
        beam: int,
        steps: int,
        vocabulary: int,
        first_word: int,
        eos: int,
        device: torch.device,
    ):
        self.beam, self.vocabulary, self.eos = beam, vocabulary, eos
        self.words = torch.full((sentences,), first_word, device=device)
        self.scores = torch.zeros(sentences, 1, device=device)
        self.left = list(range(sentences))
        self._left = torch.arange(sentences, device=device)
        self._set_first_candidates(1)
        self._steps = 0
        shape = steps, sentences, 2 * beam
        self._candidates = torch.zeros(shape, dtype=torch.long, device=device)
        self._scores = torch.zeros(shape, device=device)
        self._ends = torch.zeros(shape, dtype=torch.bool, device=device)
        self._normalizers = torch.zeros(steps, sentences, beam, device=device)

    def add(self, normalizers: Tensor, candidates: Tensor, scores: Tensor) -> Tensor:
        """Keep the candidates of a step and their scores, B x 2 K, the best first; returns the row
        that each new row continues, R. Those of the first K that are the last word end.
        *normalizers*, n x 1, are not finite where one of a row's scores is not."""
        at = self._steps, self._left
        ends = candidates.remainder(self.vocabulary).eq(self.eos) & scores.ne(-torch.inf)
        self._normalizers[at] = normalizers.view(len(self._left), -1)
        self._candidates[at], self._scores[at], self._ends[at] = candidates, scores, ends
        self._steps += 1
        going_on = _best_going_on(ends, self.beam)
        candidates, scores = candidates.gather(1, going_on).view(-1), scores.gather(1, going_on)
        if len(candidates) != len(self.words):
            self._set_first_candidates(self.beam)
        self.words, self.scores = candidates.remainder(self.vocabulary), scores.view(-1, 1)
        return candidates.div(self.vocabulary, rounding_mode="floor")

    def done(self) -> list[bool]:
        """Whether each sentence left has its K hypotheses; waits for the device."""
        ended = self._ends[: self._steps, :, : self.beam].sum(dim=(0, 2))
        return ended.ge(self.beam).index_select(0, self._left).tolist()

    def keep(self, sentences: Tensor) -> Tensor:
        """Of the sentences left, keep the given ones; returns their rows."""
        beams = torch.arange(self.beam, device=sentences.device)
        rows = (sentences.unsqueeze(1) * self.beam + beams).view(-1)
        self.left = [self.left[i] for i in sentences.tolist()]
        self.words, self.scores = (x.index_select(0, rows) for x in (self.words, self.scores))
        self._left = self._left.index_select(0, sentences)
        self._set_first_candidates(self.beam)
        return rows

    def _set_first_candidates(self, rows: int) -> None:
        first = torch.arange(len(self._left), device=self._left.device)
        self.first_candidates = (first * (rows * self.vocabulary)).unsqueeze(1)

    def fetch(self) -> "Fetched":
        """Everything, brought to the host by one transfer."""
        kept = self._candidates, self._scores, self._normalizers, self._ends
        kept = [some[: self._steps] for some in kept]
        parts = [some.reshape(-1).view(torch.uint8) for some in kept]
        flat = torch.cat(parts).cpu().split([part.numel() for part in parts])
        pairs = zip(flat, kept, strict=True)
        here = (part.view(some.dtype).view(some.shape) for part, some in pairs)
        return Fetched(self.vocabulary, self.eos, *here)


def _best_going_on(ends: Tensor, beam: int) -> Tensor:
    """Places of the best K of 2 K candidates that do not end. A row ends at most once, so that
    there are enough."""
    return ends.sort(dim=-1, stable=True).indices[..., :beam]


class Fetched:
    """A search that has ended, on the host: for each of T steps the candidates, their scores and
    which of them *ends*, T x B x 2 K, and the normalizers of the rows, T x B x K."""

    def __init__(
        self,
        vocabulary: int,
        eos: int,
        candidates: Tensor,
        scores: Tensor,
        normalizers: Tensor,
        ends: Tensor,
    ):
        _, sentences, beam = normalizers.shape
        self.eos, self.normalizers = eos, normalizers
        # rows by their numbers among all sentences
        rows = candidates.div(vocabulary, rounding_mode="floor") % beam
        rows[0] = 0
        rows += torch.arange(0, sentences * beam, beam).unsqueeze(1)
        words = candidates % vocabulary
        going_on = _best_going_on(ends, beam)
        # T x R: the word that became each row, its score, and the row before
        self.words, self.scores, self.rows = (
            x.gather(2, going_on).flatten(1) for x in (words, scores, rows)
        )
        # B x T K: the first K that end, of each sentence
        ends, last_scores, last_rows = (
            x[:, :, :beam].transpose(0, 1).flatten(1) for x in (ends, scores, rows)
        )
        ended = ends.cumsum(1)
        # the step at which a sentence had its K hypotheses
        self.done_at = (ended < beam).sum(1) // beam
        last = ends & (ended <= beam)
        self.counts = last.sum(1).tolist()  # hypotheses of each sentence
        self.last_steps = last.nonzero()[:, 1] // beam
        self.last_scores, self.last_rows = last_scores[last], last_rows[last]

    def results(self, length_penalty: float | None) -> list[list[dict[str, Tensor]]]:
        """fairseq's results: each sentence's hypotheses, the best first. With a *length_penalty*,
        scores are divided by the number of words to that power."""
        steps, rows = self.last_steps, self.last_rows
        each, longest = torch.arange(len(steps)), max(steps.tolist(), default=0)
        words = torch.zeros(len(steps), longest + 1, dtype=torch.long)
        scores = torch.zeros(len(steps), longest + 1)
        for t in reversed(range(longest)):
            # the rows of shorter hypotheses point anywhere: what they read is not used
            words[:, t], scores[:, t] = self.words[t][rows], self.scores[t][rows]
            rows = torch.where(steps > t, self.rows[t][rows], rows)
        words[each, steps], scores[each, steps] = self.eos, self.last_scores
        of_words = scores.diff(prepend=scores.new_zeros(len(scores), 1))
        final, lengths = self.last_scores, (steps + 1).tolist()
        if length_penalty is not None:
            final = final / torch.tensor([length**length_penalty for length in lengths])
        hypotheses = (
            {
                "tokens": words[n, :length],
                "score": final[n],
                "attention": torch.empty(0),
                "alignment": torch.empty(0),
                "positional_scores": of_words[n, :length],
            }
            for n, length in enumerate(lengths)
        )
        return [
            sorted(islice(hypotheses, count), key=lambda h: -h["score"].item())
            for count in self.counts
        ]

    def not_finite(self) -> list[int]:
        """The sentences with a row whose normalizer was not finite before they were done."""
        lost = ~self.normalizers.isfinite().all(dim=2)  # T x B
        in_time = torch.arange(len(lost)).unsqueeze(1) <= self.done_at
        return (lost & in_time).any(dim=0).nonzero().view(-1).tolist()
