"""The ways to decode the study's models other than the runs' own, on one of few updates."""

import compare
import decoding
import long_sentences
import pytest
import repetitions
import study
from helpers import TINY
from plan import Row

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.files import read_json

NAME = "concatenated.en-de.toeplitz-3.1"


@pytest.fixture
def trained(hundred_lines, tmp_path, monkeypatch):
    """A row of twelve updates, its translations and the options for the folders.

    Its training text is not the original one, and neither is the order of its dictionary.
    """
    row = Row(NAME, "table5", "toeplitz-3", "resmlp_mt_tiny", TINY, 12, text="concatenated")
    monkeypatch.setenv("MULTI30K", str(hundred_lines))
    monkeypatch.setattr(study, "VOCABULARY", 120)
    for module in (study, compare, decoding, repetitions, long_sentences):
        monkeypatch.setattr(module, "rows", lambda: {NAME: row})
    folders = "--out", str(tmp_path / "out"), "--results", str(tmp_path / "results")
    monkeypatch.setattr("sys.argv", ["study.py", "run", NAME, "--jobs", "1", *folders])
    assert run_main(study.main) == 0
    monkeypatch.setattr("sys.argv", ["program", *folders])
    return tmp_path


def test_validation_chooses(tmp_path, monkeypatch):
    """Not the test set, for which the other value is the better one; and not the worst."""
    sides = {"valid": ("v s", "v r"), repetitions.TEST: ("t s", "t r")}
    for split, lines in sides.items():
        for language, line in zip(("en", "de"), lines):
            text = "".join(f"{line} one two three four five {number}\n" for number in range(9))
            (tmp_path / f"{split}.{language}").write_text(text)
    corpora = {split: (tmp_path / f"{split}.en", tmp_path / f"{split}.de") for split in sides}
    good = {"v": 4, "t": 3}

    def translate(out, name, sources, overrides=None, no_repeat_ngram_size=None):
        value = no_repeat_ngram_size or {16: 3, 24: 4}.get(
            (overrides or {}).get("token_mixing_reach")
        )
        right = [source.replace(" s ", " r ") for source in sources]
        return right if value == good[sources[0][0]] else ["wrong"] * len(sources)

    monkeypatch.setattr(repetitions, "translate", translate)
    found = repetitions.search("x", tmp_path, corpora, tmp_path / "new" / "file")
    assert found["size"] == 4 and found["bleu"] < 1

    monkeypatch.setattr(long_sentences, "translate", translate)
    row = Row("x", "table5", "toeplitz-3", "resmlp_mt_tiny", TINY, 12)
    monkeypatch.setattr(long_sentences, "rows", lambda: {"x": row})
    valid, test = (list(long_sentences.read_parallel(*corpora[split])) for split in sides)
    found = long_sentences.study("x", tmp_path, valid, [test])
    assert list(found) == ["as it is", "extended from 24"]


def test_other_ways_to_decode(trained, capsys):
    capsys.readouterr()
    file = compare.translations(trained / "out", NAME)
    # what the run itself wrote, by fairseq-generate
    corpora = study.find_corpora("de", trained)
    sources = [source for source, _ in long_sentences.read_parallel(*corpora[compare.TEST])]
    assert decoding.translate(trained / "out", NAME, sources) == list(compare.read_lines(file))

    assert run_main(repetitions.main) == 0 and NAME in capsys.readouterr().out
    result = read_json(trained / "results" / "repetitions.json")
    found = result["rows"][NAME]
    again = found["forbidden"]
    assert result["command"] and result["versions"] and found["words"] > 0
    assert again["size"] in repetitions.SIZES and again["bleu_signature"]
    assert again["repeats"] <= found["repeats"] and "against" not in again
    texts = list(compare.read_lines(file.parents[1] / "no-repeat" / file.name))
    assert repetitions.counted(texts, texts)["repeats"] == again["repeats"]
    # a second call takes what the first one searched
    before = (file.parents[1] / "no-repeat" / file.name).stat().st_mtime_ns
    assert run_main(repetitions.main) == 0
    assert read_json(trained / "results" / "repetitions.json")["rows"][NAME] == found
    assert (file.parents[1] / "no-repeat" / file.name).stat().st_mtime_ns == before

    assert run_main(long_sentences.main) == 0
    found = read_json(trained / "results" / "long_sentences.json")
    assert "version:" in found["signature"]
    assert len(found["words"]) == long_sentences.MOST == len(found["rows"][NAME]["as it is"])
    assert len(found["rows"][NAME]) == 2
