"""Options: what the model is made of, and what fairseq's own options do to it."""

from argparse import SUPPRESS, ArgumentParser, Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.modules import MultiheadAttention
from helpers import build_model, gap, model_options, pad_batch, random_sentences, shift
from omegaconf import OmegaConf

from resmlp_mt import ResMLPModel
from resmlp_mt.checkpoints import synthetic_dictionary
from resmlp_mt.model.architectures import ARCHITECTURES


def loss_of(model, dictionary):
    source = pad_batch(random_sentences(dictionary, (5, 9)), dictionary, left=True)
    targets = random_sentences(dictionary, (8, 6), seed=1)
    logits, _ = model(source, None, pad_batch([shift(s) for s in targets], dictionary))
    target = pad_batch(targets, dictionary).flatten()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), target, ignore_index=1)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_what_the_paper_leaves_out(arch):
    """No self-attention, no LayerNorm or other statistic, no positional embedding (but where
    convolutions are, which know no positions)."""
    model, _ = build_model(arch)
    placed = "conv" in arch
    for name, module in model.named_modules():
        assert "Norm" not in type(module).__name__, name
        assert placed or "Positional" not in type(module).__name__, name
        assert not isinstance(module, torch.nn.MultiheadAttention), name
        if isinstance(module, MultiheadAttention):
            assert name.startswith("decoder.") and not module.self_attention, name
            assert module.encoder_decoder_attention, name
    for side in (model.encoder, model.decoder):
        assert (side.embed_positions is not None) == placed


def test_command_line_options():
    """What is given, the architecture's, and the paper's."""
    parser = ArgumentParser(argument_default=SUPPRESS)  # as fairseq makes it
    ResMLPModel.add_args(parser)
    args = parser.parse_args(["--layerscale-init", "0.1"])
    ARCH_CONFIG_REGISTRY["resmlp_mt_tiny"](args)
    assert (args.token_mixing, args.layerscale_init, args.encoder_layers) == ("linear", 0.1, 4)
    assert args.dropout == 0.15
    with pytest.raises(SystemExit):
        parser.parse_args(["--normalization", "no-such-map"])


def test_hydra_options():
    """A DictConfig builds what the Namespace builds, also from what is saved; fairseq's option
    switches the positional embeddings of an architecture off."""
    dictionary = synthetic_dictionary(50)
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    args = model_options("resmlp_mt_conv_6", no_token_positional_embeddings=True)
    for options in (args, args, OmegaConf.create(vars(args))):
        model = ResMLPModel.build_model(options, task)
        assert model.encoder.embed_positions is None and model.decoder.embed_positions is None
    plain = build_model("resmlp_mt_conv_6", no_token_positional_embeddings=True)[0]
    model.load_state_dict(plain.state_dict())


def test_layerdrop():
    """Layers are left out in training, none in evaluation."""
    plain, dictionary = build_model()
    dropping, _ = build_model(encoder_layerdrop=0.5, decoder_layerdrop=0.5)
    assert torch.equal(loss_of(plain, dictionary), loss_of(dropping, dictionary))
    dropping.train()
    assert len({round(loss_of(dropping, dictionary).item(), 5) for _ in range(12)}) > 1


@pytest.mark.parametrize("offload", [False, True])
def test_checkpointed_activations(offload):
    """Layers are computed again for the backward pass: same losses and gradients."""
    results = []
    for options in ({}, {"checkpoint_activations": True, "offload_activations": offload}):
        model, dictionary = build_model(**options)
        calls = []
        for layer in [*model.encoder.layers, *model.decoder.layers]:
            layer.feed_forward.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        loss = loss_of(model.train(), dictionary)
        loss.backward()
        assert len(calls) == (8 if options else 4)
        results.append((loss.detach(), [p.grad for p in model.parameters()]))
    (loss, gradients), (other_loss, other_gradients) = results
    assert gap(loss, other_loss) < 1e-6
    for a, b in zip(gradients, other_gradients):
        assert gap(a, b) < 1e-5


def test_layers_to_keep():
    """A model trained with LayerDrop is pruned as it is loaded."""
    whole, _ = build_model(encoder_layers=4, decoder_layers=4)
    keep = {"encoder_layers_to_keep": "0,2", "decoder_layers_to_keep": "1,2,3"}
    model, dictionary = build_model(encoder_layers=4, decoder_layers=4, seed=1, **keep)
    model.load_state_dict(whole.state_dict(), model_cfg=Namespace(arch="resmlp_mt_tiny", **keep))
    assert len(model.encoder.layers) == 2 and len(model.decoder.layers) == 3
    whole.encoder.layers = whole.encoder.layers[::2]
    whole.decoder.layers = whole.decoder.layers[1:]
    whole.decoder.num_layers = 3
    assert torch.equal(loss_of(model, dictionary), loss_of(whole, dictionary))
