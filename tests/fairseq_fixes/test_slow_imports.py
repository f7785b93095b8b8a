"""A program of ours starts without scikit-learn, and who calls it gets it."""

import subprocess
import sys

CODE = """
import resmlp_mt.fairseq_fixes, sys
from fairseq.criterions import sentence_prediction
assert not {"sklearn", "sklearn.metrics", "scipy.stats"} & set(sys.modules)
print(sentence_prediction.f1_score([1, 0], [1, 0]), "sklearn" in sys.modules)
"""


def test_imported_when_a_function_is_called():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "1.0 True\n", done.stderr
