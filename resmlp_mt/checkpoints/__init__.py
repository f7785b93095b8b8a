"""Checkpoints: load, average, fold, inspect."""

from resmlp_mt import fairseq_fixes  # noqa: F401 (fairseq is repaired before it is used)
