"""What fairseq needs under today's Python and PyTorch, done once when this package is imported.

Each function here mends one thing, and does nothing when called again.
"""

from pathlib import Path

from resmlp_mt.compat.quiet import ignore_old_scripting, logging_as_before

ignore_old_scripting()
with logging_as_before():
    from resmlp_mt.compat import program_errors
    from resmlp_mt.compat.checkpoints import (
        allow_translation_checkpoints,
        check_checkpoints,
        need_optimizer_state,
        save_whole_checkpoints,
    )
    from resmlp_mt.compat.data import (
        end_lines_at_line_feeds,
        forget_translated_sentences,
        keep_last_batch,
    )
    from resmlp_mt.compat.decoding import (
        block_repeated_ngrams,
        diverse_beams_by_row,
        search_with_own_generator,
    )
    from resmlp_mt.compat.training import PRECISIONS, explain_divergence, set_matmul_precision
    from resmlp_mt.compat.user_dir import remember_user_dir

__all__ = ["PRECISIONS", "install"]


def install(package_dir: str) -> None:
    """Mend fairseq.

    Args:
        package_dir: folder of this package, under which ``--user-dir`` may look for it.

    Raises:
        UserError: if ``RESMLP_MT_MATMUL_PRECISION`` has no meaning.
    """
    allow_translation_checkpoints()
    check_checkpoints()
    need_optimizer_state()
    save_whole_checkpoints()
    set_matmul_precision()
    explain_divergence()
    keep_last_batch()
    end_lines_at_line_feeds()
    forget_translated_sentences()
    diverse_beams_by_row()
    block_repeated_ngrams()
    search_with_own_generator()
    remember_user_dir(package_dir)


install(str(Path(__file__).parents[1]))
program_errors.install()
