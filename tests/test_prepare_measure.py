"""scripts/bench_prepare.py: what it counts, and the projection from it."""

import json
import subprocess
import sys
import time

import bench_prepare
import pytest
from prepare_text import pairs_of, write_side

from resmlp_mt.pipeline.terminal import run_main
from resmlp_mt.wmt14.measure import make_text, project
from resmlp_mt.wmt14.memory_watch import MemoryWatch, descendants, memory_of
from resmlp_mt.wmt14.recipes import PAIRS

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
HOLD = "import time; block = bytearray(100_000_000); print(flush=True); time.sleep(60)"


@pytest.fixture
def text(tmp_path):
    files = [tmp_path / "base.en", tmp_path / "base.de"]
    for path, lines in zip(files, zip(*pairs_of(200, 1))):
        write_side(path, lines)
    return files


def test_text_of_any_size_without_duplicates(tmp_path, text):
    make_text([tuple(text)], 450, PAIRS["en-de"], tmp_path / "made")
    sides = [
        (tmp_path / "made" / "train-parts" / f"repeated.{tag}").read_text().splitlines()
        for tag in ("eng", "deu")
    ]
    base = pairs_of(200, 1)
    assert len(set(zip(*sides))) == 450
    assert (sides[0][449], sides[1][449]) == (f"{base[49][0]} 449", f"{base[49][1]} 449")
    assert (tmp_path / "made" / "dev.eng").read_text().splitlines() == [en for en, _ in base]


@linux
def test_the_memory_of_a_process_and_its_children():
    shell = f"{sys.executable} -c '{HOLD}'; true"
    with subprocess.Popen(["sh", "-c", shell], stdout=subprocess.PIPE) as process:
        watch = MemoryWatch(process.pid)
        watch.phase = "hold"
        process.stdout.readline()
        found = descendants(process.pid)
        assert len(found) == 2 and found[0] == process.pid
        child = memory_of(found[1])
        assert all(100e6 < size < 200e6 for size in child)
        while min(watch.peaks.get("hold", {"rss": 0}).values()) < 100e6:
            assert process.poll() is None
        subprocess.run(["kill", *map(str, found)], check=True)
        watch.stop()
    deadline = time.monotonic() + 60
    while memory_of(found[1]) != (0, 0):  # a process that is killed needs a moment to end
        assert time.monotonic() < deadline
    assert watch.peaks["hold"]["rss"] >= watch.peaks["hold"]["pss"] > 100e6


def test_the_projection():
    step = {"wall_seconds": 30.0, "cpu_seconds_main": 2.0, "cpu_seconds_workers": 32.0}
    cost = {"inputs": {**step, "wall_seconds": 1.0}, "text": step, "data-bin": step}
    found = {
        "pairs": 1000,
        "start_seconds": 5.0,
        "cost": {**cost, "subwords": {**step, "wall_seconds": 60.0}},
        "out_bytes": {"text": 2_000_000, "data-bin": 1_000_000},
    }
    projected = project(found, pairs=10_000, cores=16)
    steps = {"start": 5, "inputs": 10, "text": 40, "data-bin": 40, "subwords": 60}
    assert projected["seconds"] == steps
    assert projected["hours"] == round(155 / 3600, 2)
    assert projected["text_and_data_bin_gigabytes"] == 0.03


def call(*arguments) -> int:
    sys.argv = ["bench_prepare.py", *map(str, arguments)]
    return run_main(bench_prepare.main)


@pytest.fixture(autouse=True)
def arguments_as_before(monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv)


@linux
def test_a_measurement(tmp_path, text, capsys):
    output = tmp_path / "found.json"
    options = ["--pairs", 250, "--vocab-size", 100, "--workers", 1, "--json", output]
    assert call("--from-text", *text, "--work", tmp_path, *options) == 0
    found = json.loads(output.read_text())
    measured = found["measured"][0]
    assert measured["pairs"] == 250 and 0 < measured["pairs_kept"] <= 250
    # a step may be over before memory is looked at once
    phases = {"start and check", "text", "subwords", "data-bin"}
    assert "start and check" in measured["peak_bytes"] and set(measured["peak_bytes"]) <= phases
    assert measured["wall_seconds"] > sum(c["wall_seconds"] for c in measured["cost"].values())
    assert measured["cost"]["text"]["cpu_seconds_workers"] > 0
    assert [projected["pairs"] for projected in found["projected"]] == [4_500_000, 36_000_000]
    assert found["peak_ratio_last_to_first"] == 1
    assert "250 pairs: " in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base.de", "base.en", "found.json"]


def test_bad_options(tmp_path, text, capsys):
    for arguments, said in (
        (["--from-text", text[0]], "1 files: give source and target in turn"),
        (["--from-text", *text, "--pairs", 0], "--pairs 0: must be at least 1"),
        (["--from-text", *text, "--workers", 0], "--workers 0: must be at least 1"),
        (["en-ru", "--from-text", *text], "en-ru: unknown pair"),
    ):
        assert call(*arguments) == 1
        assert said in capsys.readouterr().err
