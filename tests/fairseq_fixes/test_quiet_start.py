"""fairseq is imported quietly and quickly, whichever module of ours is first to import it."""

import subprocess
import sys

import pytest

CODE = """
import logging, sys
import resmlp_mt.{first}
assert not {{"sklearn", "sklearn.metrics", "scipy.stats"}} & set(sys.modules)
root = logging.getLogger()
assert root.level == logging.WARNING and not root.handlers, (root.level, root.handlers)
from fairseq.criterions import sentence_prediction
print(sentence_prediction.f1_score([1, 0], [1, 0]), "sklearn" in sys.modules)
"""


@pytest.mark.parametrize("first", ["model.model", "train.training"])
def test_quiet_start(first, tmp_path):
    """On a fresh machine, where matplotlib would log each font that it finds."""
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(first=first)],
        capture_output=True,
        text=True,
        env={"HOME": str(tmp_path), "MPLCONFIGDIR": str(tmp_path), "OMP_NUM_THREADS": "1"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1.0 True\n", "")
