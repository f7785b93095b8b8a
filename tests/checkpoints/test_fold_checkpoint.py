"""A folded checkpoint translates as before, from a smaller file, and does nothing else."""

from argparse import Namespace
from pathlib import Path

import pytest
import torch
from cli import RECIPE, SMALL_MODEL, call, console_script, generate, load, process, train, weights
from fairseq.checkpoint_utils import load_model_ensemble_and_task

from resmlp_mt.checkpoints.folding import fold_checkpoint
from resmlp_mt.checkpoints.rebuilding import rebuild
from resmlp_mt.cli.main import main
from resmlp_mt.compat.program_errors import explain
from resmlp_mt.errors import UserError
from resmlp_mt.inference.folding import is_folded

SHORT = ("--batch-size", 8, "--max-epoch", 1)
LONGER = ("--batch-size", 8, "--max-epoch", 13)


@pytest.fixture(scope="module")
def folded(trained, tmp_path_factory):
    """The small trained model, folded."""
    path = tmp_path_factory.mktemp("folded") / "folded.pt"
    assert fold_checkpoint(trained.path, path) == 0
    return path


def fold(*arguments):
    """Call ``resmlp-mt fold``; gives the exit status."""
    return main(["fold", *map(str, arguments)])


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


def test_the_command(trained, tmp_path, capsys):
    output = tmp_path / "out.pt"
    assert fold(trained.path, "-o", output) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{output}: no affine map left, ") and printed.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["out.pt"]


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


def test_maps_that_stay(corpus, tmp_path, capsys):
    """Adaptive softmax keeps the decoder's last one; the model translates as before."""
    train(
        corpus.data,
        tmp_path,
        *(*SHORT, "--adaptive-softmax-cutoff", "10,20"),
        criterion=("--criterion", "adaptive_loss", "--ddp-backend", "legacy_ddp"),
    )
    whole, output = tmp_path / "checkpoint_last.pt", tmp_path / "out.pt"
    assert fold(whole, "-o", output) == 0
    assert f"{output}: 1 affine maps left" in capsys.readouterr().out
    before, after = (printed_hypotheses(generate(corpus.data, path)) for path in (whole, output))
    assert before and after == before


@pytest.fixture
def unfit(trained, folded, tmp_path):
    """Files that cannot be folded, by name, and what is said of them."""
    state = load(trained.path)
    content = trained.path.read_bytes()
    (tmp_path / "truncated.pt").write_bytes(content[: len(content) // 2])
    (tmp_path / "twice.pt").write_bytes(folded.read_bytes())
    transformer = {"encoder.layers.0.self_attn.k_proj.weight": torch.zeros(2, 2)}
    cfg = {"model": Namespace(arch="transformer")}
    torch.save({"model": transformer, "cfg": cfg}, tmp_path / "transformer.pt")
    torch.save({"weights": transformer}, tmp_path / "foreign.pt")
    torch.save({"model": transformer, "args": Namespace()}, tmp_path / "old.pt")
    short = {name: w for name, w in state["model"].items() if not name.endswith("fc1.bias")}
    torch.save({**state, "model": short}, tmp_path / "short.pt")
    no_embedding = {n: w for n, w in state["model"].items() if "embed_tokens" not in n}
    torch.save({**state, "model": no_embedding}, tmp_path / "headless.pt")
    return {
        "truncated.pt": "is damaged or cut off",
        "twice.pt": "is folded already",
        "old.pt": "is a checkpoint of another model",
        "transformer.pt": "is a checkpoint of another model",
        "foreign.pt": "is not a fairseq checkpoint",
        "short.pt": "does not fit its own options",
        "headless.pt": "does not fit its own options",
        "missing.pt": "No such file or directory",
    }


def test_refusals(unfit, tmp_path, capsys):
    """One line, and nothing is written."""
    before = sorted(tmp_path.iterdir())
    for name, said in unfit.items():
        assert fold(tmp_path / name, "-o", tmp_path / "out.pt") == 1
        captured = capsys.readouterr()
        assert (
            captured.err.startswith(f"resmlp-mt fold: error: {tmp_path / name}")
            and said in captured.err
        )
        assert captured.err.count("\n") == 1 and not captured.out
        assert sorted(tmp_path.iterdir()) == before


def test_output_that_cannot_be_written(trained, tmp_path, capsys):
    (tmp_path / "folder").mkdir()
    for output in ("folder", "missing/folded.pt"):
        assert fold(trained.path, "-o", tmp_path / output) == 1
        said = capsys.readouterr().err
        assert (
            said.startswith(f"resmlp-mt fold: error: {tmp_path / output} ")
            and said.count("\n") == 1
        )
        assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


def test_a_full_disk(trained, tmp_path, monkeypatch, capsys):
    def full(state, path):
        Path(path).write_bytes(b"half")
        raise RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed")

    monkeypatch.setattr(torch, "save", full)
    assert fold(trained.path, "-o", tmp_path / "folded.pt") == 1
    assert "file write failed" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_folded_model_does_not_train(trained, folded):
    (model,), _, _ = load_model_ensemble_and_task([str(folded)], {"data": str(trained.data)})
    assert is_folded(model) and not model.training
    with pytest.raises(UserError, match="only translates: train on with the checkpoint it was"):
        model.train()
    assert model.eval() is model and not model.training
    plain = rebuild(load(trained.path))
    assert plain.train().training and not is_folded(plain)


@pytest.mark.parametrize(
    "options, said",
    [
        (["--restore-file"], "does not fit the model"),
        (["--finetune-from-model"], "does not fit the model"),
        (["--folded", "--restore-file"], "a folded model only translates"),
        (["--folded", "--finetune-from-model"], "a folded model only translates"),
    ],
    ids=lambda x: x[0] if isinstance(x, list) else "",
)
def test_training_does_not_go_on_from_it(corpus, folded, tmp_path, options, said):
    with pytest.raises(Exception) as caught:
        train(corpus.data, tmp_path, *LONGER, *options, folded)
    message = explain(caught.value)
    assert message is not None and said in message
    assert "only translates" in message or str(folded) in message
    assert not list(tmp_path.iterdir())


def test_exit_status_of_training(corpus, folded, tmp_path):
    """By a process of its own: exit status and stderr are what a shell sees."""
    result = process(
        *(console_script("train"), corpus.data, "--user-dir", "resmlp_mt", "--save-dir", tmp_path),
        *(*SMALL_MODEL, *RECIPE, *LONGER, "--restore-file", folded),
    )
    assert result.returncode not in (0, None)
    assert "Traceback" not in result.stdout + result.stderr
    last = result.stderr.splitlines()[-1]
    assert last.startswith(f"fairseq-train: error: {folded} does not fit the model")
    assert not list(tmp_path.iterdir())
