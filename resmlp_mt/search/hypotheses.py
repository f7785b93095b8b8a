"""The hypotheses of a beam search, as back pointers that are written once and never moved.

The host reads nothing before the search ends. Then it follows the back pointers from the end of
each hypothesis to its first token.
"""

from itertools import islice

import torch
from torch import Tensor


class Hypotheses:
    """K hypotheses for each of B sentences, R = B K rows grouped by sentence.

    A candidate is a row and its next token: ``row * V + token``. Each step records the best 2 K of
    each sentence. A hypothesis has at most *steps* tokens, EOS included.

    Attributes:
        tokens: the newest token of each row, int64. At first there is one row per sentence.
        scores: R x 1; the sum of the log-probabilities of each row's tokens.
        active: the numbers of the sentences that are not dropped, whose rows these are.
        past: R x T; all tokens of each row, without the first, if they are *remembered*.
    """

    def __init__(
        self,
        sentences: int,
        beam: int,
        steps: int,
        vocabulary: int,
        first_token: int,
        eos: int,
        device: torch.device,
        remembered: bool = False,
    ):
        self.beam, self.vocabulary, self.eos = beam, vocabulary, eos
        self.tokens = torch.full((sentences,), first_token, device=device)
        self.scores = torch.zeros(sentences, 1, device=device)
        self.past, self._remembered = self.tokens.new_zeros(sentences, 0), remembered
        self.active = torch.arange(sentences, device=device)
        self._steps = 0
        # of each step: the best of each sentence, and which of them end a hypothesis
        shape = steps, sentences, 2 * beam
        self._candidates = torch.zeros(shape, dtype=torch.long, device=device)
        self._scores = torch.zeros(shape, device=device)
        self._ends = torch.zeros(shape, dtype=torch.bool, device=device)
        self._normalizers = torch.zeros(steps, sentences, beam, device=device)

    def add(self, normalizers: Tensor, candidates: Tensor, scores: Tensor) -> Tensor:
        """Record a step's best candidates and their scores, B x 2 K, the best first. Those among
        the first K that are EOS finish a hypothesis. Returns the parent of each new row, R.
        *normalizers*, R x 1, are not finite where one of a row's scores is not."""
        at = self._steps, self.active
        ends = candidates.remainder(self.vocabulary).eq(self.eos) & scores.ne(-torch.inf)
        self._normalizers[at] = normalizers.view(len(self.active), -1)
        self._candidates[at], self._scores[at], self._ends[at] = candidates, scores, ends
        self._steps += 1
        survivors = _best_survivors(ends, self.beam)
        candidates, scores = candidates.gather(1, survivors).view(-1), scores.gather(1, survivors)
        self.tokens, self.scores = candidates.remainder(self.vocabulary), scores.view(-1, 1)
        parents = candidates.div(self.vocabulary, rounding_mode="floor")
        if self._remembered:
            self.past = torch.cat([self.past[parents], self.tokens.unsqueeze(1)], 1)
        return parents

    def unfinished(self) -> list[int]:
        """The active sentences with fewer than K finished hypotheses; waits for the device."""
        ended = self._ends[: self._steps, :, : self.beam].sum(dim=(0, 2))
        return ended.lt(self.beam)[self.active].nonzero().flatten().tolist()

    def keep(self, sentences: Tensor) -> Tensor:
        """Keep only these active sentences (indices into ``active``). Returns the rows kept."""
        beams = torch.arange(self.beam, device=sentences.device)
        rows = (sentences.unsqueeze(1) * self.beam + beams).view(-1)
        self.tokens, self.scores = (x.index_select(0, rows) for x in (self.tokens, self.scores))
        if self._remembered:
            self.past = self.past.index_select(0, rows)
        self.active = self.active.index_select(0, sentences)
        return rows

    def fetch(self) -> "Fetched":
        """The whole search, brought to the host."""
        stored = self._candidates, self._scores, self._normalizers, self._ends
        return Fetched([x[: self._steps].cpu() for x in stored], self.vocabulary, self.eos)


def _best_survivors(ends: Tensor, beam: int) -> Tensor:
    """Indices of the best K candidates that are not EOS. There are always K: of the 2 K candidates
    at most K are EOS, one for each row."""
    return ends.sort(dim=-1, stable=True).indices[..., :beam]


class Fetched:
    """A search on the host: what is *stored* for each of T steps."""

    def __init__(self, stored: list[Tensor], vocabulary: int, eos: int):
        candidates, scores, normalizers, ends = stored
        _, sentences, beam = normalizers.shape
        self.eos, self.normalizers = eos, normalizers
        tokens = candidates % vocabulary
        # a candidate names a row of the sentences that were active; here sentence n has the rows
        # n K to n K + K - 1, of which only the first exists before the first step
        hypothesis = candidates.div(vocabulary, rounding_mode="floor") % beam
        hypothesis[0] = 0
        parents = hypothesis + torch.arange(0, sentences * beam, beam).unsqueeze(1)
        survivors = _best_survivors(ends, beam)
        # T x R, of each row: its token, its score and its parent
        self.tokens, self.scores, self.parents = (
            x.gather(2, survivors).flatten(1) for x in (tokens, scores, parents)
        )
        # B x T K: the first K candidates of all steps
        ends, last_scores, last_rows = (
            x[:, :, :beam].transpose(0, 1).flatten(1) for x in (ends, scores, parents)
        )
        ended = ends.cumsum(1)
        # the step at which a sentence had K finished hypotheses
        self.finished_at = (ended < beam).sum(1) // beam
        last = ends & (ended <= beam)
        self.counts = last.sum(1).tolist()  # hypotheses of each sentence
        self.last_steps = last.nonzero()[:, 1] // beam
        self.last_scores, self.last_rows = last_scores[last], last_rows[last]

    def hypotheses(self, length_penalty: float | None) -> list[list[dict[str, Tensor]]]:
        """fairseq's result: each sentence's hypotheses, the best first. With a *length_penalty*,
        scores are divided by the number of tokens to that power."""
        steps, rows = self.last_steps, self.last_rows
        number, longest = torch.arange(len(steps)), max(steps.tolist(), default=0)
        tokens = torch.zeros(len(steps), longest + 1, dtype=torch.long)
        scores = torch.zeros(len(steps), longest + 1)
        for t in reversed(range(longest)):
            # what a hypothesis reads here at steps after its last is not used
            tokens[:, t], scores[:, t] = self.tokens[t][rows], self.scores[t][rows]
            rows = torch.where(steps > t, self.parents[t][rows], rows)
        tokens[number, steps], scores[number, steps] = self.eos, self.last_scores
        of_tokens = scores.diff(prepend=scores.new_zeros(len(scores), 1))
        final, lengths = self.last_scores, (steps + 1).tolist()
        if length_penalty is not None:
            final = final / torch.tensor([length**length_penalty for length in lengths])
        hypotheses = (
            {
                "tokens": tokens[n, :length],
                "score": final[n],
                "attention": torch.empty(0),
                "alignment": torch.empty(0),
                "positional_scores": of_tokens[n, :length],
            }
            for n, length in enumerate(lengths)
        )
        return [
            sorted(islice(hypotheses, count), key=lambda h: -h["score"].item())
            for count in self.counts
        ]

    def not_finite(self) -> list[int]:
        """The sentences with a normalizer that was NaN or infinite before they were finished."""
        overflowed = ~self.normalizers.isfinite().all(dim=2)  # T x B
        in_time = torch.arange(len(overflowed)).unsqueeze(1) <= self.finished_at
        return (overflowed & in_time).any(dim=0).nonzero().view(-1).tolist()
