"""The decoder: fairseq's Transformer decoder with ResMLP layers in it."""

from collections.abc import Iterable

from fairseq.models.transformer import TransformerDecoderBase
from fairseq.modules import LearnedPositionalEmbedding
from torch import Tensor, nn

from resmlp_mt.model.inference import FoldedLayers
from resmlp_mt.model.layers import ResMLPDecoderLayer, build_norm, wrap_layer
from resmlp_mt.model.memory import DecodingMemory, SourceMemory
from resmlp_mt.model.own_mixing import warn_if_wrong
from resmlp_mt.model.padding import check_length, hide_padding, turn_back, turn_right


class ResMLPDecoder(TransformerDecoderBase):
    """Embeddings, a stack of :class:`ResMLPDecoderLayer`, a final norm, the output layer."""

    folded: FoldedLayers | None = None  # in inference

    def __init__(self, cfg, dictionary, embed_tokens):
        super().__init__(cfg, dictionary, embed_tokens)
        if not cfg.no_decoder_final_norm:
            # under the name of the Transformer's final LayerNorm
            self.layer_norm = build_norm(cfg, cfg.decoder.embed_dim)
        warn_if_wrong(cfg)

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        return wrap_layer(cfg, ResMLPDecoderLayer(cfg))

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Tensor]],
        incremental_state: dict | None = None,
        full_context_alignment: bool = False,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
    ):
        """Features, B x T x C, and ``{"attn": [B x T x S], "inner_states": [T x B x C ...]}``.

        The tokens, B x T, are padded on either side; with *incremental_state* only the last is new,
        and T is 1 in the results. *full_context_alignment* changes nothing: a triangular A sees no
        future token. Raises a UserError for a sentence that is too long, a ValueError if tokens
        were skipped.
        """
        length = prev_output_tokens.size(1)
        check_length(prev_output_tokens, self.max_target_positions, "target")
        attention = alignment_layer, alignment_heads
        if incremental_state is not None:
            memory = DecodingMemory.of(incremental_state)
            stored = memory.history.length
            if stored != length - 1:
                wrong = f"incremental_state holds {stored} of {length - 1} tokens before the newest"
                raise ValueError(f"{wrong}: feed one token at a time")
            newest = prev_output_tokens[:, -1]
            x, weights, states = self._features(newest, encoder_out, memory, *attention)
            x, *states = (h.unsqueeze(0) for h in [x, *states])
        else:
            tokens, order = turn_right(prev_output_tokens, self.padding_idx)
            x, weights, states = self._features(tokens, encoder_out, None, *attention)
            if order is not None:
                x, *states = (turn_back(h, order) for h in [x, *states])
                if weights is not None:  # with layerdrop, its layer may have been dropped
                    # contiguous: losses of alignments view it
                    weights = weights.gather(1, order.unsqueeze(-1).expand_as(weights))
        return x.transpose(0, 1), {"attn": [weights], "inner_states": states}

    def newest_features(self, tokens: Tensor, encoder_out: dict, memory: DecodingMemory) -> Tensor:
        """Features, R x C, of the newest token of each hypothesis, R: a step of our beam search,
        which needs no attention weights."""
        return self._features(tokens, encoder_out, memory, alignment_layer=-1)[0]

    def _features(
        self,
        tokens: Tensor,
        encoder_out: dict,
        memory: DecodingMemory | None,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
    ) -> tuple[Tensor, Tensor | None, list[Tensor]]:
        """Features, attention weights and states of tokens padded on the right, T x B x C, or, with
        *memory*, of the newest tokens, R: then features and states are R x C."""
        source = mask = None
        if memory is None:
            source, mask = self._source(encoder_out)
            layers = self._running_layers()
        else:
            if memory.source is None:
                memory.layers = self._running_layers()
                memory.source = SourceMemory(*self._source(encoder_out))
            memory.history.advance(len(tokens), self.max_target_positions, tokens.device)
            layers = memory.layers
        if alignment_layer is None:
            alignment_layer = self.num_layers - 1
        x = self._embed(tokens, memory)
        if memory is None:
            x = x.transpose(0, 1).contiguous()
        attention, states = None, [x]
        for number, layer in enumerate(layers):
            x, weights = layer(x, source, mask, memory, number == alignment_layer)
            states.append(x)
            if weights is not None:
                attention = weights[:alignment_heads].mean(dim=0).to(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        return x, attention, states

    def _running_layers(self) -> Iterable[nn.Module]:
        return self.layers if self.folded is None else self.folded(self.layers)

    @staticmethod
    def _source(encoder_out: dict) -> tuple[Tensor, Tensor | None]:
        """The states, S x B x C, and the mask that hides their padding, B x 1 x 1 x S, or None."""
        (states,), masks = encoder_out["encoder_out"], encoder_out["encoder_padding_mask"]
        return states, hide_padding(masks[0], states.dtype) if masks else None

    def _embed(self, tokens: Tensor, memory: DecodingMemory | None) -> Tensor:
        """B x T tokens to B x T x C, or, with *memory*, R to R x C."""
        x = self.embed_scale * self.embed_tokens(tokens)
        table = self.embed_positions
        if table is not None and memory is None:
            x = x + table(tokens)
        elif table is not None and memory is not None:
            # fairseq counts positions from the number of the padding symbol
            row = memory.history.position + self.padding_idx + 1
            learned = isinstance(table, LearnedPositionalEmbedding)
            if not learned and row >= len(table.weights):
                table(tokens.new_zeros(1, 2 * row))  # makes its table longer
            x = x + (table.weight if learned else table.weights)[row]
        return self.dropout_module(x)

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Let row r continue row ``new_order[r]``, as beam search asks. No state is copied."""
        DecodingMemory.of(incremental_state).reorder(new_order)
