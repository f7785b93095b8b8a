"""One layer of the encoder and one of the decoder: the residual branches in the paper's order."""

from typing import Optional, Tuple

from torch import Tensor, nn

from resmlp_mt.decoding.memory import DecodingMemory
from resmlp_mt.model.branches import (
    CrossAttentionBranch,
    FeedForwardBranch,
    build_token_mixing_branch,
)


class ResMLPEncoderLayer(nn.Module):
    """Mix positions (eq. 2), then channels (eq. 3)."""

    def __init__(self, cfg):
        super().__init__()
        channels = cfg.encoder.embed_dim
        self.token_mixing = build_token_mixing_branch(
            cfg, channels, cfg.max_source_positions, causal=False
        )
        self.feed_forward = FeedForwardBranch(cfg, channels, cfg.encoder.ffn_embed_dim)

    def forward(self, x: Tensor, encoder_padding_mask: Optional[Tensor]) -> Tensor:
        """
        Args:
            x: T x B x C.
            encoder_padding_mask: B x T, True at padding (on the right), or None.
        """
        x = self.token_mixing(x, encoder_padding_mask)
        return self.feed_forward(x)

    def upgrade_state_dict_named(self, state_dict, name):
        """fairseq's encoder calls this on each layer. No older checkpoint has to be changed."""


class ResMLPDecoderLayer(nn.Module):
    """Mix positions with a triangular matrix, attend to the source, mix channels."""

    def __init__(self, cfg, no_encoder_attn: bool = False):
        super().__init__()
        channels = cfg.decoder.embed_dim
        self.token_mixing = build_token_mixing_branch(
            cfg, channels, cfg.max_target_positions, causal=True
        )
        self.cross_attention = None if no_encoder_attn else CrossAttentionBranch(cfg)
        self.feed_forward = FeedForwardBranch(cfg, channels, cfg.decoder.ffn_embed_dim)

    def forward(
        self,
        x: Tensor,
        encoder_out: Optional[Tensor] = None,
        mask: Optional[Tensor] = None,
        incremental_state: Optional[dict] = None,
        need_attn: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """
        Args:
            x: T x B x C, padded on the right; with *incremental_state* the newest position only,
                R x C.
            encoder_out: S x B x C, or None for no cross-attention.
            mask: B x 1 x 1 x S, what hides the padding of the source, or None.
            incremental_state: where the memory of word-by-word decoding is; *encoder_out* is not
                read then.
            need_attn: also return the attention weights.

        Returns:
            the shape of *x*, and the attention weights by head, H x B x T x S, or None.
        """
        history = source = None
        if incremental_state is not None:
            memory = DecodingMemory.of(incremental_state)
            history, source = memory.history, memory.source
        # no padding mask: A is triangular, and padding stands to the right of every word
        x = self.token_mixing(x, history=history)
        weights = None
        if self.cross_attention is not None and (encoder_out is not None or source is not None):
            x, weights = self.cross_attention(x, encoder_out, mask, source, need_attn)
        return self.feed_forward(x), weights
