"""fairseq-interactive and the hub let go of sentences that are translated.

fairseq keeps the iterator over every data set that could be gone through again, for the next epoch.
That is of use for the splits that a task has loaded. fairseq-interactive and the hub make a data
set of each few lines, and keep them all: memory grows with every line. It can go when the original
passes test_memory.py, ``test_interactive_lets_go_of_its_lines``.
"""

from fairseq.tasks import FairseqTask

from resmlp_mt.fairseq_fixes.replacing import replace_once


@replace_once(FairseqTask, "can_reuse_epoch_itr")
def can_reuse_epoch_itr(original, self, dataset) -> bool:
    loaded = any(dataset is split for split in self.datasets.values())
    return loaded and original(self, dataset)
