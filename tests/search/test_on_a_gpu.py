"""A GPU computes what the CPU does, where there is one; nothing waits for tensors of a device."""

from types import SimpleNamespace

import pytest
import torch
from helpers import TOKEN_MIXING, build_model, gap
from test_search import batch_of

from resmlp_mt.model.inference import fold_
from resmlp_mt.search.beam_search import ResMLPGenerator


def compute(kind, device, dtype=torch.float32, std=0.3):
    """Logits, gradients, and every hypothesis of our search: its tokens and scores."""
    model, dictionary = build_model(token_mixing=kind, std=std)
    model.to(device, dtype)
    batch = batch_of(dictionary, (10, 2, 5, 12))
    source = batch["net_input"]["src_tokens"].to(device)
    logits, _ = model(source, None, source.roll(1, 1))
    logits.float().logsumexp(-1).sum().backward()
    gradients = [parameter.grad.cpu().float() for parameter in model.parameters()]
    model.prepare_for_inference_(SimpleNamespace(generation=SimpleNamespace(beam=4)))
    generator = ResMLPGenerator([model], dictionary, beam_size=4, max_len_b=20)
    found = generator.generate([model], {"net_input": {"src_tokens": source}})
    beams = [(h["tokens"].tolist(), h["positional_scores"]) for some in found for h in some]
    return [logits.detach().cpu().float(), *gradients], beams


on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@on_a_gpu
@pytest.mark.parametrize("kind", TOKEN_MIXING)
def test_a_gpu_computes_what_the_cpu_does(kind):
    """Without mixing the same tokens score the same in many orders: which is first is chance."""
    (here, beams), (there, others) = (compute(kind, device) for device in ("cpu", "cuda"))
    assert max(map(gap, there, here)) < 1e-4
    assert [tokens for tokens, _ in others] == [tokens for tokens, _ in beams]
    assert all(gap(b, a) < 1e-4 for (_, a), (_, b) in zip(beams, others))


@on_a_gpu
@pytest.mark.parametrize("kind", TOKEN_MIXING)
def test_half_precision_on_a_gpu_is_near(kind):
    """Which token is best may turn on the rounding, so that translations are only well-formed."""
    here, _ = compute(kind, "cpu", std=0.1)
    there, beams = compute(kind, "cuda", torch.float16, std=0.1)
    assert max(map(gap, there, here)) < 0.02
    assert all(tokens[-1] == 2 and scores.isfinite().all() for tokens, scores in beams)


@pytest.mark.parametrize("kind", TOKEN_MIXING)
def test_training_and_decoding_stay_on_the_device(kind):
    """A tensor of "meta" has no values: reading one, or mixing it with one of the CPU, fails."""
    with torch.device("meta"):
        model, dictionary = build_model(token_mixing=kind, randomize=False, dropout=0.1)
    source, prev = (torch.zeros(3, n, dtype=torch.long, device="meta") for n in (7, 6))
    logits, _ = model.half().train()(source, None, prev)
    logits.float().log_softmax(-1).sum().backward()
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert (gradient.device.type, gradient.dtype) == ("meta", torch.float16), name
    fold_(model.eval())
    generator = ResMLPGenerator([model], dictionary, beam_size=3, max_len_b=3)
    with torch.inference_mode():
        found = generator._beam_search({"src_tokens": source}, dictionary.eos(), None)
    assert (found.tokens.device.type, found.tokens.shape) == ("meta", (9,))
