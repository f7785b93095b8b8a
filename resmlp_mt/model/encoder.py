"""The encoder: fairseq's Transformer encoder with ResMLP layers in it."""

import torch
from fairseq.models.transformer import TransformerEncoderBase
from torch import Tensor

from resmlp_mt.model.inference import FoldedLayers
from resmlp_mt.model.layers import ResMLPEncoderLayer, build_norm, wrap_layer
from resmlp_mt.model.padding import check_length, known_empty, turn_back, turn_right


class ResMLPEncoder(TransformerEncoderBase):
    """Embeddings, a stack of :class:`ResMLPEncoderLayer`, a final norm."""

    folded: FoldedLayers | None = None  # in inference

    def __init__(self, cfg, dictionary, embed_tokens):
        super().__init__(cfg, dictionary, embed_tokens)
        # under the name of the Transformer's final LayerNorm
        self.layer_norm = build_norm(cfg, embed_tokens.embedding_dim)

    def build_encoder_layer(self, cfg):
        return wrap_layer(cfg, ResMLPEncoderLayer(cfg))

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
    ) -> dict:
        """fairseq's encoder output for B x T tokens, padded on either side; the states are padded
        like them. encoder_states: the embeddings, then the output of each layer, T x B x C.
        Raises a UserError for a sentence that is too long."""
        check_length(src_tokens, self.max_source_positions, "source")
        tokens, order = turn_right(src_tokens, self.padding_idx)
        x, _ = self.forward_embedding(tokens)
        x = x.transpose(0, 1).contiguous()
        padding = tokens.eq(self.padding_idx)
        if known_empty(padding):
            padding = None
        states = [x] if return_all_hiddens else []
        for layer in self.layers if self.folded is None else self.folded(self.layers):
            x = layer(x, padding)
            if return_all_hiddens:
                states.append(x)
        x = self.layer_norm(x)
        if order is not None:
            x, *states = (turn_back(h, order) for h in [x, *states])
        own = src_tokens.ne(self.padding_idx)
        return {
            "encoder_out": [x],
            "encoder_padding_mask": [~own],
            "encoder_embedding": [],
            "encoder_states": states,
            "fc_results": [],
            "src_tokens": [],
            "src_lengths": [own.sum(dim=1, keepdim=True, dtype=torch.int32)],
        }
