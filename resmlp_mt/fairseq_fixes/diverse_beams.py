"""``--diverse-beam-groups`` with more than one batch.

fairseq 0.12 keeps the overlaps of its groups by row of the batch, but looks them up by the number
of the sentence in the data set. From the second batch on that is out of range, or the row of
another sentence. It can go when ``DiverseBeamSearch`` no longer reads ``original_batch_idxs``
(test_cli_generate.py, ``test_diverse_beam``).
"""

from fairseq.search import DiverseBeamSearch

from resmlp_mt.fairseq_fixes.replacing import replace_once


@replace_once(DiverseBeamSearch, "step")
def step(original, self, number, lprobs, scores, prev_output_tokens=None, original_batch_idxs=None):
    if original_batch_idxs is not None:
        if number == 0:
            self.first_batch_idxs = original_batch_idxs
        same = original_batch_idxs.unsqueeze(1) == self.first_batch_idxs
        original_batch_idxs = same.int().argmax(dim=1)
    return original(self, number, lprobs, scores, prev_output_tokens, original_batch_idxs)
