"""The model against the plain one in reference_model.py: states, logits, gradients."""

import pytest
import torch
from helpers import at_tokens, build_model, gap, random_sentences
from reference_model import decode, encode

TOLERANCE = 1e-9
HEADS = 4
SOURCES, TARGETS = (3, 9, 1, 6), (5, 2, 11, 7)
ALL, OUTPUT = {"share_all_embeddings": True}, {"share_decoder_input_output_embed": True}
NORMAL = {"normalization": "layernorm"}
HEADED = {"token_mixing_heads": 8, "encoder_layers": 6, "decoder_layers": 6}
MODELS = {  # the paper's depths, with small sizes
    "linear": {"encoder_layers": 6, "decoder_layers": 6, **ALL},
    "deep": {"encoder_layers": 12, "decoder_layers": 12, **ALL},
    "unshared": {"encoder_layers": 4, "decoder_layers": 4, **NORMAL},
    "toeplitz": {"token_mixing": "toeplitz", **HEADED, **ALL},
    "gated": {"token_mixing": "gated", **HEADED, **OUTPUT, **NORMAL},
}
models = pytest.mark.parametrize("name", MODELS)


class Pair:
    """A model of random parameters, in float64, and its weights for the reference."""

    def __init__(self, name, **options):
        model, self.dictionary = build_model(std=0.2, **MODELS[name], **options)
        self.model = model.double()
        leaves = {}  # one for each parameter, whose names may be several
        self.weights = {
            name: leaves.setdefault(id(p), p.detach().clone().requires_grad_())
            for name, p in model.named_parameters(remove_duplicate=False)
        }
        self.sources = random_sentences(self.dictionary, SOURCES)
        self.targets = [s.roll(1) for s in random_sentences(self.dictionary, TARGETS, seed=1)]

    def expected(self):
        """By the reference, for each pair: states of both sides, the attention, and the logits."""
        for source, target in zip(self.sources, self.targets, strict=True):
            states = encode(self.weights, source)
            more, *others = decode(self.weights, target, states[-1], HEADS)
            yield [*states, *more, *others]

    def found(self, left, left_target):
        return at_tokens(self.model, self.dictionary, self.sources, self.targets, left, left_target)


@models
@pytest.mark.parametrize("mode", ["training", "evaluation"])
@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
@torch.no_grad()
def test_every_state_and_logit_is_the_references(name, mode, left):
    """Evaluation drops nothing, whatever the dropout of the training."""
    share = 0.0 if mode == "training" else 0.3
    dropout = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), share)
    pair = Pair(name, **dropout)
    pair.model.train(mode == "training")
    for found, expected in zip(pair.found(left, not left), pair.expected(), strict=True):
        for number, (a, b) in enumerate(zip(found, expected, strict=True)):
            assert gap(a, b) < TOLERANCE, number


@models
def test_gradients_are_the_references(name):
    pair = Pair(name)
    pair.model.train()
    ours = [found[-1] for found in pair.found(left=True, left_target=False)]
    theirs = [expected[-1] for expected in pair.expected()]
    factors = [torch.randn_like(logits) for logits in theirs]
    for results in (ours, theirs):
        sum((logits * f).sum() for logits, f in zip(results, factors, strict=True)).backward()
    gradients = {name: pair.weights[name].grad for name, _ in pair.model.named_parameters()}
    largest = max(gradient.abs().max() for gradient in gradients.values())
    for name, parameter in pair.model.named_parameters():
        expected = gradients[name]
        # a constant added to all keys changes no softmax: its gradient is rounding alone
        size = largest if name.endswith("k_proj.bias") else expected.abs().max()
        assert size > 0, name
        assert (parameter.grad - expected).abs().max() <= TOLERANCE * size, name
