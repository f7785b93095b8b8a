"""The arrays of an exported model, by the specification in ``resmlp_mt_runtime.folder``.

Affine maps, including those of a LayerNorm, are folded into the linear layers beside them.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from resmlp_mt.model.inference import (
    FoldedTokenMixing,
    before,
    fold_layer,
    is_known,
    scale_shift,
)
from resmlp_mt.model.layers import Affine
from resmlp_mt.model.mixing import TOKEN_MIXING, ToeplitzTokenMixing, activation_function
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.folder import EMBEDDINGS

ACTIVATIONS = {activation_function(name): name for name in ("relu", "gelu")}
MIXINGS = {TOKEN_MIXING[name]: name for name in ("linear", "toeplitz", "gated")}


class Weights(dict[str, np.ndarray]):
    """Arrays by name. Linear layers are stored in *precision*: ``float32``, ``float16`` or
    ``int8``, with which other matrices are float16."""

    def __init__(self, precision: str):
        super().__init__()
        self._precision = precision

    def __setitem__(self, name: str, array: np.ndarray) -> None:
        if not np.isfinite(array).all():
            exact = self._precision == "float32"
            remedy = "export another checkpoint" if exact else "leave out --float16 and --int8"
            raise UserError(f"{name} has values that are NaN, infinite or too large: {remedy}")
        super().__setitem__(name, array)

    def vector(self, name: str, value: Tensor) -> None:
        self[name] = np.ascontiguousarray(to_numpy(value))

    def matrix(self, name: str, value: Tensor) -> None:
        """A large array that is not a linear layer."""
        type_ = np.float32 if self._precision == "float32" else np.float16
        self[name] = np.ascontiguousarray(to_numpy(value), type_)

    def linear(self, name: str, weight: Tensor, bias: Tensor | None) -> None:
        """``x W' + b`` of a weight that is outputs x inputs."""
        self.columns(name, weight)
        self.vector(f"{name}.bias", weight.new_zeros(len(weight)) if bias is None else bias)

    def columns(self, name: str, weight: Tensor) -> None:
        columns = np.ascontiguousarray(to_numpy(weight).T)
        if self._precision == "int8":
            self[f"{name}.weight"], self[f"{name}.scale"] = quantize(columns)
        else:
            self[f"{name}.weight"] = columns.astype(self._precision)


@torch.no_grad()
@np.errstate(over="ignore")  # Weights refuses what is infinite
def weights_of(model: nn.Module, precision: str) -> tuple[Weights, dict]:
    """The arrays of a model, and what config.json says of it. Refuses what the runtime lacks."""
    encoder, decoder = model.encoder, model.decoder
    weights, sizes = Weights(precision), _sizes(encoder, decoder)
    for side, stack in (("encoder", encoder), ("decoder", decoder)):
        positions = torch.zeros(stack.max_positions(), stack.embed_tokens.embedding_dim)
        if stack.embed_positions is not None:
            tokens = torch.full((1, len(positions)), stack.padding_idx + 1)
            positions = stack.embed_positions(tokens)[0]
        weights.matrix(f"{side}.positions", positions)
        for number, layer in enumerate(map(fold_layer, stack.layers)):
            name = f"{side}.{number}"
            _token_mixing(weights, name, layer.token_mixing.mixing)
            if side == "decoder":
                attn, query = layer.cross_attention.attn, layer.cross_attention.attn.q_proj
                scaled = query.weight * attn.scaling, query.bias * attn.scaling
                weights.linear(f"{name}.query", *scaled)
                weights.linear(f"{name}.attended", attn.out_proj.weight, attn.out_proj.bias)
            first, second = layer.feed_forward.fc1, layer.feed_forward.fc2
            weights.linear(f"{name}.first", first.weight, first.bias)
            weights.linear(f"{name}.second", second.weight, second.bias)
    # keys and values of all layers of the decoder, by one product
    readers = [layer.cross_attention.attn for layer in decoder.layers]
    linears = [linear for attn in readers for linear in (attn.k_proj, attn.v_proj)]
    linears = [before(encoder.layer_norm, linear) for linear in linears]
    both = (torch.cat([getattr(linear, part) for linear in linears]) for part in ("weight", "bias"))
    weights.linear("encoder.keys_values", *both)
    # an embedding cannot have the scale of the last affine map in it
    norm, output = decoder.layer_norm, decoder.output_projection
    scale, bias = output.weight.new_ones(decoder.embed_dim), output.bias
    if norm is not None:
        scale, bias = scale_shift(norm)[0], before(norm, output).bias
    weights.vector("decoder.output_scale", scale)
    weights.linear("decoder.output", output.weight, bias)
    # equal matrices are stored once: the target's may be the output's, the source's either of them
    of_source, of_target, stored = EMBEDDINGS
    embeddings: list[list] = []
    matrix = output.weight
    for name, stack in ((of_target, decoder), (of_source, encoder)):
        if not torch.equal(stack.embed_tokens.weight, matrix):
            stored, matrix = name, stack.embed_tokens.weight
            weights.columns(stored, matrix)
        embeddings.insert(0, [stored, float(stack.embed_scale)])
    return weights, {"precision": precision, **sizes, "embeddings": embeddings}


def _sizes(encoder: nn.Module, decoder: nn.Module) -> dict:
    """Those that config.json has. Refuses a model with other parts."""
    stacks = encoder, decoder
    if not all(len(stack.layers) for stack in stacks):
        wrong = "a model without encoder or decoder layers cannot be exported"
        raise UserError(f"{wrong}: use resmlp-mt translate")
    layer = decoder.layers[0]
    layers = [each for stack in stacks for each in stack.layers]
    kinds = {type(getattr(each.token_mixing, "mixing", None)) for each in layers}
    activation = ACTIVATIONS.get(layer.feed_forward.activation_fn)
    normalized = not isinstance(layer.feed_forward.pre, Affine)
    only = None
    # a subclass computes something else, and all layers are of one kind
    if len(kinds) > 1 or not kinds <= MIXINGS.keys():
        only = "--token-mixing linear, toeplitz and gated"
    elif activation is None:
        only = "--activation-fn relu and gelu"
    elif not all(is_known(branch) for each in layers for branch in each.children()):
        only = "resmlp_mt's own layers"
    elif normalized and decoder.layer_norm is None:
        only = "a final LayerNorm"
    if only:
        raise UserError(f"only models with {only} can be exported: use resmlp-mt translate")
    mixings = [stack.layers[0].token_mixing.mixing for stack in stacks]
    inner: list[Any] = [getattr(mixing, "toeplitz", mixing) for mixing in mixings]
    return {
        "vocabulary": [len(stack.dictionary) for stack in stacks],
        "layers": [len(stack.layers) for stack in stacks],
        "channels": [stack.embed_tokens.embedding_dim for stack in stacks],
        "hidden": [stack.layers[0].feed_forward.fc1.out_features for stack in stacks],
        "heads": layer.cross_attention.attn.num_heads,
        "mixing_heads": [each.heads for each in inner],
        "positions": [each.positions for each in inner],
        "mixing": MIXINGS[kinds.pop()],
        "activation": activation,
        "normalization": "layernorm" if normalized else "affine",
    }


def _token_mixing(weights: Weights, name: str, mixing: Any) -> None:
    """``A (scale x + shift) + offset`` with H heads over N positions, perhaps under a gate."""
    if hasattr(mixing, "toeplitz"):  # gated
        weights.linear(f"{name}.value_gate", mixing.value_gate.weight, mixing.value_gate.bias)
        weights.linear(f"{name}.output", mixing.output.weight, mixing.output.bias)
        identity = Affine(mixing.toeplitz.channels)
        mixing = FoldedTokenMixing(mixing.toeplitz, identity, identity)
    weights.vector(f"{name}.mixing.scale", mixing.scale)
    weights.matrix(f"{name}.mixing.offset", mixing.offset)
    inner = mixing.mixing
    values = inner.weight
    if not inner.causal:
        weights.vector(f"{name}.mixing.shift", mixing.shift)
    elif not isinstance(inner, ToeplitzTokenMixing):
        row, age = np.tril_indices(inner.positions)
        values = values[:, row, row - age]
    weights.matrix(f"{name}.mixing.weights", values)


def to_numpy(value: Tensor) -> np.ndarray:
    """A parameter as float32."""
    return value.detach().float().numpy()


def quantize(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Symmetric int8 of a matrix and the float32 scale of each column. A CPU without VNNI adds the
    products of two neighbouring rows in 16 bits: inputs are at most 255, so that the sum saturates
    unless two neighbours sum to at most 128."""
    rows = np.pad(weight, ((0, len(weight) % 2), (0, 0)))
    neighbours = np.abs(rows[::2] + rows[1::2]).max(axis=0)
    scale = np.maximum(np.maximum(np.abs(weight).max(axis=0), neighbours), 1e-30) / 127
    return np.round(weight / scale).astype(np.int8), scale.astype(np.float32)
