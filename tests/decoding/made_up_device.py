"""On a device that is not the CPU: no operation mixes two devices, and all weights get gradients.

The device is made up. Its tensors have a shape, a type and a place, and no values: reading one of
them on the host raises an error.
"""

import pytest
import torch
from helpers import build_model
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import backend_registration

from resmlp_mt.decoding.search import ResMLPGenerator
from resmlp_mt.model.folding import fold_
from resmlp_mt.model.mixing_kinds import TOKEN_MIXING

DEVICE = "madeup"


backend_registration._setup_privateuseone_for_python_backend(DEVICE)


@pytest.fixture
def fake(monkeypatch):
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


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
@pytest.mark.parametrize("kind", TOKEN_MIXING)
def test_training_folding_and_decoding(kind, fake):
    torch.set_default_dtype(torch.float16)
    try:
        with torch.device(DEVICE):
            model, dictionary = build_model(
                token_mixing=kind, randomize=False, dropout=0.1, encoder_layers=1, decoder_layers=1
            )
    finally:
        torch.set_default_dtype(torch.float32)
    source, prev = (torch.randint(4, 50, (3, n), device=DEVICE) for n in (7, 6))
    logits, _ = model.train()(source, None, prev)
    logits.float().log_softmax(-1).sum().backward()
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert (gradient.device.type, gradient.dtype) == (DEVICE, torch.float16), name
    fold_(model.eval())
    generator = ResMLPGenerator([model], dictionary, beam_size=3, max_len_b=7)
    with torch.inference_mode():
        found = generator._beam_search({"src_tokens": source}, dictionary.eos())
    assert (found.words.device.type, found.words.shape) == (DEVICE, (9,))
