"""The residual branches of a ResMLP layer, eqs. 2 and 3: ``x + dropout(post(f(pre(x))))``.

``pre`` is an affine map that starts as the identity, ``post`` one that starts at the LayerScale
value. States are T x B x C, fairseq's layout. Word-by-word decoding has R x C: the newest
position of R hypotheses.
"""

from collections.abc import Callable
from functools import partial

import torch
from fairseq import utils
from fairseq.modules import FairseqDropout, LayerNorm, MultiheadAttention
from fairseq.modules.quant_noise import quant_noise
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F

from resmlp_mt.model.affine import Affine
from resmlp_mt.model.folding import after, before, with_parts
from resmlp_mt.model.memory import SourceMemory
from resmlp_mt.model.padding import zero_padding


def build_norm(cfg, channels: int) -> nn.Module:
    """The map before a branch and after a stack: the paper's Affine or, to compare, LayerNorm."""
    return Affine(channels) if cfg.normalization == "affine" else LayerNorm(channels)


def unchanged(x: Tensor) -> Tensor:
    """Stands in for an absorbed map. Calling a module that does nothing would cost time."""
    return x


def absorb(norm: nn.Module, linear: nn.Linear) -> tuple:
    """*norm* and the *linear* after it, folded unless *norm* is a LayerNorm."""
    return (unchanged, before(norm, linear)) if isinstance(norm, Affine) else (norm, linear)


class Branch(nn.Module):
    """What the three branches share: the maps before and after, and the dropout."""

    def __init__(self, cfg, channels: int):
        super().__init__()
        self.pre = build_norm(cfg, channels)
        self.post = Affine(channels, cfg.layerscale_init)
        self.dropout = Dropout(cfg.dropout, module_name=self.__class__.__name__)


class TokenMixingBranch(Branch):
    """``Z = X + Aff(A Aff(X))``, eq. 2. *mixing* is A."""

    def __init__(self, cfg, channels: int, mixing: nn.Module):
        super().__init__(cfg, channels)
        self.mixing = mixing

    def forward(self, x: Tensor, padding_mask=None, history=None) -> Tensor:
        """x is T x B x C, the mask B x T, True at padding; with a *history* x is R x C."""
        # the trained beta is not 0: without this, padding would reach every position
        h = zero_padding(self.pre(x), padding_mask)
        y = self.mixing(h, history, padding_mask)
        return x + self.dropout(self.post(y))

    def folded(self) -> nn.Module:
        if not hasattr(self.mixing, "folded"):
            return self
        absorbed = isinstance(self.pre, Affine)
        mixing = self.mixing.folded(self.pre if absorbed else None, self.post)
        pre = unchanged if absorbed else self.pre
        return with_parts(self, pre=pre, mixing=mixing, post=unchanged)


class FeedForwardBranch(Branch):
    """``Y = Z + Aff(C GELU(B Aff(Z)))``, eq. 3; ``fc1`` is B of the paper, ``fc2`` is C."""

    def __init__(self, cfg, channels: int, hidden: int):
        super().__init__(cfg, channels)
        noise = (cfg.quant_noise.pq, cfg.quant_noise.pq_block_size)
        self.fc1 = quant_noise(nn.Linear(channels, hidden), *noise)
        self.fc2 = quant_noise(nn.Linear(hidden, channels), *noise)
        self.activation_fn = activation_function(str(cfg.activation_fn))
        share = float(cfg.activation_dropout or cfg.relu_dropout or 0)
        self.activation_dropout = Dropout(share, module_name=self.__class__.__name__)
        for linear in (self.fc1, self.fc2):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        h = compose(self.fc1, self.pre, x)
        y = compose(self._dropped_fc2, self.activation_fn, h)
        return x + self.dropout(self.post(y))

    def _dropped_fc2(self, h: Tensor) -> Tensor:
        return self.fc2(self.activation_dropout(h))

    def folded(self) -> nn.Module:
        pre, fc1 = absorb(self.pre, self.fc1)
        return with_parts(self, pre=pre, fc1=fc1, fc2=after(self.fc2, self.post), post=unchanged)


class CrossAttentionBranch(Branch):
    """``Y = X + Aff(Attention(Aff(X), encoder output))``: kept from the Transformer."""

    def __init__(self, cfg):
        channels = cfg.decoder.embed_dim
        super().__init__(cfg, channels)
        self.attn = MultiheadAttention(
            channels,
            cfg.decoder.attention_heads,
            kdim=cfg.encoder.embed_dim,
            vdim=cfg.encoder.embed_dim,
            dropout=cfg.attention_dropout,
            encoder_decoder_attention=True,
            q_noise=cfg.quant_noise.pq,
            qn_block_size=cfg.quant_noise.pq_block_size,
        )

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor | None,
        mask: Tensor | None,
        source: SourceMemory | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """x is T x B x C, *encoder_out* S x B x C, *mask* B x 1 x 1 x S; with *source*,
        which stands for both, x is R x C. The weights are H x B x T x S."""
        query, heads = compose(self.attn.q_proj, self.pre, x), self.attn.num_heads
        if source is None:
            keys, values = keys_values(self.attn, encoder_out)
            query = split_heads(query, heads)
        else:
            keys, values = source.keys_values(id(self), partial(keys_values, self.attn))
            query, mask = source.by_sentence(query, heads), source.mask
        drop = self.attn.dropout_module
        share = drop.p if drop.training or drop.apply_during_inference else 0.0
        y, weights = attend(query, keys, values, mask, share, need_weights)
        y = y.permute(2, 0, 1, 3).flatten(2) if source is None else source.by_row(y)
        if weights is not None and source is None:
            weights = weights.transpose(0, 1)
        elif weights is not None:
            weights = source.by_row(weights).unflatten(1, (heads, -1)).transpose(0, 1).unsqueeze(2)
        return x + self.dropout(self.post(self.attn.out_proj(y))), weights

    def folded(self) -> nn.Module:
        pre, q_proj = absorb(self.pre, self.attn.q_proj)
        out_proj = after(self.attn.out_proj, self.post)
        attn = with_parts(self.attn, q_proj=q_proj, out_proj=out_proj)
        return with_parts(self, pre=pre, attn=attn, post=unchanged)


def keys_values(attention: nn.Module, states: Tensor) -> tuple[Tensor, Tensor]:
    """S x B x C to fairseq's keys and values, B x H x S x C / H each."""
    keys, values = attention.k_proj(states), attention.v_proj(states)
    return split_heads(keys, attention.num_heads), split_heads(values, attention.num_heads)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """T x B x C to B x H x T x C / H."""
    length, batch, _ = x.shape
    return x.reshape(length, batch, heads, -1).permute(1, 2, 0, 3)


def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    dropout: float,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """``softmax(Q K' / sqrt(C / H) + mask) V``, B x H x T x C / H, and, if asked for, the weights
    before dropout, B x H x T x S, in float32 at least. *mask* is B x 1 x 1 x S."""
    if not need_weights:
        return F.scaled_dot_product_attention(queries, keys, values, mask, dropout), None
    scores = (queries * queries.size(-1) ** -0.5) @ keys.transpose(2, 3)
    if mask is not None:
        scores = scores + mask
    weights = torch.softmax(scores, -1, dtype=torch.promote_types(scores.dtype, torch.float32))
    return F.dropout(weights.to(values.dtype), dropout) @ values, weights


# ---- what PyTorch and fairseq have too, here with less time and memory ------------------------


def activation_function(name: str) -> Callable[[Tensor], Tensor]:
    """fairseq's function of that name, but for its ``gelu``, which turns 16-bit states into
    float32 and back: two passes over memory."""
    return F.gelu if name == "gelu" else utils.get_activation_fn(name)


class Dropout(FairseqDropout):
    """fairseq's dropout; on a CPU it keeps one byte an element for the backward pass."""

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        on = self.training or self.apply_during_inference
        here = x.device.type == "cpu" and not torch.compiler.is_compiling()
        if on and here and 0 < self.p < 1:
            return (x * random_mask(x, self.p)).mul_(1 / (1 - self.p))
        return super().forward(x, inplace)


_LEVELS = 1 << 16  # of a random number of 16 bits


def random_mask(x: Tensor, p: float) -> Tensor:
    """A boolean mask like *x*, False with probability *p* (to the nearest 1 / 65536). 64 random
    bits make four elements: on a CPU six times as fast as ``Tensor.bernoulli_``."""
    bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64, device=x.device)
    numbers = bits.random_(-(1 << 63), None).view(torch.int16)[: x.numel()]
    dropped = min(round(p * _LEVELS), _LEVELS - 1)
    return (numbers >= dropped - _LEVELS // 2).view(x.shape)


def compose(linear: Callable, function: Callable, x: Tensor) -> Tensor:
    """``linear(function(x))``, keeping x for the backward pass, which computes ``function(x)``
    again: *function* must be cheap and deterministic."""
    if (
        not torch.is_grad_enabled()
        # the compiler decides what is kept
        or torch.compiler.is_compiling()
        # the backward pass has no autocast: the function would return another type
        or torch.is_autocast_enabled(x.device.type)
    ):
        return linear(function(x))
    kept: list[list] = []

    def pack(tensor: Tensor) -> list:
        kept.append([tensor])
        return kept[-1]

    def unpack(entry: list) -> Tensor:
        if isinstance(entry[0], Tensor):
            return entry[0]
        return function(x).as_strided(*entry[0])

    with saved_tensors_hooks(pack, unpack):
        h = function(x)
        y = linear(h)
    again = h.untyped_storage()._cdata
    for entry in kept:
        tensor = entry[0]
        if tensor.untyped_storage()._cdata == again:
            entry[0] = tensor.size(), tensor.stride(), tensor.storage_offset()
    kept.clear()
    return y
