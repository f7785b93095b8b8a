"""Training and the encoder are one graph each to ``torch.compile``."""

import pytest
import torch
from helpers import build_model, pad_batch, random_sentences

# the others have other numbers of layers, which this test sets
ARCHITECTURES = ("resmlp_mt_6", "resmlp_mt_toeplitz_6", "resmlp_mt_gated_6", "resmlp_mt_conv_6")


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_one_graph_for_training_and_for_the_encoder(arch):
    model, dictionary = build_model(arch, decoder_layers=1, encoder_layers=1, dropout=0.1)
    source = pad_batch(random_sentences(dictionary, (3, 7, 5)), dictionary, left=True)
    prev = pad_batch(random_sentences(dictionary, (4, 2, 6), 1), dictionary)
    torch._dynamo.reset()
    compiled = torch.compile(model.train(), fullgraph=True, backend="eager")
    loss = compiled(source, None, prev)[0].float().log_softmax(-1).sum()
    loss.backward()
    assert all(p.grad is not None for p in model.parameters())
    model.eval()
    encode = torch.compile(model.encoder, fullgraph=True, backend="eager")
    with torch.no_grad():
        (expected,), (found,) = (f(source)["encoder_out"] for f in (model.encoder, encode))
    torch.testing.assert_close(found, expected)
