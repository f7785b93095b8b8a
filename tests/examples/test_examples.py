"""The quickstart and the notebook, each at a tiny size; test_pages.py runs the benchmark."""

import json
import re
import sys
from pathlib import Path

import grammar
import run
from fairseq_programs import ROOT
from processes import Forked


def test_the_quickstart(tmp_path, monkeypatch, trained_here):
    words = f"run.py --sentences 400 --vocab-size 500 --max-update 4 --out {tmp_path}"
    monkeypatch.setattr(sys, "argv", words.split())
    monkeypatch.setattr(run, "HELD_OUT", 20)
    Forked(lambda: sys.exit(run.run_main(run.main)), tmp_path / "log").ends_well()
    said = (tmp_path / "log").read_text(encoding="utf-8")
    shown = ["Die Brücke wurde vor", "BLEU ", "(reference: ", "before_and_after.png"]
    places = [said.index(text) for text in shown]
    assert places == sorted(places)
    assert not re.search("DEBUG|INFO|Warning|fairseq-train", said)
    assert (tmp_path / "before_and_after.png").read_bytes().startswith(b"\x89PNG")


def test_the_notebook(monkeypatch, capsys):
    monkeypatch.chdir(ROOT / "examples")
    notebook = json.loads(Path("tour.ipynb").read_text(encoding="utf-8"))
    names: dict = {}
    for cell in [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]:
        exec(re.sub(r"(?m)^Show\(", "shown = Show(", "".join(cell["source"])), names)
        streams = [out["text"] for out in cell["outputs"] if out["output_type"] == "stream"]
        assert capsys.readouterr().out == "".join(sum(streams, []))
    assert re.match('<img alt="[^"]+" src="data:image/png;base64,', names["shown"]._repr_html_())


def test_each_sentence_stands_once():
    corpus = grammar.generate(1, {"test": 500, "train": 3000})
    assert corpus == grammar.generate(1, {"test": 500, "train": 3000})
    pairs = corpus["test"] + corpus["train"]
    assert len({en for en, _ in pairs}) == len({de for _, de in pairs}) == len(pairs) == 3500
