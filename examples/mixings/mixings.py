"""Rivals of our mixings, one class each, from the equations of their papers.

States are T x B x C, in step-by-step decoding R x C; docs/options.md explains the arguments. A is
a Toeplitz matrix for each head (--token-mixing-heads) with a free weight for each distance, where
Hyena has filters made by a network, and a bias for each position, unless --no-token-mixing-bias.
"""

import torch
from torch import nn
from torch.nn import functional as F

from resmlp_mt import register_mixing
from resmlp_mt.model.mixing import ToeplitzTokenMixing
from resmlp_mt.model.padding import zero_padding


def linear(channels, maps=1):
    """*maps* linear maps of the channels in one product, each with the Xavier initialization."""
    layer = nn.Linear(channels, maps * channels)
    for weight in layer.weight.chunk(maps):
        nn.init.xavier_uniform_(weight)
    nn.init.zeros_(layer.bias)
    return layer


def neighbours(x, count, before, history):
    """A list of *count* tensors like x: the inputs at each position and beside it, from *before*
    positions earlier on; zero outside the sentence. A *history* has the earlier ones."""
    if history is not None:
        return history.recent(x, count).unbind(1)
    padded = F.pad(x, (0, 0, 0, 0, before, count - 1 - before))
    return [padded[i : i + len(x)] for i in range(count)]


@register_mixing("token-shift")
class TokenShift(nn.Module):
    """``y[t] = mu x[t] + (1 - mu) x[t - 1]``: the token shift of RWKV (Peng et al., EMNLP 2023)."""

    def __init__(self, cfg, channels, positions, causal):
        super().__init__()
        self.mu = nn.Parameter(torch.full((channels,), 0.5))

    def forward(self, x, padding_mask=None, history=None):
        before, newest = neighbours(x, 2, 1, history)
        return self.mu * newest + (1 - self.mu) * before


@register_mixing("conv")
class Convolution(nn.Module):
    """``y[t] = sum_k W[k] x[t + k] + b``, a convolution of three tokens, which mixes channels, too:
    an ablation of ResMLP for images (Touvron et al., 2021). Needs --token-positional-embeddings."""

    def __init__(self, cfg, channels, positions, causal):
        super().__init__()
        self.before = 2 if causal else 1
        self.taps = nn.Linear(3 * channels, channels)
        nn.init.normal_(self.taps.weight, std=cfg.token_mixing_init_std)
        nn.init.zeros_(self.taps.bias)

    def forward(self, x, padding_mask=None, history=None):
        return self.taps(torch.cat(neighbours(x, 3, self.before, history), dim=-1))


@register_mixing("attention")
class RelativeAttention(nn.Module):
    """``y = W_o softmax(Q K' / sqrt(C / H) + w) V``: self-attention with a weight ``w[t - s]`` for
    each head and distance, as in T5 (Raffel et al., JMLR 2020), which has them in buckets. It is
    what token mixings replace, to compare them with."""

    has_heads = True

    def __init__(self, cfg, channels, positions, causal):
        super().__init__()
        self.qkv, self.output = linear(channels, 3), linear(channels)
        self.distance = ToeplitzTokenMixing(cfg, channels, positions, causal)
        self.distance.bias = None

    def forward(self, x, padding_mask=None, history=None):
        query, keys_values = self.qkv(x).tensor_split((x.size(-1),), dim=-1)
        if history is not None:
            query = query.unsqueeze(0)  # 1 x R x C
            keys_values = history.recent(keys_values, history.position + 1).transpose(0, 1)
        length = len(keys_values)
        weights = self.distance.matrix(length)[:, -len(query) :]  # H x T x S
        if self.distance.causal:
            later = torch.ones_like(weights[0], dtype=torch.bool).triu(1 + length - len(query))
            weights = weights.masked_fill(later, float("-inf"))
        if padding_mask is not None:
            weights = weights.masked_fill(padding_mask[:, None, None], float("-inf"))
        qkv = (query, *keys_values.chunk(2, dim=-1))
        q, k, v = (h.unflatten(-1, (self.distance.heads, -1)).permute(1, 2, 0, 3) for h in qkv)
        y = F.scaled_dot_product_attention(q, k, v, weights.to(q.dtype))  # B x H x T x C / H
        return self.output(y.permute(2, 0, 1, 3).flatten(2).view(x.shape))


@register_mixing("hyena")
class Hyena(nn.Module):
    """``y = W_o (q * A (k * v))``, where q, k, v are ``W x`` under convolutions of three tokens,
    each channel by itself: the Hyena operator of order 2 (Poli et al., ICML 2023)."""

    has_heads = True

    def __init__(self, cfg, channels, positions, causal):
        super().__init__()
        self.qkv, self.output = linear(channels, 3), linear(channels)
        self.taps = nn.Parameter(torch.empty(3, 3 * channels).uniform_(-(3**-0.5), 3**-0.5))
        self.toeplitz = ToeplitzTokenMixing(cfg, channels, positions, causal)

    def forward(self, x, padding_mask=None, history=None):
        # its bias would reach other positions from the padding
        h = zero_padding(self.qkv(x), padding_mask)
        taken = neighbours(h, 3, 2 if self.toeplitz.causal else 1, history)
        q, k, v = sum(tap * h for tap, h in zip(self.taps, taken)).chunk(3, dim=-1)
        kv = zero_padding(k * v, padding_mask)
        return self.output(q * self.toeplitz(kv, padding_mask, history))


@register_mixing("posgate")
class PosGate(nn.Module):
    """``y = W_o (A v * GELU(W_g x))``, ``v = LN(GELU(W_v x))``: the unit of PosNet (Schmidt and
    Di Gangi, WMT 2023)."""

    has_heads = True
    activation, mixing = nn.GELU(), ToeplitzTokenMixing

    def __init__(self, cfg, channels, positions, causal):
        super().__init__()
        self.value_gate, self.output = linear(channels, 2), linear(channels)
        self.norm = nn.LayerNorm(channels)
        self.toeplitz = self.mixing(cfg, channels, positions, causal)

    def forward(self, x, padding_mask=None, history=None):
        value, gate = self.activation(self.value_gate(x)).chunk(2, dim=-1)
        value = zero_padding(self.norm(value), padding_mask)
        return self.output(self.toeplitz(value, padding_mask, history) * gate)


class SoftmaxMatrix(ToeplitzTokenMixing):
    """``A[t, s] = exp(e[t - s]) / sum over the sentence``, distances clipped to 16 tokens."""

    reach = 16

    def weight_shape(self):
        return self.heads, 2 * self.reach + 1

    def by_distance(self, length):
        distance = torch.arange(1 - length, length, device=self.weight.device)
        energy = self.weight - self.weight.amax(1, keepdim=True)
        w = energy.exp()[:, distance.clamp(-self.reach, self.reach) + self.reach]
        return w * (distance >= 0) if self.causal else w

    def mix(self, x, padding_mask=None, history=None):
        ones = zero_padding(x.new_ones(*x.shape[:-1], self.heads), padding_mask)
        total = super().mix(ones, history=history)
        y = super().mix(x, history=history).unflatten(-1, (self.heads, -1))
        return (y / total.unsqueeze(-1)).flatten(-2)


@register_mixing("rposnet")
class RelativePosNet(PosGate):
    """The unit of PosNet with the A of rPosNet, whose energies we let depend on the distance
    alone, not on t as well."""

    mixing = SoftmaxMatrix


class DecayingMatrix(ToeplitzTokenMixing):
    """``A[t, s] = 0.99^|t - s| MLP(t - s)``; A's own weights are the output layer of the MLP."""

    hidden = 32

    def __init__(self, cfg, channels, positions, causal):
        super().__init__(cfg, channels, positions, causal)
        layers = [nn.Linear(1, self.hidden), nn.LayerNorm(self.hidden), nn.ReLU()]
        layers += [nn.Linear(self.hidden, self.hidden), nn.LayerNorm(self.hidden), nn.ReLU()]
        self.mlp = nn.Sequential(*layers)

    def weight_shape(self):
        return self.heads, self.hidden

    def by_distance(self, length):
        distance = torch.arange(1 - length, length).to(self.weight).unsqueeze(1)
        w = (self.mlp(distance) * 0.99 ** distance.abs()) @ self.weight.t()
        return (w * (distance >= 0) if self.causal else w).t()


@register_mixing("tnn")
class ToeplitzNetwork(PosGate):
    """The gated Toeplitz unit of TNN (Qin et al., ICLR 2023)."""

    activation, mixing = nn.SiLU(), DecayingMatrix

    def __init__(self, cfg, channels, positions, causal):
        super().__init__(cfg, channels, positions, causal)
        self.norm = nn.Identity()
