"""Every sentence is translated, scored and trained on.

fairseq-fixed 0.12.3.1 drops the last batch of a data set if its size is no multiple of
``--required-batch-size-multiple`` (8): up to 7 sentences of a test set are missing from the output
of fairseq-generate and from its BLEU. It can go when the original passes test_compat.py,
``test_every_sentence_is_in_a_batch_once``.
"""

import numpy as np
from fairseq.data import data_utils

from resmlp_mt.fairseq_fixes.replacing import replace_once


@replace_once(data_utils, "batch_by_size")
def batch_by_size(original, indices, *args, **kwargs):
    if not isinstance(indices, np.ndarray):
        indices = np.fromiter(indices, dtype=np.int64, count=-1)
    batches = original(indices, *args, **kwargs) if len(indices) else []
    if kwargs.get("fixed_shapes") is not None:
        return batches  # this way drops nothing
    batched = sum(len(batch) for batch in batches)
    # the batches are consecutive pieces of indices
    return batches if batched == len(indices) else [*batches, indices[batched:]]
