"""What fairseq needs today. Each file repairs one thing when it is imported, and says what breaks
without it and how to see that it is no longer needed.

Importing this package repairs fairseq and registers our model.
"""

from importlib import import_module

from resmlp_mt.fairseq_fixes.quiet import ignore_old_scripting, logging_as_before
from resmlp_mt.fairseq_fixes.slow_imports import imported_when_called

REPAIRS = (
    "addresses",
    "autocast",
    "checkpoint_errors",
    "divergence",
    "diverse_beams",
    "ended_training",
    "generator",
    "last_batch",
    "line_ends",
    "matmul_precision",
    "ngram_blocking",
    "optimizer_state",
    "program_errors",
    "safe_loading",
    "sentencepiece_text",
    "translated_sentences",
    "whole_checkpoints",
)

ignore_old_scripting()
with logging_as_before(), imported_when_called():
    import_module("resmlp_mt.model.architectures")  # registers the model
    for name in REPAIRS:
        import_module(f"{__name__}.{name}")
