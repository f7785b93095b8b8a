"""Text in, text out: one driver."""

from resmlp_mt import fairseq_fixes

fairseq_fixes.apply()
