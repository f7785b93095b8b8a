"""Options: defaults, numbers of parameters, the effect of fairseq's own options, refusals."""

import re
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models import build_model as build_fairseq_model
from helpers import SMALL, build_model, gap, inputs, model_options, pad_batch, random_sentences
from omegaconf import DictConfig, OmegaConf

from resmlp_mt import ResMLPModel
from resmlp_mt.model.config import NOT_OURS, REMOVED
from resmlp_mt.model.layers import Affine
from resmlp_mt.model_folder import LENPEN, read_lenpen
from resmlp_mt_runtime.errors import UserError


def test_given_options_come_before_the_architectures_and_the_papers(capsys):
    parser = ArgumentParser(argument_default=SUPPRESS)  # as fairseq makes it
    ResMLPModel.add_args(parser)
    args = parser.parse_args(["--layerscale-init", "0.1"])
    ARCH_CONFIG_REGISTRY["resmlp_mt_small"](args)
    assert (args.token_mixing, args.layerscale_init, args.encoder_layers) == ("gated", 0.1, 3)
    assert args.dropout == 0.15
    with pytest.raises(SystemExit):
        parser.parse_args(["--normalization", "no-such-map"])
    assert "invalid choice: 'no-such-map'" in capsys.readouterr().err


def test_positional_embeddings_of_an_architecture_can_be_left_out():
    for more, has in (({}, True), ({"no_token_positional_embeddings": True}, False)):
        model, _ = build_model("resmlp_mt_small", token_mixing_heads=2, **more)
        assert (model.encoder.embed_positions is not None) == has


def test_names_of_before():
    """They keep what a checkpoint says, as do names whose defaults have changed."""
    ARCH_CONFIG_REGISTRY["resmlp_mt_gated_12"](args := Namespace())
    assert (args.encoder_layers, args.decoder_layers, args.token_mixing) == (12, 12, "gated")
    for name in ("resmlp_mt_toeplitz_6", "resmlp_mt_tiny"):
        args = Namespace(_name=name, encoder_layers=4)
        ARCH_CONFIG_REGISTRY[name](args)
        assert (args.encoder_layers, args.decoder_layers) == (4, 6)
        assert (args.token_mixing, args.normalization) == ("linear", "affine")
    trained = {"_name": "resmlp_mt_tiny", "encoder_layers": 4, "adaptive_input": False}
    ARCH_CONFIG_REGISTRY["resmlp_mt_tiny"](args := DictConfig(trained))  # by hydra
    assert (args.encoder_layers, args.normalization) == (4, "affine")


@pytest.mark.parametrize("offload", [False, True])
def test_checkpointed_activations_change_no_loss_and_no_gradient(offload):
    """Layers are recomputed for the backward pass."""
    results = []
    for options in ({}, {"checkpoint_activations": True, "offload_activations": offload}):
        model, dictionary = build_model(**options)
        calls = []
        for layer in [*model.encoder.layers, *model.decoder.layers]:
            layer.feed_forward.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        loss = model.train()(*inputs(dictionary))[0].logsumexp(-1).square().mean()
        loss.backward()
        assert len(calls) == (8 if options else 4)
        assert not options or layer.forward.args[1] == offload  # of fairseq's wrapper
        results.append([loss.detach(), *(p.grad for p in model.parameters())])
    assert gap(results[0][0], results[1][0]) < 1e-6
    assert max(map(gap, *results)) < 1e-5


@pytest.mark.parametrize("kind", ["linear", "gated"])  # gated has a Toeplitz A
def test_training_and_the_encoder_compile_to_one_graph_each(kind):
    options = dict(decoder_layers=1, encoder_layers=1, dropout=0.1, token_mixing=kind)
    model, dictionary = build_model(**options)
    source, *others = inputs(dictionary)
    torch._dynamo.reset()
    compiled = torch.compile(model.train(), fullgraph=True, backend="eager")
    loss = compiled(source, *others)[0].float().log_softmax(-1).sum()
    loss.backward()
    assert all(p.grad is not None for p in model.parameters())
    model.eval()
    encode = torch.compile(model.encoder, fullgraph=True, backend="eager")
    with torch.no_grad():
        (expected,), (found,) = (f(source)["encoder_out"] for f in (model.encoder, encode))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "options, message",
    [
        *(
            ({name.replace(".", "_"): "1"}, "--" + re.sub("[._]", "-", name) + ": resmlp_mt does")
            for name in [*NOT_OURS, "decoder.output_dim"]
        ),
        *(({name: "1"}, f"{name}: only resmlp_mt 0.2 supports it") for name in REMOVED),
        ({"token_mixing": "none-such"}, "gated, none, or give the --user-dir that registers it"),
        ({"token_mixing_heads": 5}, "--token-mixing-heads 5: it must divide the 16 channels"),
        ({"decoder_layers": 10**7}, "--decoder-layers 10000000: give at most 1000"),
        ({"token_mixing_heads": 2.0}, "--token-mixing-heads 2.0"),
        ({"token_mixing": "none", "token_mixing_heads": 4}, "--token-mixing-heads 4"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_options_that_are_refused_with_one_line(options, message):
    with pytest.raises(UserError) as caught:
        build_model(**options)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_two_dictionaries_that_are_to_share_embeddings_are_refused():
    source, target = (build_model(vocabulary=types)[1] for types in (50, 60))
    task = SimpleNamespace(source_dictionary=source, target_dictionary=target)
    refusal = "--share-all-embeddings.*--joined-dictionary, or resmlp_mt_base"
    with pytest.raises(UserError, match=refusal):
        ResMLPModel.build_model(model_options("resmlp_mt_tiny"), task)


def test_nested_options_of_hydra_are_refused():
    config = OmegaConf.create({"_name": "resmlp_mt", "encoder": {"layers": 1}})
    with pytest.raises(UserError, match="model.encoder.layers: write model.encoder_layers"):
        build_fairseq_model(config, None)


def test_a_source_without_a_mask_has_no_padding():
    model, dictionary = build_model()
    tokens = pad_batch(random_sentences(dictionary, (4, 4)), dictionary)
    source = model.encoder(tokens)
    found = model.decoder(tokens, {**source, "encoder_padding_mask": []})[0]
    assert torch.equal(found, model.decoder(tokens, source)[0])


def test_more_tokens_than_positions_are_refused():
    model, dictionary = build_model(max_source_positions=4, max_target_positions=3)
    (tokens,) = random_sentences(dictionary, (4,))
    fits, state = model.encoder(tokens[None]), {}
    for length in (1, 2, 3):
        model.decoder(torch.full((1, length), 5), fits, state)
    encode, decode = model.encoder, model.decoder
    for run, batch, more, message in (
        (encode, torch.full((1, 7), 5), (), "a source sentence of 7 tokens .* the 4 pos"),
        (decode, torch.full((1, 5), 5), (fits,), "a target sentence of 5 tokens .*the 3"),
        (decode, torch.full((1, 4), 5), (fits, state), ".*the 3 pos.*--max-target-positions 4"),
    ):
        with pytest.raises(UserError, match=f"^{message}[^\\n]*$"):
            run(batch, *more)


def test_a_stored_length_penalty_is_used_or_refused(tmp_path):
    assert read_lenpen(tmp_path) == LENPEN
    path = tmp_path / "search.json"
    path.write_text('{"lenpen": 1.4}')
    assert read_lenpen(tmp_path) == 1.4
    for stored in ('{"lenpen": "x"}', '{"lenpen": 300}', '{"lenpen": true}', "[1]"):
        path.write_text(stored)
        with pytest.raises(UserError, match='search.json: "lenpen" is not a number from -10 to 10'):
            read_lenpen(tmp_path)


def shapes(arch, **options):
    """How many parameters of a model of the architecture's own sizes have each shape."""
    positions = dict(max_source_positions=64, max_target_positions=64)
    options = dict.fromkeys(SMALL) | positions | options
    with torch.device("meta"):  # takes no memory
        model, _ = build_model(arch, randomize=False, vocabulary=1000, **options)
    return Counter(tuple(parameter.shape) for parameter in model.parameters())


ONE, OUTPUT = {"share_all_embeddings": True}, {"share_decoder_input_output_embed": True}


@pytest.mark.parametrize("layers", [6, 12])  # on each side
@pytest.mark.parametrize("options, tables", [({}, 3), (OUTPUT, 2), (ONE, 1)])
def test_the_papers_sizes(layers, options, tables):
    """d = 512, hidden 2048. test_reference.py has every parameter of a layer."""
    found = shapes(f"resmlp_mt_{layers}", **options)
    assert found[1000, 512] == tables
    assert found[1, 64, 64] == found[1, 64] == 2 * layers
    assert found[2048, 512] == found[512, 2048] == 2 * layers
    assert found[512, 512] == 4 * layers


def test_initial_affine_maps():
    """alpha = 1 before a branch and after a stack, --layerscale-init after a branch; beta = 0."""
    model, _ = build_model(randomize=False, layerscale_init=0.5)
    affines = {n: m for n, m in model.named_modules() if isinstance(m, Affine)}
    assert len(affines) == 2 * (2 * 2) + 2 * (2 * 3) + 2
    for name, affine in affines.items():
        first = 0.5 if name.endswith(".post") else 1.0
        assert torch.equal(affine.alpha, torch.full((16,), first)), name
        assert torch.equal(affine.beta, torch.zeros(16)), name
    model, _ = build_model(normalization="layernorm")
    assert sum(isinstance(m, torch.nn.LayerNorm) for m in model.modules()) == 2 * 2 + 2 * 3 + 2
