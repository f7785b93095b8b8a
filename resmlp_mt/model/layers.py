"""The layers of the paper: residual branches ``x + dropout(post(f(pre(x))))``, eqs. 1 to 3.

``post`` is an affine map, ``pre`` one or a LayerNorm, where formulas say Aff(X). States are
T x B x C as in fairseq: positions, sentences, channels. A source has S positions, attention H
heads. In step-by-step decoding they are R x C: the newest position of R hypotheses.
"""

import torch
from fairseq.modules import FairseqDropout, LayerNorm, MultiheadAttention
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from torch import Tensor, nn
from torch.nn import functional as F

from resmlp_mt.model.memory import BeamHistory, DecodingMemory, SourceMemory
from resmlp_mt.model.mixing import TOKEN_MIXING, activation_function
from resmlp_mt.model.padding import zero_padding
from resmlp_mt_runtime.errors import UserError


class Affine(nn.Module):
    """``Aff(x) = Diag(alpha) x + beta``, eq. 1. Before a residual branch it starts as the identity;
    after one, alpha starts at the LayerScale value *init*, so that a deep model begins close to the
    identity."""

    def __init__(self, channels: int, init: float = 1.0):
        super().__init__()
        self.alpha = nn.Parameter(torch.full((channels,), float(init)))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.beta, self.alpha, x)


def build_norm(cfg, channels: int) -> nn.Module:
    """The map before a branch and after a stack: the paper's Affine, or LayerNorm."""
    return {"affine": Affine, "layernorm": LayerNorm}[str(cfg.normalization)](channels)


class Branch(nn.Module):
    """Common to the three branches: the maps before and after, and the dropout."""

    def __init__(self, cfg, channels: int):
        super().__init__()
        self.pre = build_norm(cfg, channels)
        self.post = Affine(channels, cfg.layerscale_init)
        self.dropout = FairseqDropout(cfg.dropout, module_name=self.__class__.__name__)


class TokenMixingBranch(Branch):
    """``Z = X + Aff(A Aff(X))``, eq. 2. *mixing* is A."""

    def __init__(self, cfg, channels: int, mixing: nn.Module):
        super().__init__(cfg, channels)
        self.mixing = mixing

    def forward(
        self, x: Tensor, padding_mask: Tensor | None = None, history: BeamHistory | None = None
    ) -> Tensor:
        """x is T x B x C, the mask B x T, True at padding; with a *history* x is R x C."""
        # the trained beta is not 0: without this, padding would reach every position
        h = zero_padding(self.pre(x), padding_mask)
        past = None if history is None else history.begin(self)
        y = self.mixing(h, padding_mask, past)
        if y.shape != x.shape:  # it would be broadcast
            raise UserError(f"{type(self.mixing).__name__}: returns {[*y.shape]}, not {[*x.shape]}")
        return x + self.dropout(self.post(y))


class FeedForwardBranch(Branch):
    """``Y = Z + Aff(C GELU(B Aff(Z)))``, eq. 3; ``fc1`` is B of the paper, ``fc2`` is C."""

    def __init__(self, cfg, channels: int, hidden: int):
        super().__init__(cfg, channels)
        self.fc1 = nn.Linear(channels, hidden)
        self.fc2 = nn.Linear(hidden, channels)
        self.activation_fn = activation_function(str(cfg.activation_fn))
        probability = float(cfg.activation_dropout or cfg.relu_dropout or 0)
        self.activation_dropout = FairseqDropout(probability, module_name=self.__class__.__name__)
        for linear in (self.fc1, self.fc2):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc2(self.activation_dropout(self.activation_fn(self.fc1(self.pre(x)))))
        return x + self.dropout(self.post(y))


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
        )

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor | None,
        mask: Tensor | None,
        source: SourceMemory | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """x is T x B x C, *encoder_out* S x B x C, *mask* B x 1 x 1 x S, which is added to the
        scores; with *source*, which replaces both, x is R x C. The weights are H x B x T x S, or
        H x R x 1 x S."""
        query, heads = self.attn.q_proj(self.pre(x)), self.attn.num_heads
        drop = self.attn.dropout_module
        probability = drop.p if drop.training or drop.apply_during_inference else 0.0
        if source is None:
            keys, values = keys_values(self.attn, encoder_out)
            query = split_heads(query, heads)
            y, weights = attend(query, keys, values, mask, probability, need_weights)
            y = y.permute(2, 0, 1, 3).flatten(2)
            if weights is not None:
                weights = weights.transpose(0, 1)
        else:
            keys, values = source.keys_values(self.attn, keys_values)
            query = source.by_sentence(query, heads)
            y, weights = attend(query, keys, values, source.mask, probability, need_weights)
            y = source.by_row(y)
            if weights is not None:
                weights = source.by_row(weights).unflatten(1, (heads, -1))
                weights = weights.transpose(0, 1).unsqueeze(2)
        return x + self.dropout(self.post(self.attn.out_proj(y))), weights


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


class ResMLPEncoderLayer(nn.Module):
    """Mix positions (eq. 2), then channels (eq. 3)."""

    def __init__(self, cfg):
        super().__init__()
        channels, positions = cfg.encoder.embed_dim, cfg.max_source_positions
        self.token_mixing = build_token_mixing_branch(cfg, channels, positions, causal=False)
        self.feed_forward = FeedForwardBranch(cfg, channels, cfg.encoder.ffn_embed_dim)

    def forward(self, x: Tensor, encoder_padding_mask: Tensor | None) -> Tensor:
        """x is T x B x C, the mask B x T, True at padding, which is on the right."""
        if self.token_mixing is not None:
            x = self.token_mixing(x, encoder_padding_mask)
        return self.feed_forward(x)

    def upgrade_state_dict_named(self, state_dict, name):
        """fairseq's encoder calls this on each layer; no checkpoint of ours needs it."""


class ResMLPDecoderLayer(nn.Module):
    """Mix positions with a triangular matrix, attend to the source, mix channels."""

    def __init__(self, cfg):
        super().__init__()
        channels, positions = cfg.decoder.embed_dim, cfg.max_target_positions
        self.token_mixing = build_token_mixing_branch(cfg, channels, positions, causal=True)
        self.cross_attention = CrossAttentionBranch(cfg)
        self.feed_forward = FeedForwardBranch(cfg, channels, cfg.decoder.ffn_embed_dim)

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor | None = None,
        mask: Tensor | None = None,
        memory: DecodingMemory | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """x is T x B x C, padded on the right, *encoder_out* S x B x C, *mask* B x 1 x 1 x S; with
        *memory*, which replaces both, x is R x C. The weights are H x B x T x S, or
        H x R x 1 x S."""
        history, source = (None, None) if memory is None else (memory.history, memory.source)
        if self.token_mixing is not None:
            # no padding mask: A is triangular, and the padding is to the right of every token
            x = self.token_mixing(x, history=history)
        x, weights = self.cross_attention(x, encoder_out, mask, source, need_weights)
        return self.feed_forward(x), weights


def build_token_mixing_branch(
    cfg, channels: int, positions: int, causal: bool
) -> TokenMixingBranch | None:
    """The branch of eq. 2 with the mixing that ``cfg.token_mixing`` names; None for ``none``."""
    if cfg.token_mixing == "none":
        return None
    mixing = TOKEN_MIXING[str(cfg.token_mixing)](cfg, channels, positions, causal)
    return TokenMixingBranch(cfg, channels, mixing)


def wrap_layer(cfg, layer: nn.Module) -> nn.Module:
    """*layer*, with activation checkpointing if *cfg* asks for it."""
    if not cfg.checkpoint_activations:
        return layer
    return checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
