"""``--optimizer muon``: which weights are its matrices, and its steps, which are those of
kellerjordan.github.io/posts/muon, scaled to the size of Adam's as in Liu et al. (2025)."""

import copy
import runpy

import pytest
import torch
from fairseq_programs import LAST, load, train, unlike
from helpers import build_model
from torch import nn

import resmlp_mt.cpu
from resmlp_mt.muon import MATRIX, Muon, mark_matrices, orthogonal
from resmlp_mt_runtime.errors import UserError

LEARNED = {"token_positional_embeddings": True, "encoder_learned_pos": True}
LEARNED |= {"decoder_learned_pos": True, "share_all_embeddings": False}
PROJECTIONS = {"fc1", "fc2", "q_proj", "k_proj", "v_proj", "out_proj"}
HEADS = {"token_mixing_heads": 8, "max_target_positions": 8}
KINDS = {
    "the paper's": ({}, set()),
    "learned positions": (LEARNED, set()),
    "A of one row": ({"token_mixing": "toeplitz", "max_target_positions": 2}, set()),
    "a gate": ({"token_mixing": "gated", **HEADS}, {"value_gate", "output"}),
}


@pytest.mark.parametrize("options, more", KINDS.values(), ids=KINDS)
def test_matrices_are_what_the_layers_multiply_channels_by(options, more):
    shape = {"encoder_layers": 1, "decoder_layers": 1, "encoder_embed_dim": 32}
    shape |= {"decoder_embed_dim": 32, "encoder_ffn_embed_dim": 512, "decoder_ffn_embed_dim": 64}
    model, _ = build_model(vocabulary=40, **{**shape, **options})
    mark_matrices(model)
    marked = {name for name, w in model.named_parameters() if hasattr(w, "param_group")}
    assert {name.split(".")[-2] for name in marked} == PROJECTIONS | more
    assert all(name.split(".")[1] == "layers" and name.endswith(".weight") for name in marked)
    assert len(marked) == 2 + 6 + 2 * len(more)


def jordan(w, gradients, lr, weight_decay):
    """The published algorithm in float64, a weight after steps by these gradients."""
    w, momentum = w.detach().double(), torch.zeros(w.shape, dtype=torch.float64)
    for gradient in gradients:
        momentum = 0.95 * momentum + (1 - 0.95) * gradient.double()
        nesterov = 0.95 * momentum + (1 - 0.95) * gradient.double()
        x = nesterov.T if nesterov.size(0) > nesterov.size(1) else nesterov
        x = x / (x.norm() + 1e-7)
        for _ in range(5):
            square = x @ x.T
            x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
        x = x.T if nesterov.size(0) > nesterov.size(1) else x
        w = w * (1 - lr * weight_decay) - lr * 0.2 * max(w.shape) ** 0.5 * x
    return w


def test_steps_are_the_published_ones_and_adams(monkeypatch):
    monkeypatch.setattr("resmlp_mt.muon.CPU", {})  # no bfloat16
    matrices = [nn.Parameter(torch.randn(shape)) for shape in ((8, 16), (16, 8), (8, 8), (16, 8))]
    for w in matrices:
        w.param_group = MATRIX
    ours = [nn.Parameter(torch.randn(8)), *matrices, nn.Parameter(torch.randn(8, 8))]
    adams, before = copy.deepcopy([ours[0], ours[-1]]), copy.deepcopy(ours)
    gradients = [[torch.randn_like(w) * 100**step for w in ours] for step in range(4)]
    options = {"betas": (0.9, 0.98), "weight_decay": 0.1}
    muon, adam = Muon(ours, lr=0.02, **options), torch.optim.AdamW(adams, lr=0.02, **options)
    for one in gradients:
        for w, gradient in zip([*ours, *adams], [*one, one[0], one[-1]]):
            w.grad = gradient.clone()
        muon.step(), adam.step()
    assert torch.equal(ours[0], adams[0]) and torch.equal(ours[-1], adams[1])
    for number in range(1, 5):
        expected = jordan(before[number], [one[number] for one in gradients], 0.02, 0.1)
        assert (ours[number] - expected).abs().max() < 1e-4
    old = copy.deepcopy(ours)
    for w in ours:
        w.grad = None
    muon.step()
    assert all(map(torch.equal, ours, old))
    with pytest.raises(UserError, match="no weight is a matrix"):
        Muon(adams, lr=0.1)


def test_bfloat16_where_the_cpu_has_it(monkeypatch):
    x = torch.randn(2, 16, 64)
    amd, intel = ({"avx512_bf16": True, "cpu_name": name} for name in ("AMD EPYC", "Intel Xeon"))
    for cpu, has in (({}, False), ({"amx_bf16": True}, True), (amd, True), (intel, False)):
        monkeypatch.setattr("resmlp_mt.muon.CPU", cpu)
        y = orthogonal(x)
        assert torch.equal(y, y.bfloat16().float()) == has and y.dtype == x.dtype
        assert torch.linalg.svdvals(y).min() > 0.3 and torch.linalg.svdvals(y).max() < 1.4
    assert orthogonal(torch.zeros_like(x)).isfinite().all()


def test_an_older_pytorch_does_not_know_the_cpu(monkeypatch):
    monkeypatch.delattr("torch.cpu.get_capabilities")
    assert runpy.run_path(resmlp_mt.cpu.__file__)["CPU"] == {}


def test_a_resumed_training_is_the_same(corpus, tmp_path):
    options = ("--max-tokens", 200, "--optimizer", "muon", "--lr", 0.01, "--weight-decay", 0.1)
    train(corpus.data, tmp_path / "whole", *options, "--max-update", 6)
    for updates in (3, 6):
        train(corpus.data, tmp_path / "parts", *options, "--max-update", updates)
    assert unlike(tmp_path / "whole" / LAST, tmp_path / "parts" / LAST) == []
    (group,) = load(tmp_path / "whole" / LAST)["last_optimizer_state"]["param_groups"]
    assert group["weight_decay"] == 0.1
