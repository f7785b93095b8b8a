"""The mutants: what is wrong in each, where, and the text that makes it so."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """A replacement in one file.

    Attributes:
        name: says what is wrong.
        file: relative to the root of the repository.
        old: text that is in the file exactly once.
        new: what stands there in the mutant.
    """

    name: str
    file: str
    old: str
    new: str


AFFINE = "resmlp_mt/model/affine.py"
ATTENTION = "resmlp_mt/model/attention.py"
BEAM_HISTORY = "resmlp_mt/decoding/beam_history.py"
BRANCHES = "resmlp_mt/model/branches.py"
CANDIDATES = "resmlp_mt/decoding/candidates.py"
CONVOLUTIONS = "resmlp_mt/model/convolutional_mixing.py"
DECODER = "resmlp_mt/model/decoder.py"
DROPOUT = "resmlp_mt/model/dropout.py"
ENCODER = "resmlp_mt/model/encoder.py"
FOLDING = "resmlp_mt/decoding/folding.py"
GATED = "resmlp_mt/model/gated_mixing.py"
GENERATOR = "resmlp_mt/decoding/generator.py"
HYPOTHESES = "resmlp_mt/decoding/hypotheses.py"
LAYERS = "resmlp_mt/model/layers.py"
LONG_SENTENCES = "resmlp_mt/decoding/long_sentences.py"
MODULES_PADDING = "resmlp_mt/model/padding.py"
PADDING = "resmlp_mt/model/padding.py"
SOURCE_MEMORY = "resmlp_mt/decoding/source_memory.py"
RECOMPUTATION = "resmlp_mt/model/recomputation.py"
TOKEN_MIXING = "resmlp_mt/model/token_mixing.py"

MUTANTS = (
    # eq. 1
    Mutant(
        "affine-without-beta",
        AFFINE,
        "torch.addcmul(self.beta, self.alpha, x)",
        "self.alpha * x",
    ),
    Mutant(
        "affine-without-alpha",
        AFFINE,
        "torch.addcmul(self.beta, self.alpha, x)",
        "self.beta + x",
    ),
    # eqs. 2 and 3
    Mutant(
        "no-residual-around-token-mixing",
        BRANCHES,
        """        y = self.mixing(h, history, padding_mask)
        return x + self.dropout(self.post(y))
""",
        """        y = self.mixing(h, history, padding_mask)
        return self.dropout(self.post(y))
""",
    ),
    Mutant(
        "no-residual-around-feed-forward",
        BRANCHES,
        """        y = compose(self._dropped_fc2, self.activation_fn, h)
        return x + self.dropout(self.post(y))
""",
        """        y = compose(self._dropped_fc2, self.activation_fn, h)
        return self.dropout(self.post(y))
""",
    ),
    Mutant(
        "no-residual-around-cross-attention",
        BRANCHES,
        "return x + self.dropout(self.post(self.attn.out_proj(y))), weights",
        "return self.dropout(self.post(self.attn.out_proj(y))), weights",
    ),
    Mutant(
        "residual-from-behind-the-affine-map",
        BRANCHES,
        """        y = self.mixing(h, history, padding_mask)
        return x + self.dropout(self.post(y))
""",
        """        y = self.mixing(h, history, padding_mask)
        return h + self.dropout(self.post(y))
""",
    ),
    Mutant(
        "no-layerscale-after-token-mixing",
        BRANCHES,
        """        y = self.mixing(h, history, padding_mask)
        return x + self.dropout(self.post(y))
""",
        """        y = self.mixing(h, history, padding_mask)
        return x + self.dropout(y)
""",
    ),
    Mutant(
        "no-layerscale-after-feed-forward",
        BRANCHES,
        """        y = compose(self._dropped_fc2, self.activation_fn, h)
        return x + self.dropout(self.post(y))
""",
        """        y = compose(self._dropped_fc2, self.activation_fn, h)
        return x + self.dropout(y)
""",
    ),
    Mutant(
        "no-layerscale-after-cross-attention",
        BRANCHES,
        "return x + self.dropout(self.post(self.attn.out_proj(y))), weights",
        "return x + self.dropout(self.attn.out_proj(y)), weights",
    ),
    Mutant(
        "no-affine-before-token-mixing",
        BRANCHES,
        "h = zero_padding(self.pre(x), padding_mask)",
        "h = zero_padding(x, padding_mask)",
    ),
    Mutant(
        "no-affine-before-feed-forward",
        BRANCHES,
        "h = compose(self.fc1, self.pre, x)",
        "h = self.fc1(x)",
    ),
    Mutant(
        "no-affine-before-cross-attention",
        BRANCHES,
        "query = compose(self.attn.q_proj, self.pre, x)",
        "query = self.attn.q_proj(x)",
    ),
    Mutant(
        "no-activation",
        BRANCHES,
        "y = compose(self._dropped_fc2, self.activation_fn, h)",
        "y = self._dropped_fc2(h)",
    ),
    Mutant(
        "gradient-of-another-function",
        RECOMPUTATION,
        "return function(x).as_strided(*entry[0])",
        "return x.as_strided(*entry[0])",
    ),
    # the order of a layer
    Mutant(
        "encoder-sublayers-swapped",
        LAYERS,
        """        x = self.token_mixing(x, encoder_padding_mask)
        return self.feed_forward(x)
""",
        """        x = self.feed_forward(x)
        return self.token_mixing(x, encoder_padding_mask)
""",
    ),
    Mutant(
        "encoder-feed-forward-twice",
        LAYERS,
        """        return self.feed_forward(x)

    def upgrade""",
        """        return self.feed_forward(self.feed_forward(x))

    def upgrade""",
    ),
    Mutant(
        "decoder-feed-forward-before-attention-too",
        LAYERS,
        "        x = self.token_mixing(x, history=history)\n",
        """        x = self.token_mixing(x, history=history)
        x = self.feed_forward(x)
""",
    ),
    Mutant(
        "decoder-sublayers-swapped",
        LAYERS,
        """        x = self.token_mixing(x, history=history)
        weights = None
        if self.cross_attention is not None and (encoder_out is not None or source is not None):
            x, weights = self.cross_attention(x, encoder_out, mask, source, need_attn)
        return self.feed_forward(x), weights
""",
        """        weights = None
        if self.cross_attention is not None and (encoder_out is not None or source is not None):
            x, weights = self.cross_attention(x, encoder_out, mask, source, need_attn)
        x = self.token_mixing(x, history=history)
        return self.feed_forward(x), weights
""",
    ),
    # A
    Mutant(
        "A-not-triangular",
        TOKEN_MIXING,
        "return self.weight[:, :length, :width].tril()[:, :, :length]",
        "return self.weight[:, :length, :length]",
    ),
    Mutant(
        "A-without-its-diagonal",
        TOKEN_MIXING,
        "return self.weight[:, :length, :width].tril()[:, :, :length]",
        "return self.weight[:, :length, :width].tril(-1)[:, :, :length]",
    ),
    Mutant(
        "A-transposed-in-the-encoder",
        TOKEN_MIXING,
        "return self.weight[:, :length, :length]",
        "return self.weight[:, :length, :length].transpose(1, 2)",
    ),
    Mutant(
        "submatrix-from-the-wrong-corner",
        TOKEN_MIXING,
        "return self.weight[:, :length, :length]",
        "return self.weight[:, -length:, -length:]",
    ),
    Mutant(
        "wrong-row-while-decoding",
        BEAM_HISTORY,
        "matrices[:, :, self.position, bags.positions]",
        "matrices[:, :, self.position - 1, bags.positions]",
    ),
    Mutant(
        "bias-left-out",
        TOKEN_MIXING,
        "        if self.bias is None:\n            return y\n",
        "        return y\n",
    ),
    Mutant(
        "bias-of-the-first-position-while-decoding",
        TOKEN_MIXING,
        "bias = self.bias.index_select(1, history.position)",
        "bias = self.bias[:, :1]",
    ),
    Mutant(
        "heads-permuted",
        TOKEN_MIXING,
        "mixed = a @ grouped.reshape",
        "mixed = a.flip(0) @ grouped.reshape",
    ),
    Mutant(
        "toeplitz-distances-reversed",
        TOKEN_MIXING,
        "return w.flip(-1).unfold(-1, length, 1).flip(-2)",
        "return w.unfold(-1, length, 1).flip(-2)",
    ),
    Mutant(
        "column-for-a-row-while-decoding",
        BEAM_HISTORY,
        "matrices[:, :, self.position, bags.positions]",
        "matrices[:, :, bags.positions, self.position]",
    ),
    Mutant(
        "window-of-a-convolution-shifted",
        CONVOLUTIONS,
        "left = reach if self.causal else reach // 2",
        "left = reach if self.causal else reach // 2 + 1",
    ),
    Mutant(
        "convolution-sees-the-next-word",
        CONVOLUTIONS,
        "left = reach if self.causal else reach // 2",
        "left = reach // 2",
    ),
    Mutant(
        "gate-and-value-exchanged",
        GATED,
        "value, gate = self.value_gate(x)",
        "gate, value = self.value_gate(x)",
    ),
    Mutant(
        "gate-without-activation",
        GATED,
        "self.toeplitz(value, history) * self.activation(gate)",
        "self.toeplitz(value, history) * gate",
    ),
    Mutant(
        "gate-left-out",
        GATED,
        "self.toeplitz(value, history) * self.activation(gate)",
        "self.toeplitz(value, history)",
    ),
    Mutant(
        "gate-before-the-mixing",
        GATED,
        "self.toeplitz(value, history) * self.activation(gate)",
        "self.toeplitz(value * self.activation(gate), history)",
    ),
    Mutant(
        "values-at-padding",
        GATED,
        "value = zero_padding(value, padding_mask)",
        "pass",
    ),
    Mutant(
        "map-before-not-in-the-gate-where-folded",
        FOLDING,
        "            fold_before_(mixing.value_gate, branch.pre)\n",
        "            pass\n",
    ),
    # cross-attention
    Mutant(
        "attention-scores-not-scaled",
        ATTENTION,
        "scores = (queries * queries.size(-1) ** -0.5) @ keys.transpose(2, 3)",
        "scores = queries @ keys.transpose(2, 3)",
    ),
    Mutant(
        "attention-sees-padding",
        MODULES_PADDING,
        'return mask.masked_fill_(padding_mask.bool(), float("-inf"))[:, None, None]',
        "return mask[:, None, None]",
    ),
    Mutant(
        "attention-heads-joined-in-the-wrong-order",
        ATTENTION,
        "return x.permute(2, 0, 1, 3).flatten(2)",
        "return x.permute(2, 0, 3, 1).flatten(2)",
    ),
    # padding
    Mutant(
        "padding-not-zeroed",
        BRANCHES,
        "h = zero_padding(self.pre(x), padding_mask)",
        "h = self.pre(x)",
    ),
    Mutant(
        "padding-not-zeroed-where-folded",
        FOLDING,
        "h = zero_padding(h, padding_mask)",
        "pass",
    ),
    Mutant(
        "padding-not-zeroed-before-a-folded-convolution",
        FOLDING,
        "x = zero_padding(x, padding_mask)",
        "pass",
    ),
    Mutant(
        "padding-not-moved",
        PADDING,
        """    if tokens.size(1) == 0 or is_known_empty(padding[:, 0]):
        return tokens, None
""",
        """    return tokens, None
""",
    ),
    Mutant(
        "padding-not-turned-back",
        PADDING,
        "    if batch_first:\n        return x.gather",
        "    return x\n    if batch_first:\n        return x.gather",
    ),
    # word by word
    Mutant(
        "history-not-reordered",
        BEAM_HISTORY,
        "moved = self.index.index_select(0, new_order)",
        "moved = self.index[: len(new_order)]",
    ),
    Mutant(
        "shared-past-counted-for-each-beam",
        BEAM_HISTORY,
        "own = ~shared.repeat_interleave(self.beam, dim=0)",
        "own = torch.ones_like(self.index, dtype=torch.bool)",
    ),
    Mutant(
        "recent-words-one-late",
        BEAM_HISTORY,
        "return self.position + torch.arange(1 - count, 1,",
        "return self.position + torch.arange(-count, 0,",
    ),
    Mutant(
        "heads-swapped-while-decoding",
        BEAM_HISTORY,
        "rows = (rows * heads + groups).view(-1)",
        "rows = (rows * heads + groups.flip(0)).view(-1)",
    ),
    Mutant(
        "memory-of-the-wrong-sentence",
        SOURCE_MEMORY,
        "kept = self.sentence.view(-1, self.beam).index_select(0, sentences)",
        "kept = self.sentence.view(-1, self.beam)[: len(sentences)]",
    ),
    Mutant(
        "memory-not-reordered",
        SOURCE_MEMORY,
        "            self._follow(sentence)\n\n    def spread",
        "            self._follow(self.sentence[: len(sentence)])\n\n    def spread",
    ),
    Mutant(
        "mask-of-dropped-sentences-kept",
        SOURCE_MEMORY,
        "self._mask = self._mask.index_select(0, live)",
        "self._mask = self._mask[: len(live)]",
    ),
    Mutant(
        "position-of-the-next-word",
        DECODER,
        "memory.history.position + (self.padding_idx + 1)",
        "memory.history.position + (self.padding_idx + 2)",
    ),
    Mutant(
        "embedding-scale-dropped",
        DECODER,
        "x = self.embed_scale * self.embed_tokens(tokens)",
        "x = self.embed_tokens(tokens)",
    ),
    Mutant(
        "final-affine-dropped-in-the-decoder",
        DECODER,
        """            x = self.layer_norm(x)
""",
        """            pass
""",
    ),
    Mutant(
        "final-affine-dropped-in-the-encoder",
        ENCODER,
        """            x = self.layer_norm(x)
""",
        """            pass
""",
    ),
    # beam search
    Mutant(
        "top-words-off-by-a-block",
        CANDIDATES,
        "block = best.gather(1, (places // BLOCK).clamp(max=k - 1))",
        "block = best.gather(1, (places // BLOCK + 1).clamp(max=k - 1))",
    ),
    Mutant(
        "words-after-the-last-block-forgotten",
        CANDIDATES,
        "torch.cat([chosen, rest], dim=1).topk(k, dim=1)",
        "torch.cat([chosen, rest - torch.inf], dim=1).topk(k, dim=1)",
    ),
    Mutant(
        "scores-not-normalized-over-words",
        GENERATOR,
        "logits, found.scores - normalizer, found.first_candidates, 2 * beam",
        "logits, found.scores, found.first_candidates, 2 * beam",
    ),
    Mutant(
        "length-penalty-counts-a-word-less",
        HYPOTHESES,
        "[length**length_penalty for",
        "[max(length - 1, 1) ** length_penalty for",
    ),
    Mutant(
        "worst-hypothesis-first",
        HYPOTHESES,
        'key=lambda h: -h["score"].item()',
        'key=lambda h: h["score"].item()',
    ),
    Mutant(
        "words-of-another-hypothesis",
        HYPOTHESES,
        "rows = torch.where(steps > t, self.rows[t][rows], rows)",
        "rows = torch.where(steps > t, rows, rows)",
    ),
    Mutant(
        "sentences-not-finite-vanish",
        HYPOTHESES,
        "return (lost & in_time).any(dim=0).nonzero().view(-1).tolist()",
        "return []",
    ),
    # dropout
    Mutant(
        "dropout-at-evaluation",
        DROPOUT,
        "on = self.training or self.apply_during_inference",
        "on = True",
    ),
    Mutant(
        "dropout-without-its-factor",
        DROPOUT,
        "(x * random_mask(x, self.p)).mul_(1 / (1 - self.p))",
        "x * random_mask(x, self.p)",
    ),
    # folding
    Mutant(
        "folding-drops-the-offset-before",
        FOLDING,
        "bias = weight @ affine.beta.double()",
        "bias = 0 * affine.beta.double().sum() + weight.new_zeros(len(weight))",
    ),
    Mutant(
        "folding-after-in-the-wrong-order",
        FOLDING,
        "bias = bias + affine.alpha.double() * linear.bias.double()",
        "bias = affine.alpha.double() * (bias + linear.bias.double())",
    ),
    Mutant(
        "folding-around-A-in-the-wrong-order",
        FOLDING,
        "scale, offset = alpha, alpha * offset + beta",
        "scale, offset = alpha, alpha * (offset + beta)",
    ),
    Mutant(
        "folding-forgets-the-row-sums",
        FOLDING,
        "offset = offset + row_sum_scale * by_channel(exact.mix(ones), mixing)",
        "offset = offset + row_sum_scale",
    ),
    Mutant(
        "folded-offset-of-the-first-position",
        FOLDING,
        "offset = self.offset.index_select(0, history.position)",
        "offset = self.offset[:1]",
    ),
    Mutant(
        "folded-mlp-adds-the-offset-of-every-unit",
        FOLDING,
        "scale_only.beta.zero_()",
        "scale_only.beta.neg_()",
    ),
    Mutant(
        "folded-convolution-reads-beyond-the-sentence",
        FOLDING,
        "inside = (~padding_mask).t().unsqueeze(-1).to(x.dtype)",
        "inside = torch.ones_like(padding_mask).t().unsqueeze(-1).to(x.dtype)",
    ),
    Mutant(
        "encoder-final-affine-in-the-keys-alone",
        FOLDING,
        """            fold_before_(attn.v_proj, encoder.layer_norm)
""",
        "",
    ),
    Mutant(
        "folding-changes-the-shared-embedding",
        FOLDING,
        """        fold_before_(untied, decoder.layer_norm)
""",
        """        output.weight.data.mul_(decoder.layer_norm.alpha)
        fold_before_(untied, decoder.layer_norm)
""",
    ),
    Mutant(
        "folded-scale-behind-A",
        FOLDING,
        "return mixing.mix(h, history) + offset",
        "return self.scale * mixing.mix(h / self.scale, history) + offset",
    ),
    # sentences longer than training's
    Mutant(
        "one-position-less-is-extended",
        LONG_SENTENCES,
        "moved = (torch.maximum(row, column) - (reach - 1)).clamp(min=0)",
        "moved = (torch.maximum(row, column) - reach).clamp(min=0)",
    ),
)
