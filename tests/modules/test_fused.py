"""Training with the affine maps in the weights: plain training's numbers, with less kept."""

import pytest
import torch
from helpers import MIXINGS, build_model, gap, mixings, pad_batch, random_sentences, shift
from torch.nn import functional as F

from resmlp_mt.modules.fused import activation_linear
from resmlp_mt.modules.token_mixing import MATRICES

PADDED, FULL = ((9, 3, 6), (5, 8, 2)), ((7, 7, 7), (6, 6, 6))


def forward(model, dictionary, lengths, left=True):
    """Logits and, beside the padding, the loss."""
    sources, targets = (random_sentences(dictionary, n, seed) for seed, n in enumerate(lengths))
    prev = pad_batch([shift(s) for s in targets], dictionary)
    logits, _ = model(pad_batch(sources, dictionary, left), None, prev)
    wanted = pad_batch(targets, dictionary).flatten()
    loss = F.cross_entropy(logits.flatten(0, 1), wanted, ignore_index=dictionary.pad())
    return logits.flatten(0, 1)[wanted != dictionary.pad()], loss


def step(model, dictionary, lengths, training, left=True):
    """Logits, and the gradients by parameter (without cross-attention the encoder has none)."""
    model.train(training).zero_grad()
    logits, loss = forward(model, dictionary, lengths, left)
    loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return logits.detach(), gradients


def assert_same_step(model, dictionary, lengths, tolerance, **options):
    """In training mode as in evaluation mode, where nothing is fused."""
    logits, expected = step(model, dictionary, lengths, False, **options)
    fused_logits, found = step(model, dictionary, lengths, True, **options)
    assert gap(fused_logits, logits) < tolerance
    assert found.keys() == expected.keys()
    overall = max(gradient.abs().max() for gradient in expected.values())
    assert overall > 1e-3
    for name, gradient in expected.items():
        # a key's bias changes nothing: its gradient is rounding
        largest = overall if name.endswith("k_proj.bias") else gradient.abs().max()
        assert (found[name] - gradient).abs().max() <= tolerance * largest, name


@mixings
@pytest.mark.parametrize("normalization", ["affine", "layernorm"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("lengths", [PADDED, FULL], ids=["padded", "full"])
def test_same_step(kind, heads, normalization, bias, lengths):
    model, dictionary = build_model(
        token_mixing=kind,
        token_mixing_heads=heads,
        normalization=normalization,
        no_token_mixing_bias=not bias,
    )
    assert_same_step(model.double(), dictionary, lengths, 1e-6)


@pytest.mark.parametrize("lengths", [PADDED, FULL], ids=["padded", "full"])
def test_same_step_in_float32(lengths):
    model, dictionary = build_model(std=0.1)
    assert_same_step(model, dictionary, lengths, 1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"activation_fn": "relu"},
        {"activation_fn": "gelu"},
        {"activation_fn": "gelu_accurate"},
        {"activation_fn": "tanh"},
        {"activation_fn": "linear"},
        {"checkpoint_activations": True},
        {"no_cross_attention": True},
        {"encoder_embed_dim": 12, "decoder_embed_dim": 16},
        {"share_all_embeddings": True},
        {"no_decoder_final_norm": True},
    ],
    ids=lambda options: "-".join(map(str, next(iter(options.items())))),
)
@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
def test_options(options, left):
    model, dictionary = build_model(**options)
    assert_same_step(model.double(), dictionary, PADDED, 1e-6, left=left)


def test_activation_linear():
    """The gradient by differences, for states of two and three dimensions."""
    for shape in ((4, 3), (2, 4, 3)):
        z, weight, bias = (
            torch.randn(s, dtype=torch.float64, requires_grad=True) for s in (shape, (5, 3), (5,))
        )
        assert torch.equal(
            activation_linear(z, weight, bias, F.gelu), F.linear(F.gelu(z), weight, bias)
        )
        assert torch.autograd.gradcheck(lambda *x: activation_linear(*x, F.gelu), (z, weight, bias))


def linears(model):
    """The branches' linear layers that fusing takes maps into, by their branch."""
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        yield layer.feed_forward, (layer.feed_forward.fc1, layer.feed_forward.fc2)
        attention = getattr(layer, "cross_attention", None)
        if attention is not None:
            yield attention, (attention.attn.q_proj, attention.attn.out_proj)


def test_quantization_noise():
    """It changes a layer's weight when the layer is called: nothing may go round that."""
    model, dictionary = build_model(quant_noise_pq=0.5, quant_noise_pq_block_size=4)
    model.train()
    assert not any(branch.fuses(*pair) for branch, pair in linears(model))
    layer = model.encoder.layers[0].feed_forward
    x = torch.randn(2, 3, 16)
    assert gap(layer(x), layer(x)) > 1e-3
    plain, _ = build_model()
    assert not any(branch.fuses(*pair) for branch, pair in linears(plain))
    plain.train()
    assert all(branch.fuses(*pair) for branch, pair in linears(plain))


@pytest.mark.parametrize("hook", ["register_forward_pre_hook", "register_forward_hook"])
def test_hooks_are_called(hook):
    """A layer that somebody watches is called as it always was."""
    model, dictionary = build_model()
    _, expected = forward(model, dictionary, PADDED)
    calls = []
    for number, (_, pair) in enumerate(linears(model)):
        getattr(pair[number % 2], hook)(lambda *_: calls.append(1))
    _, loss = forward(model.train(), dictionary, PADDED)
    assert len(calls) == 2 + 4 and gap(loss, expected) < 1e-5


def test_autocast():
    """bfloat16 products: finite gradients in float32, close to float32's."""
    model, dictionary = build_model(std=0.1)
    _, expected = step(model, dictionary, PADDED, True)
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        logits, loss = forward(model.train(), dictionary, PADDED)
    loss.backward()
    assert logits.dtype == torch.bfloat16
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert gradient.dtype == torch.float32 and torch.isfinite(gradient).all(), name
        if not name.endswith("k_proj.bias"):
            error = (gradient - expected[name]).norm() / expected[name].norm()
            assert error < 0.1, name


def saved_bytes(model, dictionary, training):
    """Memory that one step keeps for its backward pass, parameters left out."""
    model.train(training)
    ours = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in ours:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        _, loss = forward(model, dictionary, ((20,) * 16, (20,) * 16))
    loss.backward()
    return sum(storage.nbytes() for storage in kept.values())


@pytest.mark.parametrize(
    "kind, heads", [mixing for mixing in MIXINGS if mixing[0] in (*MATRICES, "depthwise-conv")]
)
def test_less_is_kept(kind, heads):
    model, dictionary = build_model(
        token_mixing=kind,
        token_mixing_heads=heads,
        encoder_embed_dim=32,
        encoder_ffn_embed_dim=128,
    )
    plain, fused = (saved_bytes(model, dictionary, training) for training in (False, True))
    assert 0 < fused <= 0.7 * plain
