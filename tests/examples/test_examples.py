"""The examples through the real command-line programs, at a tiny size."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from resmlp_mt.text.lines import read_parallel

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ["examples/quickstart/run.py", "--sentences", 200, "--held-out", 12]
# warm-up is one update then: at the example's own rate some machines get infinite gradients
QUICKSTART += ["--lr", 0.01]
QUICKSTART += ["--updates", 12, "--vocab-size", 250, "--max-tokens", 1024, "--threads", 1]


def run(command, folder, *more, **environment):
    """Run an example with its results below *folder*; gives the finished process."""
    return subprocess.run(
        [sys.executable, *map(str, command), "--out", str(folder / "out"), *map(str, more)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
    )


def assert_refused(process, *parts):
    """One line on standard error with all *parts*, a non-zero exit, no traceback."""
    assert process.returncode != 0
    last = process.stderr.strip().splitlines()[-1]
    assert all(part in last for part in parts), process.stderr
    assert "Traceback" not in process.stderr


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quickstart")
    return folder, run(QUICKSTART, folder)


def test_quickstart_makes_scores_translations_and_pictures(quickstart):
    folder, process = quickstart
    assert process.returncode == 0, process.stdout + process.stderr
    out = folder / "out"
    result = json.loads((out / "experiment" / "scores" / "result.json").read_text())
    assert result["recipe"]["arch"] == "resmlp_mt_tiny"
    assert f"sacreBLEU {result['scores']['test']['bleu']:.1f} on 12 held-out" in process.stdout
    assert "version:" in process.stdout and process.stdout.count("  translated ") == 5
    for name in ("learning_curve.png", "mixing_matrices.png"):
        assert (out / "pictures" / name).read_bytes().startswith(b"\x89PNG")
    pairs = [
        set(read_parallel(out / "corpus" / f"{split}.en", out / "corpus" / f"{split}.de"))
        for split in ("train", "valid", "test")
    ]
    assert [len(split) for split in pairs] == [200, 12, 12] and not pairs[0] & (pairs[1] | pairs[2])


def test_quickstart_again_reuses_everything(quickstart):
    folder, _ = quickstart
    process = run(QUICKSTART, folder)
    assert process.returncode == 0 and process.stdout.count("done before, reused") == 7
    assert_refused(run(QUICKSTART, folder, "--seed", 2), "made with seed = 1, not 2")
