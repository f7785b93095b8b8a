"""What a GPU would do, counted without one: all tensors on it, few launches, few waits. Where there
is one, it computes what the CPU does."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from fairseq_programs import process
from helpers import TOKEN_MIXING, build_model, gap
from test_search import batch_of
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from resmlp_mt.model import memory
from resmlp_mt.model.inference import fold_
from resmlp_mt.search import beam_search, candidates, hypotheses
from resmlp_mt.search.beam_search import ResMLPGenerator
from resmlp_mt.search.hypotheses import Hypotheses

# the host has to wait for what these give; tolist() calls resolve_conj, nothing else here does
WAITS = ("_local_scalar_dense", "equal", "is_nonzero", "masked_select", "nonzero", "resolve_conj")


class Operations(TorchDispatchMode):
    """Counts launches on a GPU and waits for one; views of the same memory are neither."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        memory, made = (
            {x.untyped_storage().data_ptr() for x in tree_leaves(tree) if torch.is_tensor(x)}
            for tree in ((args, kwargs), out)
        )
        name = func._schema.name.removeprefix("aten::")
        if name in WAITS or func._schema.is_mutable or not made or not made <= memory:
            self.counts[name] += 1
        return out


def operations_of(tokens: int, kind: str) -> Counter:
    """Operations of a search for that many tokens, with six layers of the paper."""
    model, dictionary = build_model(
        "resmlp_mt_6", decoder_layers=6, vocabulary=1500, std=0.1, token_mixing=kind
    )
    fold_(model)
    # no sentence ends before it has to
    bias = torch.zeros(len(dictionary)).index_fill_(0, torch.tensor(dictionary.eos()), -1e4)
    model.decoder.output_projection.bias = nn.Parameter(bias)
    generator = ResMLPGenerator([model], dictionary, beam_size=4, max_len_b=tokens)
    with Operations() as counted:
        generator.generate([model], batch_of(dictionary, (10, 2, 5, 12)))
    return counted.counts


@pytest.mark.parametrize("kind", ["linear", "toeplitz"])
def test_a_step_launches_few_operations(kind, monkeypatch):
    """8 steps wait once. The host puts the hypotheses together afterwards."""
    monkeypatch.setattr(memory.BeamHistory, "launch_bound", True)
    for module in (candidates, beam_search):
        monkeypatch.setattr(module, "in_chunks", lambda x: False)
    nothing = SimpleNamespace(not_finite=list, hypotheses=lambda length_penalty: [])
    monkeypatch.setattr(Hypotheses, "fetch", lambda self: nothing)
    few, many = (operations_of(tokens, kind) for tokens in (12, 20))
    asked = many - few
    assert asked.total() / 8 <= 114, asked
    assert sum(asked[name] for name in WAITS) == 1, asked


def test_results_come_by_one_transfer(monkeypatch):
    monkeypatch.setattr(hypotheses, "Fetched", lambda *kept: kept)
    found = Hypotheses(64, 4, 7, 50, 2, 2, torch.device("cpu"))
    with Operations() as counted:
        found.fetch()
    assert counted.counts.total() <= 20, counted.counts


def computed(kind, device):
    """Logits, gradients, and the translations by our search."""
    model, dictionary = build_model(token_mixing=kind)
    model.to(device)
    batch = batch_of(dictionary, (10, 2, 5, 12))
    source = batch["net_input"]["src_tokens"].to(device)
    logits, _ = model(source, None, source.roll(1, 1))
    logits.logsumexp(-1).sum().backward()
    gradients = [parameter.grad.cpu() for parameter in model.parameters()]
    model.prepare_for_inference_(SimpleNamespace(generation=SimpleNamespace(beam=4)))
    generator = ResMLPGenerator([model], dictionary, beam_size=4, max_len_b=20)
    found = generator.generate([model], {"net_input": {"src_tokens": source}})
    tokens = [hypothesis["tokens"].tolist() for beams in found for hypothesis in beams]
    return [logits.detach().cpu(), *gradients], tokens


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("kind", [kind for kind in TOKEN_MIXING if kind != "none"])
def test_a_gpu_computes_what_the_cpu_does(kind):
    """Without mixing the same tokens score the same in many orders: which is first is chance."""
    (here, tokens), (there, others) = (computed(kind, device) for device in ("cpu", "cuda"))
    assert max(map(gap, there, here)) < 1e-3
    assert others == tokens


DEVICE = "madeup"


def test_training_and_decoding_stay_on_a_made_up_device():
    """Reading one of its tensors on the host is an error, as they have no values. It stays
    registered, and autograd asks for devices only once, so it needs a process of its own."""
    done = process(__file__, path=Path(__file__).parents[1] / "support")
    assert done.returncode == 0, done.stderr


def double(module):
    """PyTorch's own way does not know made-up tensors."""
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None:
                part._parameters[name] = nn.Parameter(parameter.double())
    return module


def train_fold_and_decode(kind):
    torch.set_default_dtype(torch.float16)
    with torch.device(DEVICE):
        model, dictionary = build_model(
            token_mixing=kind, randomize=False, dropout=0.1, encoder_layers=1, decoder_layers=1
        )
    torch.set_default_dtype(torch.float32)
    source, prev = (torch.randint(4, 50, (3, n), device=DEVICE) for n in (7, 6))
    logits, _ = model.train()(source, None, prev)
    logits.float().log_softmax(-1).sum().backward()
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert (gradient.device.type, gradient.dtype) == (DEVICE, torch.float16), name
    fold_(model.eval())
    generator = ResMLPGenerator([model], dictionary, beam_size=3, max_len_b=3)
    with torch.inference_mode():
        found = generator._beam_search({"src_tokens": source}, dictionary.eos())
    assert (found.tokens.device.type, found.tokens.shape) == (DEVICE, (9,))


if __name__ == "__main__":
    backend_registration._setup_privateuseone_for_python_backend(DEVICE)
    FakeTensorMode.__deepcopy__ = lambda self, memo: self
    with mock.patch.object(nn.Module, "double", double), FakeTensorMode():
        for kind in TOKEN_MIXING:
            train_fold_and_decode(kind)
