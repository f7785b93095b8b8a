"""On a device that is not the CPU: no operation mixes two devices, numbers are of the usual types,
and all weights get gradients.

The device is made up. Its tensors have a shape, a type and a place, and no values: reading one of
them on the host raises an error.
"""

import pytest
import torch
from helpers import build_model
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from resmlp_mt.decoding.search import ResMLPGenerator
from resmlp_mt.model.folding import fold_
from resmlp_mt.model.mixing_kinds import TOKEN_MIXING

DEVICE = "madeup"
STEPS = 7


@pytest.fixture(scope="module")
def device():
    backend_registration._setup_privateuseone_for_python_backend(DEVICE)


@pytest.fixture
def fake(device, monkeypatch):
    """What PyTorch does with modules of real tensors alone, for made-up ones."""

    def double(self):
        for module in self.modules():
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    module._parameters[name] = nn.Parameter(parameter.double())
        return self

    monkeypatch.setattr(nn.Module, "double", double)
    monkeypatch.setattr(FakeTensorMode, "__deepcopy__", lambda self, memo: self, raising=False)
    with FakeTensorMode() as mode:
        yield mode


class Types(TorchDispatchMode):
    """The libraries of operations that are used, and the types of their results."""

    def __init__(self):
        super().__init__()
        self.libraries, self.dtypes = set(), set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.libraries.add(func.namespace)
        self.dtypes |= {x.dtype for x in tree_leaves(out) if isinstance(x, torch.Tensor)}
        return out


def build(kind, dtype=torch.float16):
    torch.set_default_dtype(dtype)
    try:
        with torch.device(DEVICE):
            return build_model(
                token_mixing=kind, randomize=False, dropout=0.1, encoder_layers=1, decoder_layers=1
            )
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
@pytest.mark.parametrize("kind", TOKEN_MIXING)
def test_training_folding_and_decoding(kind, fake):
    model, dictionary = build(kind)
    with Types() as used:
        train_and_decode(model, dictionary)
    assert used.libraries <= {"aten", "prim"}  # prim says which device a tensor is on
    # folding computes in float64, scores are float32
    numbers = {torch.float16, torch.float32, torch.float64}
    assert used.dtypes - numbers <= {torch.int64, torch.int32, torch.bool}


def train_and_decode(model, dictionary):
    source, prev = (torch.randint(4, 50, (3, n), device=DEVICE) for n in (7, 6))
    logits, _ = model.train()(source, None, prev)
    logits.float().log_softmax(-1).sum().backward()
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert (gradient.device.type, gradient.dtype) == (DEVICE, torch.float16), name
    fold_(model.eval())
    generator = ResMLPGenerator([model], dictionary, beam_size=3, max_len_b=STEPS)
    with torch.inference_mode():
        found = generator._beam_search({"src_tokens": source}, dictionary.eos())
    assert (found.words.device.type, found.words.shape) == (DEVICE, (9,))
