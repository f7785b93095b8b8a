"""Checkpoints: load, average, fold, inspect."""

from resmlp_mt import compat  # noqa: F401 (fairseq is repaired before it is used)
