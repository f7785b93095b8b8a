"""The residual branches of a ResMLP layer, eqs. 2 and 3: ``post(f(pre(x)))``.

``pre`` is an affine map that starts as the identity, ``post`` one that starts at the LayerScale
value. Hidden states are T x B x C, fairseq's layout.
"""

from typing import Optional, Tuple

from fairseq import utils
from fairseq.modules import LayerNorm, MultiheadAttention
from fairseq.modules.quant_noise import quant_noise
from torch import Tensor, nn
from torch.nn import functional as F

from resmlp_mt.modules.affine import Affine
from resmlp_mt.modules.attention import attend, hide_padding, join_heads, split_heads
from resmlp_mt.modules.beam_history import BeamHistory
from resmlp_mt.modules.dropout import Dropout
from resmlp_mt.modules.fused import activation_linear, fused_linear
from resmlp_mt.modules.mixing_kinds import build_token_mixing, commutes
from resmlp_mt.modules.mixing_maps import apply_maps, mixing_maps
from resmlp_mt.modules.source_memory import SourceMemory


def build_norm(cfg, channels: int) -> nn.Module:
    """The map before a branch and after a stack: the paper's Affine or, to compare, LayerNorm."""
    return Affine(channels) if cfg.normalization == "affine" else LayerNorm(channels)


class Branch(nn.Module):
    """What the three branches share: the maps before and after, and the dropout of the sum."""

    def __init__(self, cfg, channels: int):
        super().__init__()
        self.pre: Optional[nn.Module] = build_norm(cfg, channels)
        self.post: Optional[Affine] = Affine(channels, cfg.layerscale_init)
        self.dropout = Dropout(cfg.dropout, module_name=self.__class__.__name__)

    def enter(self, x: Tensor) -> Tensor:
        return x if self.pre is None else self.pre(x)

    def leave(self, x: Tensor, y: Tensor) -> Tensor:
        """The residual sum; *x* is what came into the branch, *y* what its middle made of it."""
        return self.add(x, y if self.post is None else self.post(y))

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """:meth:`leave` where the map after the branch is in *y* already."""
        if self.training or self.dropout.apply_during_inference:
            y = self.dropout(y)
        return x + y

    def enter_fused(self, x: Tensor) -> Tensor:
        """:meth:`enter` where an affine map is taken by what follows."""
        return x if isinstance(self.pre, Affine) else self.enter(x)

    def fuses(self, *linears: nn.Module) -> bool:
        """Whether training may take the maps into these layers' weights: nobody else changes or
        watches what the layers see (quantization noise does)."""
        return self.training and all(
            type(linear) is nn.Linear and not (linear._forward_pre_hooks or linear._forward_hooks)
            for linear in linears
        )


class TokenMixingBranch(Branch):
    """``Z = X + Aff(A Aff(X))``, eq. 2."""

    def __init__(self, cfg, channels: int, mixing: nn.Module):
        super().__init__(cfg, channels)
        self.mixing = mixing
        self.folded: Optional[nn.Module] = None

    def forward(
        self,
        x: Tensor,
        padding_mask: Optional[Tensor] = None,
        history: Optional[BeamHistory] = None,
    ) -> Tensor:
        """
        Args:
            x: T x B x C; with *history* the newest position only, 1 x B x C.
            padding_mask: B x T, True at padding, or None if there is none.
            history: the past of word-by-word decoding.
        """
        fuses = self.fuses() and history is None and commutes(self.mixing)
        h = self.enter_fused(x) if fuses else self.enter(x)
        if padding_mask is not None:
            # beta is not 0 after training: without this, padding would reach every position
            h = h.masked_fill(padding_mask.t().unsqueeze(-1), 0)
        if fuses:
            maps = mixing_maps(self.mixing, self.pre, self.post, len(x))
            return self.add(x, apply_maps(self.mixing, self.mixing.mix(h), maps, padding_mask))
        if self.folded is not None:
            y = self.folded(h, self.mixing, padding_mask, history)
        else:
            y = self.mixing(h, history, padding_mask)
        return self.leave(x, y)


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
    """``Y = Z + Aff(C GELU(B Aff(Z)))``, eq. 3; ``fc1`` is the paper's B, ``fc2`` its C."""

    def __init__(self, cfg, channels: int, hidden: int):
        super().__init__(cfg, channels)
        noise = (cfg.quant_noise.pq, cfg.quant_noise.pq_block_size)
        self.fc1 = quant_noise(nn.Linear(channels, hidden), *noise)
        self.fc2 = quant_noise(nn.Linear(hidden, channels), *noise)
        self.activation_fn = utils.get_activation_fn(str(cfg.activation_fn))
        self.activation_dropout = Dropout(
            float(cfg.activation_dropout or cfg.relu_dropout or 0),
            module_name=self.__class__.__name__,
        )
        for linear in (self.fc1, self.fc2):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.fuses(self.fc1, self.fc2) and not self.activation_dropout.p:
            z = F.linear(self.enter_fused(x), *fused_linear(self.fc1, self.pre, None))
            y = activation_linear(z, *fused_linear(self.fc2, None, self.post), self.activation_fn)
            return self.add(x, y)
        h = self.activation_dropout(self.activation_fn(self.fc1(self.enter(x))))
        return self.leave(x, self.fc2(h))


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
        encoder_padding_mask: Optional[Tensor],
        source: Optional[SourceMemory] = None,
        need_weights: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """
        Args:
            x: T x B x C; with *source* the newest position only, 1 x B x C.
            encoder_out: S x B x C.
            encoder_padding_mask: B x S, True at padding.
            source: in word-by-word decoding, the memory that is read in place of these two.
            need_weights: also return the attention weights.

        Returns:
            T x B x C, and None or the attention weights by head, H x B x T x S.
        """
        if source is not None:
            query = self.attn.q_proj(self.enter(x)[0])
            y, weights = source.attend(id(self), self.attn, query, need_weights)
            return self.leave(x, self.attn.out_proj(y).unsqueeze(0)), weights
        attn = self.attn
        fuses = self.fuses(attn.q_proj, attn.out_proj)
        if fuses:
            query = F.linear(self.enter_fused(x), *fused_linear(attn.q_proj, self.pre, None))
        else:
            query = attn.q_proj(self.enter(x))
        keys, values = attn.k_proj(encoder_out), attn.v_proj(encoder_out)
        dropout = attn.dropout_module
        y, weights = attend(
            *(split_heads(h, attn.num_heads) for h in (query, keys, values)),
            None
            if encoder_padding_mask is None
            else hide_padding(encoder_padding_mask, query.dtype),
            dropout.p if self.training or dropout.apply_during_inference else 0.0,
            need_weights,
        )
        if weights is not None:
            weights = weights.transpose(0, 1)
        y = join_heads(y)
        if fuses:
            y = F.linear(y, *fused_linear(attn.out_proj, None, self.post))
            return self.add(x, y), weights
        return self.leave(x, attn.out_proj(y)), weights
