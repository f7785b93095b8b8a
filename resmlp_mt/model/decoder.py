"""The decoder: fairseq's Transformer decoder with ResMLP layers in it."""

from typing import Dict, List, Optional, Tuple

from fairseq.models.transformer import TransformerDecoderBase
from fairseq.modules import LearnedPositionalEmbedding
from torch import Tensor

from resmlp_mt.decoding.memory import DecodingMemory, SourceMemory
from resmlp_mt.model.branches import build_norm
from resmlp_mt.model.encoder import wrap_layer
from resmlp_mt.model.layers import ResMLPDecoderLayer
from resmlp_mt.model.padding import check_length, hide_padding, turn_back, turn_right


class ResMLPDecoder(TransformerDecoderBase):
    """Embeddings, a stack of :class:`ResMLPDecoderLayer`, a final affine map, the output layer.

    Args:
        cfg: a :class:`~resmlp_mt.model.config.ResMLPConfig`.
        dictionary: the target dictionary.
        embed_tokens: V x C embedding.
        no_encoder_attn: leave the cross-attention out.
        output_projection: an output layer to use in place of a new one.
    """

    def __init__(
        self, cfg, dictionary, embed_tokens, no_encoder_attn=False, output_projection=None
    ):
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn, output_projection)
        if not cfg.no_decoder_final_norm:
            # in the place, and under the name, of the Transformer's final LayerNorm
            self.layer_norm = build_norm(cfg, cfg.decoder.embed_dim)

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        return wrap_layer(cfg, ResMLPDecoderLayer(cfg, no_encoder_attn))

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[Dict[str, List[Tensor]]] = None,
        incremental_state: Optional[dict] = None,
        full_context_alignment: bool = False,
        alignment_layer: Optional[int] = None,
        alignment_heads: Optional[int] = None,
    ):
        """
        Args:
            prev_output_tokens: B x T, padded on either side; with *incremental_state*, all words
                so far, of which the last is new.
            encoder_out: what :meth:`ResMLPEncoder.forward` returned.
            incremental_state: the memory of word-by-word decoding, an empty dict at first.
            full_context_alignment: not for this model, whose A is triangular by construction.
            alignment_layer: the layer whose attention is returned (default: the last).
            alignment_heads: average the attention over that many heads (default: all).

        Returns:
            the features, B x T x C, and ``{"attn": [B x T x S], "inner_states": [T x B x C ...]}``.

        Raises:
            UserError: if the batch, with its padding, is wider than ``--max-target-positions``.
            ValueError: if *incremental_state* has not seen exactly the words before the last, or
                for *full_context_alignment*.
        """
        if full_context_alignment:
            raise ValueError(
                "full_context_alignment: a triangular A sees no future word: leave the option off"
            )
        length = prev_output_tokens.size(1)
        check_length(prev_output_tokens, self.padding_idx, self.max_target_positions, "target")
        attention = alignment_layer, alignment_heads
        if incremental_state is not None:
            remembered = len(DecodingMemory.of(incremental_state).history)
            if remembered != length - 1:
                raise ValueError(
                    f"incremental_state holds {remembered} words, but prev_output_tokens "
                    f"has {length - 1} before the newest: feed one word at a time"
                )
            newest = prev_output_tokens[:, -1]
            features, extra = self._features(newest, encoder_out, incremental_state, *attention)
            extra["inner_states"] = [x.unsqueeze(0) for x in extra["inner_states"]]
            return features.unsqueeze(1), extra
        tokens, order = turn_right(prev_output_tokens, self.padding_idx)
        features, extra = self._features(tokens, encoder_out, None, *attention)
        if order is not None:
            features = turn_back(features, order, batch_first=True)
            extra["attn"] = [
                None if x is None else turn_back(x, order, batch_first=True) for x in extra["attn"]
            ]
            extra["inner_states"] = [
                turn_back(x, order, batch_first=False) for x in extra["inner_states"]
            ]
        return features, extra

    def newest_features(self, words: Tensor, encoder_out: dict, incremental_state: dict) -> Tensor:
        """:meth:`extract_features` for a beam search that keeps its words itself: the newest word
        of each hypothesis, R, to R x C."""
        return self._features(words, encoder_out, incremental_state)[0]

    def _features(
        self,
        tokens: Tensor,
        encoder_out: Optional[dict],
        incremental_state: Optional[dict],
        alignment_layer: Optional[int] = None,
        alignment_heads: Optional[int] = None,
    ):
        """What :meth:`extract_features` returns, for tokens padded on the right, B x T.

        With *incremental_state* the tokens are the newest words, R, and the features and the states
        of each layer R x C.
        """
        source = mask = memory = None
        need_attention = True
        if incremental_state is None:
            source, mask = self._source(encoder_out)
        else:
            memory = self._begin_word(tokens, encoder_out, incremental_state)
            need_attention = memory.need_attention
        if alignment_layer is None:
            alignment_layer = self.num_layers - 1
        x = self._embed(tokens, memory)
        if memory is None:
            x = x.transpose(0, 1).contiguous()
        attention, states = None, [x]
        for number, layer in enumerate(self.layers):
            wanted = need_attention and number == alignment_layer
            x, weights = layer(x, source, mask, incremental_state, wanted)
            states.append(x)
            if weights is not None:
                attention = weights[:alignment_heads].mean(dim=0).to(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        if memory is None:
            x = x.transpose(0, 1)
        if self.project_out_dim is not None:
            x = self.project_out_dim(x)
        return x, {"attn": [attention], "inner_states": states}

    def _begin_word(
        self, words: Tensor, encoder_out: Optional[dict], incremental_state: dict
    ) -> DecodingMemory:
        """The memory with room for the newest words, R, and, from the first one on, the source."""
        memory = DecodingMemory.of(incremental_state)
        if memory.source is None and encoder_out is not None and encoder_out["encoder_out"]:
            states, mask = self._source(encoder_out.get("sentences", encoder_out))
            memory.remember(SourceMemory(states, mask, encoder_out.get("sentence_of_row")))
        memory.history.advance(len(words), self.max_target_positions, words.device)
        return memory

    @staticmethod
    def _source(encoder_out: Optional[dict]) -> Tuple[Optional[Tensor], Optional[Tensor]]:
        """The states, S x B x C, and what hides their padding from every layer, B x 1 x 1 x S, or
        None where there is none."""
        if encoder_out is None or not encoder_out["encoder_out"]:
            return None, None
        states = encoder_out["encoder_out"][0]
        padding = next(iter(encoder_out["encoder_padding_mask"]), None)
        return states, hide_padding(padding, states.dtype)

    def _embed(self, tokens: Tensor, memory: Optional[DecodingMemory]) -> Tensor:
        """B x T words to B x T x C, or, with *memory*, R to R x C."""
        x = self.embed_scale * self.embed_tokens(tokens)
        if self.quant_noise is not None:
            x = self.quant_noise(x)
        if self.project_in_dim is not None:
            x = self.project_in_dim(x)
        if self.embed_positions is not None:
            if memory is None:
                x = x + self.embed_positions(tokens)
            else:
                # fairseq's tables begin with padding, for which there is no position
                table = self.embed_positions
                learned = isinstance(table, LearnedPositionalEmbedding)
                table = table.weight if learned else table.weights
                x = x + table[memory.history.position + self.padding_idx + 1]
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        return self.dropout_module(x)

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Follow beam search: row r continues row ``new_order[r]``. No state is copied."""
        DecodingMemory.of(incremental_state).reorder(new_order)
