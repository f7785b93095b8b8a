"""The cross-attention of a sentence, of a model that was trained."""

import shutil

import torch
from command import refused
from fairseq import checkpoint_utils
from picture_inputs import assert_legible, drawn, save_model

from resmlp_mt.plot.cross_attention import cross_attention
from resmlp_mt.text.settings import TextSettings
from resmlp_mt.text.subwords import Subwords, train_subwords

SENTENCE = "w01 w17 w05 w33 w02"


@torch.no_grad()
def test_weights_are_the_models(trained):
    """Layer by layer against the weights that each layer's attention gives, out of a hook."""
    found = cross_attention(trained.path, trained.data, SENTENCE)
    assert found.source == [*SENTENCE.split(), "</s>"] and found.target[-1] == "</s>"
    assert found.weights.shape == (2, len(found.target), 6)
    overrides = {"data": str(trained.data)}
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(trained.path)], overrides
    )
    model.eval()
    source = task.source_dictionary.encode_line(SENTENCE, append_eos=True).long().unsqueeze(0)
    words = " ".join(found.target[:-1])
    target = task.target_dictionary.encode_line(words, append_eos=True).long()
    fed = torch.cat([target[-1:], target[:-1]]).unsqueeze(0)
    seen = []
    for layer in model.decoder.layers:
        attention = layer.cross_attention
        forward = attention.forward

        def watched(x, out, mask, memory=None, need_weights=False, forward=forward):
            y, weights = forward(x, out, mask, memory, True)
            seen.append(weights)
            return y, weights

        attention.forward = watched
    model(source, torch.tensor([source.size(1)]), fed)
    expected = torch.stack([weights.mean(dim=0)[0] for weights in seen])
    torch.testing.assert_close(found.weights, expected)
    torch.testing.assert_close(found.weights.sum(-1), torch.ones(found.weights.shape[:2]))


def test_dropout_is_off(trained, tmp_path):
    state = torch.load(trained.path)
    state["cfg"]["model"].dropout = 0.9
    torch.save(state, tmp_path / "dropout.pt")
    given = cross_attention(tmp_path / "dropout.pt", trained.data, SENTENCE, translation="w03")
    expected = cross_attention(trained.path, trained.data, SENTENCE, translation="w03")
    assert torch.equal(given.weights, expected.weights)


def test_a_given_translation(trained):
    given = cross_attention(trained.path, trained.data, SENTENCE, translation="w03 w39 unheard")
    assert given.target == ["w03", "w39", "<unk>", "</s>"]


def test_picture(trained):
    words = [trained.path, "--data", trained.data, "--sentence", SENTENCE]
    figure = drawn("attention", *words, "--layer", 1, 2)
    assert_legible(figure)
    found = cross_attention(trained.path, trained.data, SENTENCE)
    panels = [axes for axes in figure.axes if axes.images]
    for layer, axes in enumerate(panels):
        assert (axes.images[0].get_array() == found.weights[layer].numpy()).all()
        assert [text.get_text() for text in axes.get_yticklabels()] == found.target
        assert f"layer {layer + 1}" in axes.get_ylabel()
    assert [text.get_text() for text in panels[0].get_xticklabels()] == found.source
    (last,) = [axes for axes in drawn("attention", *words).axes if axes.images]
    assert (last.images[0].get_array() == found.weights[1].numpy()).all()


def test_a_folder_with_all_that_translates(trained, tmp_path, monkeypatch):
    """The dictionaries and the length penalty are beside the model."""
    shutil.copytree(trained.data, tmp_path / "model")
    path, lenpens = shutil.copy(trained.path, tmp_path / "model" / "model.pt"), []

    def recorded(checkpoint, data, sentence, spm, translation, beam, lenpen):
        lenpens.append(lenpen)
        return cross_attention(checkpoint, data, sentence, spm, translation, beam, lenpen)

    monkeypatch.setattr("resmlp_mt.plot.cross_attention.cross_attention", recorded)
    drawn("attention", path, "--sentence", SENTENCE)
    (tmp_path / "model" / "search.json").write_text('{"lenpen": 1.4}')
    drawn("attention", path, "--sentence", SENTENCE)
    drawn("attention", path, "--sentence", SENTENCE, "--lenpen", 2)
    assert lenpens == [0.6, 1.4, 2]


def test_long_sentences_make_a_wider_picture(trained):
    sentence, translation = (" ".join(f"w{i:02d}" for i in range(n)) for n in (31, 24))
    words = [trained.path, "--data", trained.data, "--sentence", sentence]
    figure = drawn("attention", *words, "--translation", translation)
    assert_legible(figure, width=figure.get_figwidth())
    assert figure.get_figwidth() > 8 / 2.54


def test_refusals(trained, corpus, tmp_path):
    (tmp_path / "no.model").write_text("no model\n")
    data = tmp_path / "data"
    data.mkdir()
    for language in ("xx", "yy"):
        (data / f"dict.{language}.txt").write_text("one 1\n")
    bare = tmp_path / "bare"
    bare.mkdir()
    for folder in (data, bare):
        (folder / "train.xx-yy.xx.idx").write_text("")
    alone = save_model(tmp_path / "alone.pt", no_cross_attention=True)
    state = torch.load(trained.path)
    state["model"] = torch.load(alone)["model"]
    torch.save(state, tmp_path / "mixed.pt")
    good = ["--data", trained.data, "--sentence", SENTENCE]
    cases = [
        (["--data", tmp_path, "--sentence", "a"], "has no files such as train.en-de.en.idx"),
        (["--data", tmp_path / "gone", "--sentence", "a"], "has no files such as"),
        (["--data", bare, "--sentence", "a"], "bare has no dictionary dict.xx.txt"),
        (["--data", data, "--sentence", "a"], "does not fit"),
        (["--data", trained.data, "--sentence", "  "], "the sentence is empty"),
        ([*good, "--translation", ""], "the translation is empty"),
        (["--data", trained.data, "--sentence", "w01 " * 32], "33 tokens"),
        ([*good, "--translation", "w01 " * 32], "33 tokens"),
        ([*good, "--layer", 3], "--layer 3: this decoder has 2"),
        ([*good, "--spm", tmp_path / "gone.model"], "gone.model is not a SentencePiece model"),
        ([*good, "--spm", tmp_path / "no.model"], "no.model is not a SentencePiece model"),
        ([*good, "--beam", 0], "--beam: must be at least 1"),
        ([*good, "--lenpen", "nan"], "--lenpen: must be a number"),
    ]
    arguments = ["attention", trained.path, "-o", tmp_path / "a.png"]
    for options, said in cases:
        refused(said, "plot", *arguments, *options)
    mixed = ["attention", tmp_path / "mixed.pt", "-o", tmp_path / "a.png", *good]
    refused("does not fit", "plot", *mixed)
    assert not (tmp_path / "a.png").exists()


def test_pieces_are_made_as_for_the_data(trained, corpus, tmp_path):
    """By a model that is named, or by the one beside the dictionaries and what is decided there."""
    text = corpus.text / "train.xx"
    spm = train_subwords(text.read_text().splitlines(), tmp_path / "spm", 20)
    named = cross_attention(trained.path, trained.data, "w01 w02", spm)
    assert named.source[-1] == "</s>" and len(named.source) > 3
    data = tmp_path / "data"
    shutil.copytree(trained.data, data)
    TextSettings("xx", "yy", True, spm).save(data)
    stored = cross_attention(trained.path, data, "w01\u00a0w02", translation="w01")
    assert stored.source == named.source and len(stored.target) > 2
    # from what was the target when the data were made: English moves the comma
    line = '"w01", w02'
    quoted = train_subwords([line] * 20, tmp_path / "quoted", 14)
    TextSettings("en", "xx", True, quoted).save(data)
    turned = cross_attention(trained.path, data, line, translation=line)
    assert len(turned.source) == len(Subwords(quoted).encode(line).split()) + 1
    assert len(turned.target) == len(Subwords(quoted).encode('"w01," w02').split()) + 1
    assert len(turned.source) != len(turned.target)
