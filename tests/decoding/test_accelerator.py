"""On a device that is not the CPU: no operation mixes two devices, and all weights get gradients.

The device is made up. Its tensors have a shape, a type and a place, and no values: reading one of
them on the host raises an error. It needs a process of its own, because it stays registered, and
autograd asks for the devices once, before the first gradient.
"""

from pathlib import Path
from unittest import mock

import torch
from fairseq_programs import process
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import backend_registration

DEVICE = "madeup"


def test_on_a_made_up_device():
    done = process(__file__, path=Path(__file__).parents[1])
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
    assert (found.words.device.type, found.words.shape) == (DEVICE, (9,))


if __name__ == "__main__":
    from helpers import TOKEN_MIXING, build_model

    from resmlp_mt.decoding.search import ResMLPGenerator
    from resmlp_mt.model.folding import fold_

    backend_registration._setup_privateuseone_for_python_backend(DEVICE)
    FakeTensorMode.__deepcopy__ = lambda self, memo: self
    with mock.patch.object(nn.Module, "double", double), FakeTensorMode():
        for kind in TOKEN_MIXING:
            train_fold_and_decode(kind)
