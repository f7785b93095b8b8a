"""Linear layers with a packed weight: what they give, and when the plain weight is read."""

import pickle
from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
from helpers import build_model, gap, pad_batch, random_sentences
from torch import nn

from resmlp_mt.decoding import packing
from resmlp_mt.decoding.packing import FEW, PackedLinear, pack_
from resmlp_mt.model.folding import fold_

GENERATION = SimpleNamespace(generation=SimpleNamespace(beam=4))
pytestmark = pytest.mark.skipif(not packing.available(), reason="no oneDNN for this CPU")


@pytest.fixture
def linear():
    torch.manual_seed(1)
    return nn.Linear(24, 40)


@pytest.fixture
def packed_products(monkeypatch):
    """The number of rows of each product of a packed weight."""
    rows, multiply = [], torch.ops.mkldnn._linear_pointwise

    def counted(x, *others):
        rows.append(len(x))
        return multiply(x, *others)

    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", counted)
    return rows


def on_a_cpu(monkeypatch, intel):
    monkeypatch.setattr(packing, "made_by_intel", lambda: intel)


@pytest.mark.parametrize(
    "shape, products",
    [
        *(((1, 24), [1]), ((4, 24), [4]), ((100, 24), [128]), ((7, 5, 24), [64])),
        *(((0, 24), [1]), ((2, 300, 24), [256, 256, 128])),
    ],
)
@pytest.mark.parametrize("bias", [True, False])
def test_is_the_linear_layer(shape, products, bias, packed_products, monkeypatch):
    """In products of few different numbers of rows: PyTorch remembers each number."""
    on_a_cpu(monkeypatch, intel=False)
    torch.manual_seed(1)
    linear, x = nn.Linear(24, 40, bias=bias), torch.randn(shape)
    with torch.no_grad():
        found, expected = PackedLinear(linear)(x), linear(x)
    assert found.shape == expected.shape and torch.allclose(found, expected, atol=1e-5)
    assert packed_products == products


def test_every_linear_layer_of_a_prepared_model(packed_products):
    """Its states are those of the model that is folded alone."""
    (model, dictionary), (folded, _) = build_model(), build_model()
    model.prepare_for_inference_(GENERATION)
    fold_(folded)
    kinds = [type(module) for module in model.modules()]
    assert nn.Linear not in kinds and kinds.count(PackedLinear) > 10
    source = pad_batch(random_sentences(dictionary, (4, 9, 6)), dictionary, left=True)
    words = pad_batch(random_sentences(dictionary, (4, 9, 6)), dictionary, left=False)
    with torch.no_grad():
        assert gap(model(source, None, words)[0], folded(source, None, words)[0]) < 1e-4
    assert len(packed_products) > 10 or packing.made_by_intel()


def test_many_rows_on_a_cpu_of_intel(linear, packed_products, monkeypatch):
    on_a_cpu(monkeypatch, intel=True)
    layer = PackedLinear(linear)
    with torch.no_grad():
        for rows in (FEW, FEW + 1):
            layer(torch.randn(rows, 24))
    assert packed_products == [FEW]


def test_gradients(linear, packed_products):
    x = torch.randn(4, 24, requires_grad=True)
    PackedLinear(linear)(x).sum().backward()
    assert gap(x.grad[0], linear.weight.detach().sum(0)) < 1e-5 and not packed_products


def converted(layer):
    return layer.double().float()


def pickled(layer):
    return pickle.loads(pickle.dumps(layer))


@pytest.mark.parametrize("change", [converted, deepcopy, pickled])
def test_packs_again(linear, change, packed_products):
    x, layer = torch.randn(4, 24), PackedLinear(linear)
    with torch.no_grad():
        expected = layer(x)
        changed = change(layer)
        assert gap(changed(x), expected) == 0
    assert packed_products == [4, 4] and changed.state_dict().keys() == {"weight", "bias"}


@torch.no_grad()
def test_other_numbers(linear, packed_products):
    layer = PackedLinear(linear)
    layer(torch.randn(4, 24))
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.randn(4, 24)).dtype == torch.bfloat16
    assert layer.double()(torch.randn(4, 24).double()).dtype == torch.float64
    assert packed_products == [4]


@pytest.mark.parametrize("change", [nn.Module.double, lambda layer: layer.to("meta")])
def test_where_there_is_nothing_to_pack(linear, change):
    model = change(nn.Sequential(linear))
    pack_(model)
    assert type(model[0]) is nn.Linear


def test_switched_off(linear):
    model = nn.Sequential(linear)
    with torch.backends.mkldnn.flags(enabled=False):
        pack_(model)
    assert type(model[0]) is nn.Linear
    pack_(model)
    assert type(model[0]) is PackedLinear
