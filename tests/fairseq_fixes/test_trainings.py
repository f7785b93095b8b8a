"""Trainings that diverge, the types they compute with, checkpoints that are whole on the disk."""

import errno
import inspect
import math
import os
import re
import shutil
import signal
from types import SimpleNamespace
from unittest import mock

import fairseq.trainer
import pytest
import torch
from command import files_up_to
from fairseq import checkpoint_utils
from fairseq.criterions import FairseqCriterion
from fairseq.file_io import PathManager
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq_programs import LAST, load, refusal, train, training, values
from helpers import build_model, inputs
from processes import Forked

from resmlp_mt.autocast import AUTOCAST
from resmlp_mt.fairseq_fixes import trainings
from resmlp_mt_runtime.errors import UserError


def test_divergence_ends_in_one_line(corpus, tmp_path):
    short = ("--batch-size", 8, "--max-update", 3, "--no-save")
    options = training(corpus.data, tmp_path, *short, "--lr", 1e8, criterion=())
    said = refusal("train", *options)
    assert said.startswith("training has diverged: the gradients of update ")
    assert f"{tmp_path}/crash.pt" in said and (tmp_path / "crash.pt").exists()
    assert said.endswith("lower --lr, raise --warmup-updates, or set --clip-norm")


def test_no_optimizer(corpus, tmp_path):
    words = training(corpus.data, tmp_path, "--batch-size", 8)
    place = words.index("--optimizer")
    said = refusal("train", *words[:place], *words[place + 2 :])
    assert said.startswith("optimizer is required!")


# of several workers fairseq compares the norms first, and prints them
NORMS = "Fatal error: gradients are inconsistent between workers.\ngrad_norm across the workers:\n"
assert NORMS.splitlines()[1] in inspect.getsource(fairseq.trainer)
NOT_FINITE = "gradients of update 7 are not finite (the weights before it: save/crash.pt)"


@pytest.mark.parametrize(
    "text, said",
    [
        (f"{NORMS}rank   0 = nan", NOT_FINITE),
        (f"{NORMS}rank   0 = inf", NOT_FINITE),
        ("AMP: Minimum loss scale reached (0.0001).", "the minimum loss scale is reached"),
        ("division by zero", ""),
        (f"{NORMS}rank   0 = 1.25000000", ""),
    ],
)
def test_what_is_explained(text, said):
    checkpoint = SimpleNamespace(save_dir="save")
    trainer = SimpleNamespace(get_num_updates=lambda: 6, cfg=SimpleNamespace(checkpoint=checkpoint))
    with pytest.raises(UserError if said else FloatingPointError, match=re.escape(said or text)):
        trainings.train_step(mock.Mock(side_effect=FloatingPointError(text)), trainer)


@pytest.mark.parametrize("kind, twice", [("linear", False), ("gated", False), ("gated", True)])
def test_products_are_bfloat16_and_gradients_float32(kind, twice, monkeypatch):
    """Also if a layer is computed twice, to save memory."""
    model, dictionary = build_model(token_mixing=kind, std=0.1, checkpoint_activations=twice)
    seen, gradients = [], []
    watched = model.decoder.layers[0].feed_forward.fc1
    watched.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))

    class Criterion(FairseqCriterion):
        def forward(self, model, sample):
            logits, _ = model(*inputs(dictionary))
            return logits.float().logsumexp(-1).square().mean(), 1, {}

    def step(precision):
        monkeypatch.setenv(AUTOCAST, precision)
        model.zero_grad()
        optimizer = SimpleNamespace(backward=lambda loss: loss.backward())
        loss, _, _ = FairseqTask.train_step(None, {}, model, Criterion(None), optimizer, 0)
        of_all = [parameter.grad for parameter in model.parameters()]
        assert {loss.dtype, *(gradient.dtype for gradient in of_all)} == {torch.float32}
        gradients.append(torch.cat([gradient.flatten() for gradient in of_all]))

    step("")
    step("bfloat16")
    times = 2 if twice else 1
    assert seen == [torch.float32] * times + [torch.bfloat16] * times
    assert not torch.equal(*gradients)
    assert torch.cosine_similarity(*gradients, dim=0) > 0.99
    with pytest.raises(UserError, match=f"{AUTOCAST}=float16: only bfloat16"):
        step("float16")
    monkeypatch.delenv(AUTOCAST)
    with torch.autocast("cpu", torch.float16):  # of --amp, or the user's own
        logits, _ = model(*inputs(dictionary))
    logits.float().sum().backward()
    assert seen[2 * times :] == [torch.float16] * times


def save(source, target):
    return checkpoint_utils.torch_persistent_save(torch.load(source), str(target))


def copy(source, target):
    return PathManager.copy(str(source), str(target), overwrite=True)


def half_of(then):
    """Stands for ``torch.save`` or ``shutil.copyfile``: something happens in the middle of it."""

    def write(source, target):
        file = open(target, "wb") if isinstance(source, str) else target  # noqa: SIM115
        file.write(b"PK half of it")
        file.flush()
        then()

    return write


@pytest.mark.parametrize("write, replaced", [(copy, (shutil, "copyfile")), (save, (torch, "save"))])
def test_the_middle_of_a_write(tmp_path, monkeypatch, write, replaced):
    """The file that was there is there still; once there is room it is replaced."""
    old, new = tmp_path / LAST, tmp_path / "checkpoint_1_3.pt"
    torch.save({"model": 1.0}, old)
    torch.save({"model": 2.0}, new)
    with monkeypatch.context() as patch:
        patch.setattr(*replaced, half_of(lambda: os.kill(os.getpid(), signal.SIGKILL)))
        assert Forked(lambda: write(new, old), tmp_path / "log").wait() == -signal.SIGKILL
        assert torch.load(old)["model"] == 1.0 and len(list(tmp_path.glob("*.tmp"))) == 1
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        patch.setattr(*replaced, half_of(mock.Mock(side_effect=full)))
        with pytest.raises(UserError, match=f"{LAST} could not be written .No space left on devic"):
            write(new, old)
        assert torch.load(old)["model"] == 1.0 and not list(tmp_path.glob("*.tmp"))
    write(new, old)
    assert torch.load(old)["model"] == torch.load(new)["model"] == 2.0


@pytest.mark.parametrize("most, together", [(20, 1), (100, 1), (10, 2)])
def test_another_max_tokens(corpus, tmp_path, most, together):
    """The same share of the epoch has been read, whatever the batches are, and its rest is once."""
    found = []
    for tokens, *until in ((50, "--max-update", 4), (most, "--max-update", 5), (most,)):
        frequency = together if found else 1
        options = ("--max-tokens", tokens, "--update-freq", frequency, "--max-epoch", 1, *until)
        log = train(corpus.data, tmp_path, *options).log
        position = load(tmp_path / LAST)["extra_state"]["train_iterator"]
        found += position["iterations_in_epoch"], position["batches"]
    first, before, second, now, *_ = found
    assert first == 4 < before != now and second == first * now // before + together
    assert len(values(log, "loss")) == math.ceil((now - second) / together)


def test_no_room_for_a_checkpoint(tmp_path):
    """Files may grow to half of it. PyTorch raises an error of its own over the system's."""
    with files_up_to(1 << 20), pytest.raises(UserError, match="File too large.: make room"):
        checkpoint_utils.torch_persistent_save({"w": torch.ones(1 << 19)}, f"{tmp_path}/a.pt")
    assert not list(tmp_path.iterdir())
