"""A shortlist: the likely words, and what the runtime does with them."""

import hashlib
import json
import re
import shutil

import numpy as np
import pytest
import torch
from exported_models import LINES, damaged, write_checkpoint, write_data
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder

from resmlp_mt.cli.main import main
from resmlp_mt.export.runtime import EOS, SHORTLIST, SPECIAL, TranslationError, Translator
from resmlp_mt.export.shortlist import shortlist, word_probabilities
from resmlp_mt.translate.translator import Translator as Torch

WORDS, COMMON = 40, 4  # of a language; the first words are in every sentence


def sentences(count=400):
    """Source words w, and as translations the words WORDS - 1 - w in another order."""
    draw = np.random.default_rng(0)
    rare = draw.integers(COMMON, WORDS, (count, 6))
    sources = np.concatenate([np.tile(np.arange(COMMON), (count, 1)), rare], axis=1)
    targets = draw.permuted(WORDS - 1 - sources, axis=1)
    return list(sources), list(targets)


def test_translations_are_likely():
    """Each word has its translation first, not one of those that are in every sentence."""
    of_source, of_target, probability = word_probabilities(*sentences(), WORDS)
    for word in range(COMMON, WORDS):
        mine = of_source == word
        assert of_target[mine][probability[mine].argmax()] == WORDS - 1 - word
        # what no word explains better is left to the empty one
        assert probability[mine].max() > 0.8 and probability[mine].sum() == pytest.approx(1)


def test_file():
    """The frequent words of every sentence first, then the likeliest of each source word."""
    names = [*SPECIAL, *(f"w{number}" for number in range(WORDS))]
    sources, targets = ([one + len(SPECIAL) for one in side] for side in sentences())
    lines = shortlist(sources, targets, names, names).split("\n")
    assert re.fullmatch(r"\t(w3[6-9] ){4}.*", lines[0])
    assert [re.match(r"(w\d+)\t(w\d+) ", line).groups() for line in lines[COMMON + 1 : -1]] == [
        (f"w{word}", f"w{WORDS - 1 - word}") for word in range(COMMON, WORDS)
    ]


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """How to search with a model whose data have a training text."""
    folder = tmp_path_factory.mktemp("shortlist")
    options = write_checkpoint(write_data(folder / "data"), folder / "model.pt")
    translator = Torch(options, torch.device("cpu"))
    for language in ("en", "de"):
        path = options.data / f"train.en-de.{language}"
        builder = MMapIndexedDatasetBuilder(f"{path}.bin", dtype=np.uint16)
        for line in LINES:
            pieces = " ".join(translator.encode(line).split())
            dictionary = translator.task.source_dictionary
            builder.add_item(dictionary.encode_line(pieces, add_if_not_exist=False))
        builder.finalize(f"{path}.idx")
    return options


@pytest.fixture(scope="module", params=["--int8", None])
def made(request, options, tmp_path_factory):
    """A folder with a shortlist, written by the command."""
    out = tmp_path_factory.mktemp("made") / "out"
    words = [options.paths[0], "--data", options.data, "--out", out, "--shortlist", options.data]
    assert main(["export", *map(str, words), *filter(None, [request.param])]) == 0
    return out


def listing(made, into, data):
    """A copy of a folder with another shortlist, which its config.json lists."""
    folder = damaged(made, into, SHORTLIST, lambda _: data)
    config = json.loads((folder / "config.json").read_text())
    listed = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    config["files"][SHORTLIST] = listed
    (folder / "config.json").write_text(json.dumps(config))
    return Translator(folder, threads=1)


def test_whole_list(made, tmp_path):
    """With all words in the list the translations and scores are those without it."""
    whole = Translator(made, threads=1)
    pieces = whole.target_pieces[len(SPECIAL) :]
    listed = listing(made, tmp_path / "all", f"\t{' '.join(pieces)}\n".encode())
    sources = [whole.pieces(line) for line in LINES]
    other = 0
    for beam in (1, 3):
        expected = whole.search(sources, beam=beam, nbest=beam, max_len_b=12)
        found = listed.search(sources, beam=beam, nbest=beam, max_len_b=12, shortlist=True)
        for one, two in zip(expected, found, strict=True):
            if [a.pieces for a in one] != [b.pieces for b in two]:
                other += 1
            else:
                assert [a.score for a in one] == pytest.approx([b.score for b in two], abs=1e-3)
    assert other <= 1  # one decision may be a tie but for rounding


def test_nothing_else(made, tmp_path):
    """A word outside the list is never chosen, whatever else is in the batch; off by default."""
    whole = Translator(made, threads=1)
    sources = [whole.pieces(line) for line in LINES]
    free = {piece for (one,) in whole.search(sources) for piece in one.pieces}
    kept = [piece for piece in whole.target_pieces[len(SPECIAL) :] if piece not in free][::2]
    text = f"\t{' '.join(kept[1:])}\n{sources[0][0]}\t{kept[0]}\n"
    listed = listing(made, tmp_path / "some", text.encode())
    found = {
        piece
        for one in listed.search(sources, beam=4, nbest=4, max_len_b=12, shortlist=True)
        for hypothesis in one
        for piece in hypothesis.pieces
    }
    assert found and found <= {*kept, *SPECIAL}
    assert {piece for (one,) in listed.search(sources) for piece in one.pieces} == free


def test_words_of_a_batch(made):
    """The special words have their own places, and the last block is filled."""
    exported = Translator(made)
    words = exported.shortlist.words([[EOS]])
    assert list(words[: len(SPECIAL)]) == list(range(len(SPECIAL))) and len(words) % 64 == 0
    assert set(words[words < 0]) <= {-1}


@pytest.mark.parametrize("data", [b"the dog\n", b"nowhere\tthe\n", b"\tnowhere\n", b"\xff\n"])
def test_damaged(made, tmp_path, data):
    with pytest.raises(TranslationError, match="not the file that config.json lists"):
        Translator(damaged(made, tmp_path / "bad", SHORTLIST, lambda _: data))
    with pytest.raises(TranslationError, match="does not fit the model"):
        listing(made, tmp_path / "meant", data).translate(LINES, shortlist=True)


def test_not_there(options, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["export", options.paths[0], "--data", options.data, "--out", out]
    assert main(list(map(str, words))) == 0
    with pytest.raises(TranslationError, match="export it with --shortlist"):
        Translator(out).translate(LINES, shortlist=True)
    shutil.rmtree(out)
    assert main([*map(str, words), "--shortlist", str(tmp_path)]) == 1
    assert "no training data from en to de" in capsys.readouterr().err and not out.exists()
