"""The specification of an exported model: named arrays, stored in one safetensors file.

The ONNX graphs, the native runtime and the embeddings read these arrays by name. Affine maps are
folded. Under the name of a linear layer there are ``weight`` (inputs x outputs), ``bias`` and, in
int8, the ``scale`` of each output; under that of a LayerNorm ``scale`` and ``shift``. Layer 0 of
the encoder begins with ``encoder.0.``
"""

import json

import numpy as np
import torch
from torch import Tensor, nn

from resmlp_mt.errors import UserError
from resmlp_mt.model.affine import Affine, activation_function
from resmlp_mt.model.inference import absorb, before, fold_layer
from resmlp_mt.model.mixing import GatedTokenMixing, ToeplitzTokenMixing, TokenMixing

ACTIVATIONS = {activation_function(name): name for name in ("relu", "gelu")}
TYPES = {"float32": "F32", "float16": "F16", "int8": "I8"}  # their names in the file


class Weights(dict[str, np.ndarray]):
    """Arrays by name. Linear layers are stored in *precision*: ``float32``, ``float16`` or
    ``int8``, where other matrices are float16."""

    def __init__(self, precision: str):
        super().__init__()
        self.precision = precision

    def vector(self, name: str, value: Tensor | np.ndarray) -> None:
        self[name] = np.ascontiguousarray(array(value), np.float32)

    def matrix(self, name: str, value: Tensor | np.ndarray) -> None:
        """A large array that is no linear layer."""
        type_ = "float32" if self.precision == "float32" else "float16"
        self[name] = np.ascontiguousarray(array(value), type_)

    def linear(self, name: str, layer: nn.Linear) -> None:
        """``x W' + b``."""
        self.columns(name, layer.weight, layer.bias)

    def columns(self, name: str, weight: Tensor, bias: Tensor | None) -> None:
        """:meth:`linear` of a weight that is outputs x inputs."""
        columns = np.ascontiguousarray(array(weight).T)
        if self.precision == "int8":
            self[f"{name}.weight"], self[f"{name}.scale"] = quantize(columns)
        else:
            self[f"{name}.weight"] = columns.astype(self.precision)
        if bias is not None:
            self.vector(f"{name}.bias", bias)

    def norm(self, name: str, norm: nn.Module | None) -> None:
        """A LayerNorm. An affine map is folded: nothing is left of it."""
        if isinstance(norm, nn.LayerNorm):
            self.vector(f"{name}.scale", norm.weight)
            self.vector(f"{name}.shift", norm.bias)

    def serialized(self) -> tuple[bytes, dict[str, int]]:
        """The file, and the offset of each array in it."""
        header, end = {}, 0
        names = sorted(self, key=lambda name: -self[name].itemsize)  # which aligns all of them
        for name in names:
            start, end = end, end + self[name].nbytes
            type_, shape = TYPES[self[name].dtype.name], list(self[name].shape)
            header[name] = {"dtype": type_, "shape": shape, "data_offsets": [start, end]}
        text = json.dumps(header).encode()
        text += b" " * (-(8 + len(text)) % 64)
        data = [len(text).to_bytes(8, "little"), text, *(self[name].tobytes() for name in names)]
        begin = 8 + len(text)
        return b"".join(data), {n: begin + header[n]["data_offsets"][0] for n in names}


@torch.no_grad()
def weights_of(model: nn.Module, precision: str) -> tuple[Weights, dict]:
    """The arrays of a model, and the sizes that go to config.json with them."""
    weights, encoder, decoder = Weights(precision), model.encoder, model.decoder
    activation = ACTIVATIONS.get(decoder.layers[0].feed_forward.activation_fn)
    if activation is None:
        raise UserError(
            "this --activation-fn cannot be exported, only relu and gelu: translate with "
            "resmlp-mt translate"
        )
    attentions = [layer.cross_attention.attn for layer in decoder.layers]
    sizes = {
        "vocabulary": [len(stack.dictionary) for stack in (encoder, decoder)],
        "layers": [len(stack.layers) for stack in (encoder, decoder)],
        "channels": [encoder.embed_tokens.embedding_dim, decoder.embed_dim],
        "heads": attentions[0].num_heads,
        "mixing": _kind(decoder.layers[0].token_mixing),
        "activation": activation,
        "memory": None,  # G and D of what the step reads of past tokens
    }
    for side, stack in ("encoder", encoder), ("decoder", decoder):
        if stack.embed_positions is not None:
            tokens = torch.full((1, stack.max_positions()), stack.padding_idx + 1)
            weights.matrix(f"{side}.positions", stack.embed_positions(tokens)[0])
        for number, layer in enumerate(map(fold_layer, stack.layers)):
            name, branch = f"{side}.{number}", layer.feed_forward
            _token_mixing(weights, name, layer.token_mixing)
            if side == "decoder":
                _attention(weights, name, layer.cross_attention)
            weights.norm(f"{name}.feed_forward_norm", branch.pre)
            weights.linear(f"{name}.first", branch.fc1)
            weights.linear(f"{name}.second", branch.fc2)
    if sizes["mixing"] != "none":
        heads = len(weights["decoder.0.mixing.weights"])
        sizes["memory"] = [len(decoder.layers) * heads, decoder.embed_dim // heads]
    _keys_values(weights, encoder.layer_norm, attentions)
    sizes["embeddings"] = _vocabulary(weights, model)
    return weights, sizes


def _kind(branch: nn.Module | None) -> str:
    """The token mixing of a branch by its name. A subclass computes something else."""
    if branch is None:
        return "none"
    kinds = {TokenMixing: "linear", ToeplitzTokenMixing: "toeplitz", GatedTokenMixing: "gated"}
    kind = type(branch.mixing)
    if kind not in kinds:
        raise UserError(
            f"the token mixing {kind.__name__} cannot be exported, only linear, toeplitz, "
            "gated and none: translate with resmlp-mt translate"
        )
    return kinds[kind]


def _token_mixing(weights: Weights, name: str, branch: nn.Module | None) -> None:
    """``A (scale x + shift) + offset`` with H heads over N positions.

    ``weights`` of A: H x N x N, or of Toeplitz matrices H x (2 N - 1). In the decoder those of past
    tokens by their distance, H x N; of triangular matrices the rows of all positions, one after the
    other, each from its newest token back. The weights of the newest token itself are apart and
    scaled: ``own``, C, or for each position N x H x 1. ``offset`` is N x H x C / H or N x H x 1.
    """
    if branch is None:
        return
    weights.norm(f"{name}.mixing_norm", branch.pre)
    mixing = branch.mixing
    scale: np.ndarray | float = 1
    if isinstance(mixing, GatedTokenMixing):
        weights.linear(f"{name}.value_gate", mixing.value_gate)
        weights.linear(f"{name}.output", mixing.output)
        inner = mixing.toeplitz
        bias = torch.zeros(inner.heads, inner.positions) if inner.bias is None else inner.bias
        offset = array(bias).T
    else:
        inner, offset, scale = mixing.mixing, array(mixing.offset), array(mixing.scale)
        weights.vector(f"{name}.mixing.scale", scale)
        if mixing.shift is not None:
            weights.vector(f"{name}.mixing.shift", mixing.shift)
    weights.matrix(f"{name}.mixing.offset", offset.reshape(inner.positions, inner.heads, -1))
    values, own = array(inner.weight), f"{name}.mixing.own"
    if inner.causal and isinstance(inner, ToeplitzTokenMixing):
        weights.vector(own, values[:, 0].repeat(inner.channels // inner.heads) * scale)
        values = np.pad(values[:, 1:], ((0, 0), (1, 0)))
    elif inner.causal:
        row, age = np.tril_indices(inner.positions)
        weights.matrix(own, np.diagonal(values, axis1=1, axis2=2).T[..., None])
        values = np.where(age == 0, 0, values[:, row, row - age])
    weights.matrix(f"{name}.mixing.weights", values)


def _attention(weights: Weights, name: str, branch: nn.Module) -> None:
    """Queries come out scaled."""
    attn, layer = branch.attn, branch.attn.q_proj
    weights.norm(f"{name}.attention_norm", branch.pre)
    weights.columns(f"{name}.query", layer.weight * attn.scaling, layer.bias * attn.scaling)
    weights.linear(f"{name}.attended", attn.out_proj)


def _keys_values(weights: Weights, norm: nn.Module | None, attentions: list[nn.Module]) -> None:
    """Those of all layers of the decoder, by one product with the encoder's output."""
    layers = [layer for attn in attentions for layer in (attn.k_proj, attn.v_proj)]
    layers = [absorb(norm, layer)[1] for layer in layers]
    weight, bias = (torch.cat([getattr(x, part) for x in layers]) for part in ("weight", "bias"))
    weights.norm("encoder.last_norm", norm)
    weights.columns("encoder.keys_values", weight, bias)


def _vocabulary(weights: Weights, model: nn.Module) -> list:
    """Store the output layer and the embeddings, equal ones once. Returns, for the source and the
    target, the name of the columns that embed and the factor."""
    decoder = model.decoder
    norm, layer = decoder.layer_norm, decoder.output_projection
    weights.norm("decoder.last_norm", norm)
    tied = torch.equal(layer.weight, decoder.embed_tokens.weight)
    if isinstance(norm, Affine):
        folded = before(norm, layer)
        if tied:  # an embedding cannot have the scale of the norm in it
            weights.vector("decoder.output_scale", norm.alpha)
            folded.weight = layer.weight
        layer = folded
    weights.linear("decoder.output", layer)
    source, target = model.encoder.embed_tokens.weight, decoder.embed_tokens.weight
    names = ["source.embedding", "decoder.output" if tied else "target.embedding"]
    if not tied:
        weights.columns(names[1], target, None)
    if torch.equal(source, target):
        names[0] = names[1]
    else:
        weights.columns(names[0], source, None)
    return [
        [name, float(stack.embed_scale)] for name, stack in zip(names, (model.encoder, decoder))
    ]


def array(value: Tensor | np.ndarray) -> np.ndarray:
    """A parameter as float32."""
    return value.detach().float().numpy() if isinstance(value, Tensor) else value


def quantize(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Symmetric int8 of a matrix and the float32 scale of each column.

    A CPU without VNNI adds the products of two neighbouring rows in 16 bits. An input is at most
    255: the sum saturates unless two neighbours sum to at most 128.
    """
    rows = np.pad(weight, ((0, len(weight) % 2), (0, 0)))
    neighbours = np.abs(rows[::2] + rows[1::2]).max(axis=0)
    scale = np.maximum(np.maximum(np.abs(weight).max(axis=0), neighbours), 1e-30) / 127
    return np.round(weight / scale).astype(np.int8), scale.astype(np.float32)
