"""Text in, text out: one driver."""

from resmlp_mt import fairseq_fixes  # noqa: F401 (fairseq is repaired before anything is taken from it)
