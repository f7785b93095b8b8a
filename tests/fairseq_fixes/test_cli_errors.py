"""What a user can mend ends in one line and a non-zero exit, and no checkpoint runs code."""

import os
import shutil

import pytest
import torch
from fairseq_programs import call, load, refusal, train, training

SHORT = ("--batch-size", 8, "--max-epoch", 1)
BOTH = ("--restore-file", "--finetune-from-model")


class _Command:
    """Pickled, it asks whoever loads it to run a shell command."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.fixture(scope="module")
def transformer(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("transformer")
    train(corpus.data, folder, *SHORT, "--arch", "transformer", "--encoder-attention-heads", 2)
    return folder / "checkpoint_last.pt"


def test_code_in_a_checkpoint(trained, tmp_path):
    path, witness = tmp_path / "bad.pt", tmp_path / "witness"
    torch.save({**load(trained.path), "extra": _Command(f"touch {witness}")}, path)
    assert refusal("generate", trained.data, "--path", path, "--cpu") == (
        f"{path} is no checkpoint, or one that carries more than data (such as code): refused, "
        "and nothing in it was run"
    )
    assert not witness.exists()
    torch.load(path, weights_only=False)  # what was refused would have run
    assert witness.exists()


def test_missing_checkpoint(trained, tmp_path):
    path = tmp_path / "none.pt"
    assert refusal("generate", trained.data, "--path", path, "--cpu") == (
        f"Model file not found: {path}: give a checkpoint that is there"
    )


def test_missing_dictionary(trained, tmp_path):
    said = refusal("generate", tmp_path, "-s", "xx", "-t", "yy", "--path", trained.path, "--cpu")
    assert said == f"{tmp_path}/dict.xx.txt: No such file or directory"


@pytest.mark.parametrize("option", BOTH)
def test_checkpoint_of_other_sizes(trained, transformer, tmp_path, option):
    wider = ("--encoder-embed-dim", 24)
    for path, options in ((trained.path, wider), (transformer, ())):
        options = (*SHORT, *options, option, path)
        said = refusal("train", *training(trained.data, tmp_path / "on", *options))
        assert said.startswith(f"{path} does not fit the model: it was trained with another arch")


def test_checkpoint_without_the_optimizers_state(trained, tmp_path):
    """It is never continued as if its warm-up had not been yet; its weights can be had."""
    state = load(trained.path)
    state.pop("last_optimizer_state")
    path = tmp_path / "averaged.pt"
    torch.save(state, path)
    options = training(trained.data, tmp_path / "on", *SHORT, "--restore-file", path)
    assert refusal("train", *options).startswith(f"{path} has no state of an optimizer, so train")
    assert not list((tmp_path / "on").glob("*.pt"))
    more = ("--batch-size", 8, "--max-epoch", 13)
    for options in (["--finetune-from-model", path], ["--restore-file", path, "--reset-optimizer"]):
        save_dir = tmp_path / options[0]
        train(trained.data, save_dir, *more, *options)
        assert (save_dir / "checkpoint_last.pt").exists()


def test_a_transformer_is_loaded_as_ever(transformer, corpus):
    """The repairs are for every model of fairseq."""
    options = (corpus.data, "--path", transformer, "--cpu", "--model-overrides")
    said = refusal("generate", *options, "{'encoder_layers': \"open('x')\"}")
    assert said.startswith(f"{transformer}: its option encoder_layers is \"open('x')\", which")
    assert call("generate", *options, "{}").out.count("\nH-") == corpus.sizes["test"]


def test_long_sentence(trained):
    """5,000 words for a model of 32 positions: plain numbers, whatever NumPy prints, and the
    option."""
    text = " ".join(["w01"] * 5000) + "\n"
    said = refusal("interactive", trained.data, "--path", trained.path, "--cpu", stdin=text)
    assert said.startswith(
        "sentence 0 has more tokens (5001, 0) than the model has positions "
        "(32, 32): train with a higher --max-source-positions and --max-target-positions"
    )


def test_unknown_architecture(corpus, tmp_path):
    said = refusal("train", *training(corpus.data, tmp_path, *SHORT, "--arch", "resmlp_mt_7"))
    assert "resmlp_mt_7" in said and "resmlp_mt_6" in said


def test_save_dir_below_a_file(corpus, tmp_path):
    (tmp_path / "file").write_text("")
    save_dir = tmp_path / "file" / "save"
    said = refusal("train", *training(corpus.data, save_dir, *SHORT))
    assert said == f"{save_dir}: Not a directory"


def test_missing_data(tmp_path, corpus):
    data = tmp_path / "data"
    shutil.copytree(corpus.data, data)
    for path in data.glob("train*"):
        path.unlink()
    said = refusal("train", *training(data, tmp_path / "save", *SHORT))
    assert said == f"Dataset not found: train ({data})"
