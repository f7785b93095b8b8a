"""``--no-repeat-ngram-size`` on a CPU.

There fairseq 0.12 takes the last words of a hypothesis from the end of its whole buffer. That is
padding until the last steps, and so it finds nothing repeated. It can go when ``NGramRepeatBlock``
reads up to ``step`` itself (test_compat.py, ``test_repeated_ngrams_are_blocked_on_a_cpu``).
"""

from fairseq.ngram_repeat_block import NGramRepeatBlock

from resmlp_mt.fairseq_fixes.replacing import replace_once


@replace_once(NGramRepeatBlock, "forward")
def forward(original, self, tokens, lprobs, bsz, beam_size, step):
    if not self.use_extension:
        tokens = tokens[:, : step + 1]
    return original(self, tokens, lprobs, bsz, beam_size, step)
