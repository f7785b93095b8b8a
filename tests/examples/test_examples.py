"""The examples through the real command-line programs, at a tiny size."""

import gzip
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
MULTI30K = ["examples/multi30k/run.py", "--updates", 12, "--vocab-size", 120, "--threads", 1]
MULTI30K += ["--lenpen", 0.6, 1.0, "--average", 2, "--max-tokens", 512]


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


def test_multi30k_on_a_hundred_lines(hundred_lines, tmp_path):
    process = run(MULTI30K, tmp_path, MULTI30K=str(hundred_lines))
    assert process.returncode == 0, process.stdout + process.stderr
    result = json.loads((tmp_path / "out" / "scores" / "result.json").read_text())
    assert result["command"].startswith("examples/multi30k/run.py --")
    assert set(result["scores"]) == {
        *("valid", "test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")
    }
    for scores in result["scores"].values():
        assert scores["bleu"] >= 0 and "version:" in scores["bleu_signature"]
    assert "| en-de | `resmlp_mt_tiny` |" in process.stdout
    for split in result["scores"]:
        lines = (tmp_path / "out" / "generate" / f"{split}.de").read_text().splitlines()
        assert len(lines) == 6


def test_multi30k_refuses_bad_input_and_writes_nothing(hundred_lines, tmp_path):
    def refuse(*more):
        process = run(MULTI30K, tmp_path, *more, MULTI30K=str(hundred_lines))
        assert not (tmp_path / "out").exists()
        return process

    assert_refused(refuse("--arch", "resmlp_mt_7"), "--arch resmlp_mt_7", "resmlp_mt_6")
    assert_refused(refuse("--lang", "xx"), "--lang", "xx")
    assert_refused(refuse("--lang", "fr"), "train.fr.gz")
    assert_refused(refuse("--updates", 0), "--updates 0")
    with gzip.open(hundred_lines / "val.de.gz", "at") as file:
        file.write("one line more\n")
    assert_refused(refuse(), "val.en.gz has 6 lines", "val.de.gz has 7")


def test_multi30k_with_too_large_a_vocabulary(hundred_lines, tmp_path):
    process = run(MULTI30K, tmp_path, "--vocab-size", 9000, MULTI30K=str(hundred_lines))
    assert_refused(process, "--vocab-size 9000 is more than this corpus allows: at most")
    assert not (tmp_path / "out" / "subwords").exists()
