"""The residual branches of a ResMLP layer, eqs. 2 and 3: ``x + dropout(post(f(pre(x))))``.

``pre`` is an affine map that starts as the identity, ``post`` one that starts at the LayerScale
value. Hidden states are T x B x C, fairseq's layout. Word-by-word decoding has R x C: the newest
position of R hypotheses.
"""

from functools import partial
from typing import Optional, Tuple

from fairseq.modules import LayerNorm, MultiheadAttention
from fairseq.modules.quant_noise import quant_noise
from torch import Tensor, nn

from resmlp_mt.decoding.history import BeamHistory
from resmlp_mt.decoding.memory import SourceMemory
from resmlp_mt.model.activation import activation_function
from resmlp_mt.model.affine import Affine
from resmlp_mt.model.attention import attend, dropout_of, join_heads, keys_values, split_heads
from resmlp_mt.model.dropout import Dropout
from resmlp_mt.model.mixing_kinds import build_token_mixing
from resmlp_mt.model.padding import zero_padding
from resmlp_mt.model.recomputation import compose


def build_norm(cfg, channels: int) -> nn.Module:
    """The map before a branch and after a stack: the paper's Affine or, to compare, LayerNorm."""
    return Affine(channels) if cfg.normalization == "affine" else LayerNorm(channels)


class Branch(nn.Module):
    """What the three branches share: the maps before and after, and the dropout of the sum.

    Args:
        cfg: a :class:`~resmlp_mt.model.config.ResMLPConfig`.
        channels: C.
    """

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
        """
        Args:
            x: T x B x C; with *history* the newest position only, R x C.
            padding_mask: B x T, True at padding, or None if there is none.
            history: the past of word-by-word decoding.
        """
        # beta is not 0 after training: padding would reach every position
        h = zero_padding(self.pre(x), padding_mask)
        y = self.mixing(h, history, padding_mask)
        return x + self.dropout(self.post(y))


class NoTokenMixing(nn.Module):
    """For ``--token-mixing none``, in the place of :class:`TokenMixingBranch`: adds nothing."""

    def forward(
        self,
        x: Tensor,
        padding_mask: Optional[Tensor] = None,
        history: Optional[BeamHistory] = None,
    ) -> Tensor:
        return x


def build_token_mixing_branch(cfg, channels: int, positions: int, causal: bool) -> nn.Module:
    """The branch of eq. 2 with the kind of mixing that ``cfg.token_mixing`` names."""
    mixing = build_token_mixing(cfg, channels, positions, causal)
    return NoTokenMixing() if mixing is None else TokenMixingBranch(cfg, channels, mixing)


class FeedForwardBranch(Branch):
    """``Y = Z + Aff(C GELU(B Aff(Z)))``, eq. 3; ``fc1`` is B of the paper, ``fc2`` is C, with
    *hidden* channels between them."""

    def __init__(self, cfg, channels: int, hidden: int):
        super().__init__(cfg, channels)
        noise = (cfg.quant_noise.pq, cfg.quant_noise.pq_block_size)
        self.fc1 = quant_noise(nn.Linear(channels, hidden), *noise)
        self.fc2 = quant_noise(nn.Linear(hidden, channels), *noise)
        self.activation_fn = activation_function(str(cfg.activation_fn))
        self.activation_dropout = Dropout(
            float(cfg.activation_dropout or cfg.relu_dropout or 0),
            module_name=self.__class__.__name__,
        )
        for linear in (self.fc1, self.fc2):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """T x B x C, or R x C, to the same."""
        h = compose(self.fc1, self.pre, x)
        y = compose(self._dropped_fc2, self.activation_fn, h)
        return x + self.dropout(self.post(y))

    def _dropped_fc2(self, h: Tensor) -> Tensor:
        return self.fc2(self.activation_dropout(h))


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
        """
        Args:
            x: T x B x C; with *source* the newest position only, R x C.
            encoder_out: S x B x C.
            mask: B x 1 x 1 x S, what is added to the attention scores, or None.
            source: in word-by-word decoding, the memory that is read in place of these two.
            need_weights: also return the attention weights.

        Returns:
            the shape of *x*, and None or the attention weights by head, H x B x T x S.
        """
        query, heads = compose(self.attn.q_proj, self.pre, x), self.attn.num_heads
        if source is None:
            keys, values = keys_values(self.attn, encoder_out)
            query = split_heads(query, heads)
        else:
            keys, values = source.keys_values(id(self), partial(keys_values, self.attn))
            query, mask = source.by_sentence(query, heads), source.mask
        y, weights = attend(query, keys, values, mask, dropout_of(self.attn), need_weights)
        y = join_heads(y) if source is None else source.by_row(y)
        if weights is not None and source is None:
            weights = weights.transpose(0, 1)
        elif weights is not None:
            weights = source.by_row(weights).unflatten(1, (heads, -1)).transpose(0, 1).unsqueeze(2)
        return x + self.dropout(self.post(self.attn.out_proj(y))), weights
