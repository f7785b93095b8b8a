"""The work counted: multiply-adds and bytes that a model's formulas cannot do without.

Notation of the formulas: d channels, h hidden channels, V types, s source tokens, t the position
of the target word (1 for the first), T target tokens, L layers. "Tokens" include the end of
sentence. Lookups, normalizations, biases and activation functions are left out.
"""

from dataclasses import dataclass

from resmlp_mt.benchmark.mixing_work import MixingWork, work_of


@dataclass(frozen=True)
class Sizes:
    """What the counts depend on.

    Attributes:
        mixing, kernel_size, expansion: as :func:`resmlp_mt.benchmark.mixing_work.work_of` takes
            them.
    """

    mixing: str
    vocabulary: int
    encoder_layers: int
    encoder_channels: int
    encoder_hidden: int
    decoder_layers: int
    decoder_channels: int
    decoder_hidden: int
    kernel_size: int = 3
    expansion: int = 4

    @property
    def work(self) -> MixingWork:
        return work_of(self.mixing, self.kernel_size, self.expansion)


def encoder(sizes: Sizes, source: int) -> int:
    """Multiply-adds of the encoder for a sentence of s tokens: ``s L (mixing(s) + 2 d h)``."""
    channels = sizes.encoder_channels
    layer = sizes.work.multiply_adds(channels, source) + 2 * channels * sizes.encoder_hidden
    return source * sizes.encoder_layers * layer


def source_keys(sizes: Sizes, source: int) -> int:
    """Multiply-adds of the cross-attention's keys and values, once a sentence: ``L 2 s d²``."""
    return sizes.decoder_layers * 2 * source * sizes.encoder_channels * sizes.decoder_channels


def decoder_step(sizes: Sizes, position: int, source: int) -> int:
    """Multiply-adds of the decoder for one hypothesis at position t.

    ``L (mixing(t) + 2 d² + 2 s d + 2 d h) + V d``: after the mixing the cross-attention over
    cached keys and values, the feed-forward branch; once, the output layer.
    """
    channels = sizes.decoder_channels
    layer = (
        sizes.work.multiply_adds(channels, position)
        + 2 * channels**2
        + 2 * source * channels
        + 2 * channels * sizes.decoder_hidden
    )
    return sizes.decoder_layers * layer + sizes.vocabulary * channels


def decoding(sizes: Sizes, source: int, steps: int, beam: int) -> int:
    """Multiply-adds to translate one sentence: encoder, keys and values, *steps* words a beam."""
    words = sum(decoder_step(sizes, position, source) for position in range(1, steps + 1))
    return encoder(sizes, source) + source_keys(sizes, source) + beam * words


def training(sizes: Sizes, source: int, target: int) -> int:
    """Multiply-adds of a training step for one pair of s and T tokens.

    Three times the forward pass (each product has two in the backward pass). A whole sentence is
    mixed at once and both models compute the full T x T: every position costs what the last does.
    """
    forward = target * decoder_step(sizes, target, source)
    return 3 * (encoder(sizes, source) + source_keys(sizes, source) + forward)


def weights_read(sizes: Sizes, bytes_each: float = 4) -> float:
    """Bytes of weights that a decoding step reads once, however many hypotheses there are.

    ``L (mixing's projections + 2 d² + 2 d h) + V d`` weights. With one sentence this is most of
    what a step moves. Rows of mixing matrices, t weights each, are left out.
    """
    channels = sizes.decoder_channels
    layer = (sizes.work.projections + 2) * channels**2 + 2 * channels * sizes.decoder_hidden
    return bytes_each * (sizes.decoder_layers * layer + sizes.vocabulary * channels)


def cache_traffic(sizes: Sizes, position: int, hypotheses: int, bytes_each: int = 4) -> int:
    """Bytes of past target words that a decoding step at position t reads and writes.

    The source's keys and values, the same in all models, are left out.
    """
    each = sizes.work.moved * sizes.work.past(position) * sizes.decoder_channels
    return bytes_each * hypotheses * sizes.decoder_layers * each


def cache_held(
    sizes: Sizes, position: int, hypotheses: int, source: int, sentences: int, bytes_each: int = 4
) -> int:
    """Bytes that decoding must remember at position t.

    ``L (mixing's + 2 s d sentences)`` numbers: past target words of every hypothesis, and the
    source's keys and values.
    """
    past = sizes.work.held * sizes.work.past(position) * hypotheses
    numbers = (past + 2 * source * sentences) * sizes.decoder_channels
    return bytes_each * sizes.decoder_layers * numbers
