"""The residual branches of a ResMLP layer, eqs. 2 and 3: ``x + dropout(post(f(pre(x))))``.

``pre`` is an affine map that starts as the identity, ``post`` one that starts at the LayerScale
value. States are T x B x C, fairseq's layout. Word-by-word decoding has R x C: the newest
position of R hypotheses.
"""

from functools import partial
from typing import Optional, Tuple

from fairseq.modules import LayerNorm, MultiheadAttention
from fairseq.modules.quant_noise import quant_noise
from torch import Tensor, nn

from resmlp_mt.decoding.history import BeamHistory
from resmlp_mt.decoding.memory import SourceMemory
from resmlp_mt.model.affine import Affine
from resmlp_mt.model.attention import attend, join_heads, keys_values, split_heads
from resmlp_mt.model.folding import absorb, after, unchanged, with_parts
from resmlp_mt.model.lean_training import Dropout, activation_function, compose
from resmlp_mt.model.mixing_kinds import TOKEN_MIXING, NoTokenMixing
from resmlp_mt.model.padding import zero_padding


def build_norm(cfg, channels: int) -> nn.Module:
    """The map before a branch and after a stack: the paper's Affine or, to compare, LayerNorm."""
    return Affine(channels) if cfg.normalization == "affine" else LayerNorm(channels)


class Branch(nn.Module):
    """What the three branches share: the maps before and after, and the dropout of the sum."""

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

    def forward(
        self,
        x: Tensor,
        padding_mask: Optional[Tensor] = None,
        history: Optional[BeamHistory] = None,
    ) -> Tensor:
        """x is T x B x C, the mask B x T, True at padding; with *history* x is R x C."""
        # beta is not 0 after training: padding would reach every position
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


def build_token_mixing_branch(cfg, channels: int, positions: int, causal: bool) -> nn.Module:
    """The branch of eq. 2 with the kind of mixing that ``cfg.token_mixing`` names."""
    mixing = TOKEN_MIXING[str(cfg.token_mixing)].build(cfg, channels, positions, causal)
    nothing = isinstance(mixing, NoTokenMixing)
    return mixing if nothing else TokenMixingBranch(cfg, channels, mixing)


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
        encoder_out: Optional[Tensor],
        mask: Optional[Tensor],
        source: Optional[SourceMemory] = None,
        need_weights: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """x is T x B x C, *encoder_out* S x B x C, *mask* B x 1 x 1 x S, added to the scores; with
        *source*, read instead of both, x is R x C. The weights are H x B x T x S."""
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
        y = join_heads(y) if source is None else source.by_row(y)
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
