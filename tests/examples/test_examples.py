"""The quickstart as its page starts it, at a tiny size."""

import json
import logging
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from road.pages import blocks

from resmlp_mt.text.lines import read_parallel

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ["examples/quickstart/run.py", "--sentences", 200, "--held-out", 12]
QUICKSTART += ["--max-update", 12, "--vocab-size", 250, "--threads", 1]


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    """Its folder, and the finished process."""
    folder = tmp_path_factory.mktemp("quickstart")
    command = [sys.executable, *map(str, QUICKSTART), "--out", str(folder / "out")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return folder, subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True
    )


def test_quickstart_makes_scores_translations_and_pictures(quickstart):
    folder, process = quickstart
    assert process.returncode == 0, process.stdout + process.stderr
    out = folder / "out"
    result = json.loads((out / "run" / "scores.json").read_text())
    assert result["recipe"]["arch"] == "resmlp_mt_tiny"
    assert f"sacreBLEU {result['scores']['test']['bleu']:.1f} on 12 held-out" in process.stdout
    assert "version:" in process.stdout and process.stdout.count("  translated ") == 5
    for name in ("matrices.png", "before_and_after.png"):
        assert (out / "pictures" / name).read_bytes().startswith(b"\x89PNG")
    assert len(json.loads((out / "result.json").read_text())["sentences"]) == 5
    pairs = [
        set(read_parallel(out / "corpus" / f"{split}.en", out / "corpus" / f"{split}.de"))
        for split in ("train", "valid", "test")
    ]
    assert [len(split) for split in pairs] == [200, 12, 12] and not pairs[0] & (pairs[1] | pairs[2])


def test_the_python_of_the_readme(monkeypatch, capsys):
    """It translates with the model that is in the repository, and prints what it says."""
    (block,) = (block for block in blocks(ROOT / "README.md") if block.language == "python")
    monkeypatch.chdir(ROOT)
    exec(block.text, {})
    assert capsys.readouterr().out == f"{re.search('print.*  # (.*)', block.text)[1]}\n"


def test_the_notebook(quickstart, monkeypatch, capsys):
    """Its cells run one after the other. Each picture that it shows is a PNG."""
    notebook = json.loads((ROOT / "examples" / "tour.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    monkeypatch.setenv("QUICKSTART_OUT", str(quickstart[0] / "out"))
    names, shown = {}, []
    for cell in cells:
        exec(re.sub(r"(?m)^Show\(", "shown = Show(", cell), names)
        shown.append(names.pop("shown", None))
    logging.disable(logging.NOTSET)
    pictures = [picture._repr_png_() for picture in shown if picture]
    assert len(pictures) == 4 and all(png.startswith(b"\x89PNG") for png in pictures)
    assert capsys.readouterr().out.count(" removed, BLEU ") == 6


def test_the_notebook_keeps_its_outputs():
    text = (ROOT / "examples" / "tour.ipynb").read_text(encoding="utf-8")
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 4
    assert len(text.encode()) < 300_000 and "Traceback" not in text


def test_quickstart_again_reuses_everything(quickstart, monkeypatch, capsys):
    """Called here."""
    folder, _ = quickstart
    written = (folder / "out" / "run" / "model" / "model.pt").stat().st_mtime_ns
    words = [*map(str, QUICKSTART), "--out", str(folder / "out")]
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for more, status in (([], 0), (["--seed", "2"], 1)):
        monkeypatch.setattr("sys.argv", [*words, *more])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(ROOT / QUICKSTART[0]), run_name="__main__")
        assert end.value.code == status
    assert (folder / "out" / "run" / "model" / "model.pt").stat().st_mtime_ns == written
    assert "made with seed = 1, not 2" in capsys.readouterr().err.splitlines()[-1]


def test_the_benchmark_runs():
    """Each mode but text, at a tiny size."""
    sizes = "--encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 16 --decoder-embed-dim 16"
    words = ["--quick", "--repeats", "1", f"--arch-options={sizes}", "--exported", "int8"]
    for mode in ("decode", "memory", "gpu"):
        command = [sys.executable, "scripts/benchmark", mode, *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0 and "resmlp_mt_tiny" in done.stdout, done.stderr
