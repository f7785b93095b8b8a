"""Linear layers with a packed weight: the same products, and never those of an older weight."""

from types import SimpleNamespace

import pytest
import torch
from helpers import build_model, gap, pad_batch, random_sentences
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import prune

from resmlp_mt.model import packing
from resmlp_mt.model.inference import fold_
from resmlp_mt.model.packing import FEW, PackedLinear, pack_

GENERATION = SimpleNamespace(generation=SimpleNamespace(beam=4))
pytestmark = pytest.mark.skipif(not packing.available(), reason="no oneDNN for this CPU")


@pytest.fixture
def layer():
    torch.manual_seed(1)
    return PackedLinear(nn.Linear(24, 40))


@pytest.fixture
def packed_products(monkeypatch):
    """The number of rows of each product of a packed weight."""
    rows, multiply = [], torch.ops.mkldnn._linear_pointwise

    def counted(x, *others):
        rows.append(len(x))
        return multiply(x, *others)

    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", counted)
    return rows


@pytest.fixture
def many_rows(monkeypatch):
    monkeypatch.setattr(packing, "faster_for_many_rows", lambda: True)


@pytest.mark.parametrize(
    "shape, products",
    [
        *(((1, 24), [1]), ((4, 24), [4]), ((100, 24), [128]), ((7, 5, 24), [64])),
        *(((0, 24), [1]), ((2, 300, 24), [256, 256, 128])),
    ],
)
@pytest.mark.parametrize("bias", [True, False])
def test_is_the_linear_layer(shape, products, bias, packed_products, many_rows):
    """In products of few different numbers of rows: PyTorch remembers each number."""
    linear, x = nn.Linear(24, 40, bias=bias), torch.randn(shape)
    with torch.no_grad():
        found, expected = PackedLinear(linear)(x), linear(x)
    assert found.shape == expected.shape and torch.allclose(found, expected, atol=1e-5)
    assert packed_products == products


CHANGES = {
    "in place": lambda layer: layer.weight[3].add_(1),
    "pruned": lambda layer: prune.l1_unstructured(layer, "weight", amount=0.5),
    "another weight": lambda layer: setattr(layer, "weight", nn.Parameter(layer.weight + 1)),
    "another memory": lambda layer: setattr(layer.weight, "data", layer.weight.data + 1),
    "another type": lambda layer: layer.bfloat16().float(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_follows_its_weight(layer, change, mode):
    x = torch.randn(4, 24)
    with mode():
        before = layer(x)
    with torch.no_grad():
        CHANGES[change](layer)
    with mode():
        found = layer(x)
        assert torch.allclose(found, F.linear(x, layer.weight, layer.bias), atol=1e-5)
    assert not torch.allclose(found, before, atol=1e-5)


@torch.no_grad()
def test_every_linear_layer_of_a_prepared_model(packed_products, many_rows):
    (model, dictionary), (folded, _) = build_model(), build_model()
    model.prepare_for_inference_(GENERATION)
    fold_(folded)
    kinds = [type(module) for module in model.modules()]
    assert nn.Linear not in kinds and kinds.count(PackedLinear) > 10
    source = pad_batch(random_sentences(dictionary, (4, 9, 6)), dictionary, left=True)
    model(source, None, source)
    assert len(packed_products) == sum(isinstance(m, nn.Linear) for m in folded.modules())


@pytest.mark.parametrize("capability", ["AVX512", "AVX2"])
@pytest.mark.parametrize("maker", ["GenuineIntel", "AuthenticAMD"])
@torch.no_grad()
def test_many_rows(capability, maker, layer, packed_products, monkeypatch):
    """MKL multiplies them, but for a CPU of AMD with AVX-512."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(packing.Path, "read_text", lambda self: f"vendor_id : {maker}")
    uncached = packing.faster_for_many_rows.__wrapped__
    monkeypatch.setattr(packing, "faster_for_many_rows", uncached)
    for rows in (FEW, FEW + 1):
        layer(torch.randn(rows, 24))
    many = (capability, maker) == ("AVX512", "AuthenticAMD")
    assert packed_products == ([FEW, 32] if many else [FEW])


def test_where_the_plain_weight_is_read(layer, packed_products):
    """For gradients, under autocast, in another type, compiled, and where changes of it cannot be
    seen."""
    x = torch.randn(4, 24, requires_grad=True)
    layer(x).sum().backward()
    assert gap(x.grad[0], layer.weight.detach().sum(0)) < 1e-5
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
    with torch.no_grad():
        assert layer.double()(x.double()).dtype == torch.float64
    with torch.inference_mode():
        other = PackedLinear(nn.Linear(24, 40))
        before = other(x)
        other.weight.mul_(2)
        assert not torch.allclose(other(x), before)
    assert not packed_products
    graphs = []
    torch._dynamo.reset()
    compiled = torch.compile(layer.float(), backend=lambda g, _: graphs.append(g.code) or g.forward)
    with torch.no_grad():
        compiled(x)
    assert graphs and not any("mkldnn" in code for code in graphs)  # which no compiler knows


def test_where_there_is_nothing_to_pack():
    for change in (nn.Module.double, lambda layer: layer.to("meta"), nn.Module.float):
        model = change(nn.Sequential(nn.Linear(24, 40)))
        with torch.backends.mkldnn.flags(enabled=change != nn.Module.float):
            pack_(model)
        assert type(model[0]) is nn.Linear
    pack_(model)
    assert type(model[0]) is PackedLinear
