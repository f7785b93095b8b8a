"""How a command ends when nobody reads what it prints."""

import subprocess
import sys

PROGRAM = """
import sys
from resmlp_mt.pipeline.terminal import run_main

def main():
    for number in range(100000):
        print(number, flush=True)

sys.exit(run_main(main))
"""


def test_a_reader_that_has_gone(tmp_path):
    (tmp_path / "count.py").write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, tmp_path / "count.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline() == b"0\n"
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait() == 141
