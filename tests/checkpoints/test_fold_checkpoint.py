"""A folded checkpoint translates as before, and does nothing else."""

from argparse import Namespace
from pathlib import Path

import pytest
import torch
from command import refused, resmlp
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq_programs import call, generate, load, refusal, train, training, weights

from resmlp_mt.checkpoints.folding import fold_checkpoint
from resmlp_mt.checkpoints.rebuilding import rebuild
from resmlp_mt.decoding.folding import is_folded
from resmlp_mt.errors import UserError

SHORT = ("--batch-size", 8, "--max-epoch", 1)
LONGER = ("--batch-size", 8, "--max-epoch", 13)


@pytest.fixture(scope="module")
def folded(trained, tmp_path_factory):
    """The small trained model, folded."""
    path = tmp_path_factory.mktemp("folded") / "folded.pt"
    assert fold_checkpoint(trained.path, path) == 0
    return path


def printed_hypotheses(out):
    """fairseq-generate's hypotheses with their scores, to the last digit."""
    return sorted(line for line in out.splitlines() if line.startswith(("H-", "P-")))


def test_same_translations(trained, folded, corpus):
    """To the last digit: fairseq-generate would have folded the maps by itself."""
    options = ("--nbest", 4, "--batch-size", 4)
    before, after = (
        printed_hypotheses(generate(trained.data, path, *options))
        for path in (trained.path, folded)
    )
    assert len(before) == 2 * 4 * corpus.sizes["test"]
    assert after == before


def test_interactive_and_precision(trained, folded):
    """fairseq-interactive reads it, too, and a reduced precision finds it folded."""
    text = "w01 w02 w03\nw04\n"
    for overrides in ({}, {"inference_precision": "int8"}, {"inference_precision": "bfloat16"}):
        options = ("--beam", 4, "--cpu", "--model-overrides", str(overrides))
        before, after = (
            printed_hypotheses(
                call("interactive", trained.data, "--path", path, *options, stdin=text).out
            )
            for path in (trained.path, folded)
        )
        assert len(before) == 4 and after == before


def test_what_is_in_it(trained, folded):
    """Neither affine maps nor the optimizer's state, and everything else."""
    before, after = load(trained.path), load(folded)
    assert any(name.endswith("alpha") for name in before["model"])
    assert not any(name.endswith(("alpha", "beta")) for name in after["model"])
    assert "last_optimizer_state" in before and "last_optimizer_state" not in after
    assert before.keys() - after.keys() == {"last_optimizer_state"}
    assert not before["cfg"]["model"].folded
    assert vars(after["cfg"]["model"]) == {**vars(before["cfg"]["model"]), "folded": True}
    assert folded.stat().st_size < trained.path.stat().st_size
    assert sorted(path.name for path in folded.parent.iterdir()) == ["folded.pt"]


def test_options_saved_by_hydra(trained, folded, tmp_path):
    """There they are a dictionary, not a namespace."""
    state = load(trained.path)
    state["cfg"]["model"] = vars(state["cfg"]["model"])
    torch.save(state, tmp_path / "hydra.pt")
    assert fold_checkpoint(tmp_path / "hydra.pt", tmp_path / "out.pt") == 0
    after, expected = load(tmp_path / "out.pt"), weights(folded)
    assert after["cfg"]["model"]["folded"] is True
    assert after["model"].keys() == expected.keys()
    assert all(torch.equal(after["model"][name], expected[name]) for name in expected)


def test_maps_that_stay(corpus, tmp_path):
    """Adaptive softmax keeps the decoder's last one; the model translates as before."""
    train(
        corpus.data,
        tmp_path,
        *(*SHORT, "--adaptive-softmax-cutoff", "10,20"),
        criterion=("--criterion", "adaptive_loss", "--ddp-backend", "legacy_ddp"),
    )
    whole, output = tmp_path / "checkpoint_last.pt", tmp_path / "out.pt"
    said = resmlp("fold", whole, "--output", output)
    assert said.status == 0 and said.out.startswith(f"{output}: 1 affine maps left, ")
    before, after = (printed_hypotheses(generate(corpus.data, path)) for path in (whole, output))
    assert before and after == before


def test_refusals(trained, folded, tmp_path):
    """One line, and nothing is written."""
    state = load(trained.path)
    (tmp_path / "truncated.pt").write_bytes(trained.path.read_bytes()[:5000])
    transformer = {"encoder.layers.0.self_attn.k_proj.weight": torch.zeros(2, 2)}
    cfg = {"model": Namespace(arch="transformer")}
    torch.save({"model": transformer, "cfg": cfg}, tmp_path / "transformer.pt")
    torch.save({"model": transformer, "args": Namespace()}, tmp_path / "old.pt")
    headless = {n: w for n, w in state["model"].items() if "embed_tokens" not in n}
    torch.save({**state, "model": headless}, tmp_path / "headless.pt")
    out = tmp_path / "out.pt"
    for path, said in (
        (tmp_path / "truncated.pt", "is damaged"),
        (folded, "is folded, its affine maps"),
        (tmp_path / "old.pt", "is a checkpoint of another model"),
        (tmp_path / "transformer.pt", "is a checkpoint of another model"),
        (tmp_path / "headless.pt", "does not fit its own options"),
        (tmp_path / "missing.pt", "No such file or directory"),
    ):
        refused(said, "fold", path, "--output", out)
    before = trained.path.read_bytes()
    refused("is the input", "fold", trained.path, "--output", trained.path)
    assert trained.path.read_bytes() == before
    refused("is a folder", "fold", trained.path, "--output", tmp_path)
    assert not out.exists()


def test_a_full_disk(trained, tmp_path, monkeypatch):
    def full(state, path):
        Path(path).write_bytes(b"half")
        raise RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed")

    monkeypatch.setattr(torch, "save", full)
    refused("file write failed", "fold", trained.path, "--output", tmp_path / "folded.pt")
    assert not list(tmp_path.iterdir())


def test_a_folded_model_does_not_train(trained, folded):
    (model,), _, _ = load_model_ensemble_and_task([str(folded)], {"data": str(trained.data)})
    assert is_folded(model) and not model.training
    with pytest.raises(UserError, match="only translates: train on with the checkpoint it was"):
        model.train()
    assert model.eval() is model and not model.training
    plain = rebuild(load(trained.path))
    assert plain.train().training and not is_folded(plain)


@pytest.mark.parametrize("option", ["--restore-file", "--finetune-from-model"])
def test_training_does_not_resume_from_it(corpus, folded, tmp_path, option):
    words = training(corpus.data, tmp_path, *LONGER, option, folded)
    assert refusal("train", *words).startswith(f"{folded} does not fit the model")
    assert "a folded model only translates" in refusal("train", *words, "--folded")
    assert not list(tmp_path.iterdir())
