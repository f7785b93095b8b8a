"""resmlp_mt: the sequence-to-sequence ResMLP as a fairseq plugin.

Importing this package, or naming it as ``--user-dir``, registers the model and its architectures.
"""

from resmlp_mt.quiet import logging_as_before

with logging_as_before():
    from resmlp_mt import cli_errors, compat
    from resmlp_mt.model import ResMLPModel

__all__ = ["ResMLPModel"]
__version__ = "0.1.0"

compat.allow_translation_checkpoints()
compat.check_checkpoints()
compat.set_matmul_precision()
compat.keep_last_batch()
compat.end_lines_at_line_feeds()
compat.diverse_beams_by_row()
compat.block_repeated_ngrams()
compat.save_whole_checkpoints()
compat.search_with_own_generator()
compat.forget_translated_sentences()
compat.explain_divergence()
cli_errors.install()
compat.remember_user_dir(__path__[0])
