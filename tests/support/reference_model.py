"""The paper's translation model in plain PyTorch, written from the paper alone.

``weights`` is a state dict, or its part below a name. States are T x C, one sentence at a time. A
token is mapped to its embedding times sqrt(C), as in fairseq.
"""

import math

import torch
from torch.nn.functional import gelu


def below(weights, name):
    """The weights whose names begin with *name*, without it."""
    return {k[len(name) + 1 :]: v for k, v in weights.items() if k.startswith(name + ".")}


def affine(weights, x):
    """Eq. 1; with the weights of a LayerNorm, that."""
    if "alpha" in weights:
        return weights["alpha"] * x + weights["beta"]
    x = x - x.mean(dim=1, keepdim=True)
    return weights["weight"] * x / (x.square().mean(1, True) + 1e-5).sqrt() + weights["bias"]


def linear(weights, x):
    return x @ weights["weight"].T + weights["bias"]


def residual(weights, x, middle):
    """``X + Aff(middle(Aff(X)))``, the form of eqs. 2 and 3."""
    return x + affine(below(weights, "post"), middle(affine(below(weights, "pre"), x)))


def matrix(a, length, causal):
    """The submatrix of A for *length* tokens; a vector holds a weight for each distance t - s."""
    if a.dim() == 1:
        t = torch.arange(length)
        zero_distance = 0 if causal else len(a) // 2
        a = a[(zero_distance + t[:, None] - t).clamp(min=0)]
    a = a[:length, :length]
    return torch.where(torch.ones_like(a).tril() > 0, a, 0) if causal else a


def mix(weights, x, causal):
    """``A x + b`` with a matrix for each group of channels, or the same under a gate."""
    if "value_gate.weight" in weights:
        return gate(weights, x, causal)
    groups = x.chunk(len(weights["weight"]), dim=1)
    parts = zip(weights["weight"], weights["bias"], groups, strict=True)
    mixed = [matrix(a, len(x), causal) @ group + b[: len(x), None] for a, b, group in parts]
    return torch.cat(mixed, dim=1)


def gate(weights, x, causal):
    """``W_o ((A (W_v x) + b) * GELU(W_g x))``."""
    value, reads = linear(below(weights, "value_gate"), x).chunk(2, dim=1)
    mixed = mix(below(weights, "toeplitz"), value, causal)
    return linear(below(weights, "output"), mixed * gelu(reads))


def feed_forward(weights, x):
    """``C GELU(B x)``."""
    return linear(below(weights, "fc2"), gelu(linear(below(weights, "fc1"), x)))


def attention_weights(weights, x, memory, heads):
    """Softmax of the scaled dot products, H x T x S; *memory* is the encoder's output, S x C."""
    queries = linear(below(weights, "q_proj"), x).chunk(heads, dim=1)
    keys = linear(below(weights, "k_proj"), memory).chunk(heads, dim=1)
    scores = [q @ k.T / math.sqrt(q.size(1)) for q, k in zip(queries, keys, strict=True)]
    return torch.stack(scores).softmax(dim=2)


def attend(weights, attention, memory):
    values = linear(below(weights, "v_proj"), memory).chunk(len(attention), dim=1)
    sums = [a @ v for a, v in zip(attention, values, strict=True)]
    return linear(below(weights, "out_proj"), torch.cat(sums, dim=1))


def encoder_layer(weights, x):
    mixing, ffn = below(weights, "token_mixing"), below(weights, "feed_forward")
    z = residual(mixing, x, lambda h: mix(below(mixing, "mixing"), h, causal=False))
    return residual(ffn, z, lambda h: feed_forward(ffn, h))


def decoder_layer(weights, x, memory, heads):
    """T x C, and the attention weights, H x T x S."""
    mixing, ffn = below(weights, "token_mixing"), below(weights, "feed_forward")
    cross, attn = below(weights, "cross_attention"), below(weights, "cross_attention.attn")
    x = residual(mixing, x, lambda h: mix(below(mixing, "mixing"), h, causal=True))
    attention = attention_weights(attn, affine(below(cross, "pre"), x), memory, heads)
    z = residual(cross, x, lambda _: attend(attn, attention, memory))
    return residual(ffn, z, lambda h: feed_forward(ffn, h)), attention


def embed(weights, tokens):
    """T tokens to T x C."""
    table = weights["embed_tokens.weight"]
    return math.sqrt(table.size(1)) * table[tokens]


def encode(weights, tokens):
    """The states before and after each layer, and behind the final affine map."""
    encoder = below(weights, "encoder")
    states = [embed(encoder, tokens)]
    while layer := below(encoder, f"layers.{len(states) - 1}"):
        states.append(encoder_layer(layer, states[-1]))
    return [*states, affine(below(encoder, "layer_norm"), states[-1])]


def decode(weights, tokens, memory, heads):
    """The states of all layers, the last attention as mean of the heads (T x S), logits (T x V)."""
    decoder = below(weights, "decoder")
    states = [embed(decoder, tokens)]
    while layer := below(decoder, f"layers.{len(states) - 1}"):
        state, attention = decoder_layer(layer, states[-1], memory, heads)
        states.append(state)
    features = affine(below(decoder, "layer_norm"), states[-1])
    return states, attention.mean(dim=0), features @ decoder["output_projection.weight"].T
