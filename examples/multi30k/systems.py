"""The systems of the study: models of one width and vocabulary, and the recipes tried for each."""

from dataclasses import dataclass
from typing import Dict, List, Tuple

WIDTH, HIDDEN, HEADS = 128, 512, 4


def both_sides(**options) -> List[str]:
    return [
        str(part)
        for side in ("encoder", "decoder")
        for name, value in options.items()
        for part in (f"--{side}-{name.replace('_', '-')}", value)
    ]


def _layers(number: int) -> List[str]:
    return both_sides(
        layers=number, embed_dim=WIDTH, ffn_embed_dim=HIDDEN, attention_heads=HEADS
    ) + ["--share-all-embeddings"]


TOEPLITZ = ["--token-mixing", "toeplitz", "--token-mixing-heads", "8"]
# convolutions know no positions
PLACED = ["--token-mixing", "conv", "--token-positional-embeddings"]
SCALE_1 = ["--layerscale-init", "1"]
_LSTM = ["--encoder-bidirectional", "--decoder-out-embed-dim", str(WIDTH), "--share-all-embeddings"]
_FCONV = ["--decoder-out-embed-dim", str(WIDTH), "--share-input-output-embed"]


@dataclass(frozen=True)
class System:
    """A model of the tables.

    Attributes:
        arch: fairseq's or our architecture.
        options: its size.
        trials: the recipes tried for it, as options of fairseq-train; three each.
        like: the system whose best recipe it takes, of one without trials.
    """

    arch: str
    options: Tuple[str, ...]
    trials: Tuple[Tuple[str, ...], ...] = ()
    like: str = ""


def adam(lr: float) -> Tuple[str, ...]:
    return ("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", f"{lr:g}")


def adagrad(lr: float) -> Tuple[str, ...]:
    return ("--optimizer", "adagrad", "--lr", f"{lr:g}")


def nag(lr: float) -> Tuple[str, ...]:
    """The optimizer of ConvS2S."""
    return ("--optimizer", "nag", "--lr", f"{lr:g}", "--momentum", "0.99")


def _lstm(layers: int) -> Tuple[str, ...]:
    return (*both_sides(layers=layers, embed_dim=WIDTH, hidden_size=WIDTH), *_LSTM)


def _fconv(layers: int) -> Tuple[str, ...]:
    return (*both_sides(layers=f"[({WIDTH}, 3)] * {layers}", embed_dim=WIDTH), *_FCONV)


OURS = (adam(0.002), adam(0.004), adagrad(0.05))
SYSTEMS: Dict[str, System] = {
    "lstm": System("lstm", _lstm(2), (adam(0.001), adam(0.002), adam(0.004))),
    "fconv": System("fconv", _fconv(6), (adam(0.001), adam(0.002), nag(0.25))),
    "transformer-3": System("transformer", (*_layers(3),), (adam(0.001), adam(0.002), adam(0.004))),
    "resmlp-3": System("resmlp_mt_6", (*_layers(3),), OURS),
    "resmlp-6": System("resmlp_mt_6", (*_layers(6),), like="resmlp-3"),
    "toeplitz-3": System("resmlp_mt_6", (*_layers(3), *TOEPLITZ), OURS),
    "toeplitz-6": System("resmlp_mt_6", (*_layers(6), *TOEPLITZ), like="toeplitz-3"),
    # put together from the ablations
    "conv-3": System("resmlp_mt_6", (*_layers(3), *PLACED, *SCALE_1), like="resmlp-3"),
}
