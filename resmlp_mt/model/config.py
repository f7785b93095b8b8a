"""Options of the model: fairseq's own for its Transformer, and ours beside them."""

import math
from argparse import Namespace
from dataclasses import dataclass, field, fields

from fairseq import utils
from fairseq.dataclass import ChoiceEnum
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer import base_architecture as transformer_defaults

from resmlp_mt.errors import UserError
from resmlp_mt.model.mixing_kinds import TOKEN_MIXING

NORMALIZATIONS = ("affine", "layernorm")
# options of earlier versions that a checkpoint may still name, with the values that change nothing
GONE = {
    "folded": False,
    "token_mixing_reach": 0,
    "inference_precision": "checkpoint",
}
GONE_KINDS = ("mlp", "depthwise-conv", "separable-conv")


@dataclass
class ResMLPConfig(TransformerConfig):
    """The options whose defaults are ours; the others are those of the Transformer."""

    activation_fn: ChoiceEnum(utils.get_available_activation_fns()) = field(
        default="gelu", metadata={"help": "activation function of the feed-forward sublayers"}
    )
    dropout: float = field(
        default=0.15,
        metadata={"help": "dropout probability (the paper: 0.15 for En-De, 0.1 for En-Fr)"},
    )
    layerscale_init: float = field(
        default=0.2,
        metadata={"help": "first value of alpha in the affine map after each residual branch"},
    )
    normalization: ChoiceEnum(NORMALIZATIONS) = field(
        default="affine",
        metadata={"help": "map before each residual branch: affine as in the paper, or layernorm"},
    )
    token_mixing: str = field(
        default="linear",
        metadata={
            "help": "what mixes positions: linear (A of the paper, a weight for each pair of "
            "positions), toeplitz (a weight for each distance), gated (toeplitz, multiplied by a "
            "gate that reads the word), conv (a convolution), none, or a kind of your own, see "
            "resmlp_mt.register_mixing"
        },
    )
    token_mixing_heads: int = field(
        default=1,
        metadata={"help": "groups of channels with a mixing matrix each (the paper: 1)"},
    )
    token_mixing_kernel_size: int = field(
        default=3, metadata={"help": "positions that --token-mixing conv reads"}
    )
    token_mixing_init_std: float = field(
        default=0.02,
        metadata={"help": "standard deviation of the first weights of the mixing matrices"},
    )
    no_token_mixing_bias: bool = field(
        default=False, metadata={"help": "mixing matrices without a bias"}
    )
    token_positional_embeddings: bool = field(
        default=False,
        metadata={"help": "add positional embeddings (the paper has none)"},
    )


def set_defaults(args: Namespace, **values) -> None:
    """Give the options that *args* lacks: by *values*, by :class:`ResMLPConfig`, and last by the
    Transformer of fairseq."""
    ours = {
        option.name: option.default
        for option in fields(ResMLPConfig)
        if option.name in ResMLPConfig.__annotations__
    }
    for name, value in {**ours, **values}.items():
        setattr(args, name, getattr(args, name, value))
    transformer_defaults(args)


def check_config(cfg: ResMLPConfig) -> None:
    """Refuse what this model cannot do."""
    _check_gone(cfg)
    refused = {
        "--cross-self-attention": cfg.cross_self_attention,
        "--base-layers": cfg.base_layers,
        "--char-inputs": cfg.char_inputs,
        "--adaptive-input": cfg.adaptive_input,
        "--encoder-normalize-before": cfg.encoder.normalize_before,
        "--decoder-normalize-before": cfg.decoder.normalize_before,
        "--encoder-xformers-att-config": cfg.encoder.xformers_att_config,
        "--decoder-xformers-att-config": cfg.decoder.xformers_att_config,
    }
    for option, value in refused.items():
        if value:
            raise UserError(f"{option}: resmlp_mt does not have it: leave it off")
    for option, value, choices in (
        ("--token-mixing", cfg.token_mixing, TOKEN_MIXING),
        ("--normalization", cfg.normalization, NORMALIZATIONS),
    ):
        if str(value) not in choices:
            raise UserError(f"{option} {value}: choose one of {', '.join(choices)}")
    heads = cfg.token_mixing_heads
    if heads != 1 and not getattr(TOKEN_MIXING[str(cfg.token_mixing)], "has_heads", False):
        raise UserError(
            f"--token-mixing-heads {heads}: --token-mixing {cfg.token_mixing} has no heads: "
            "leave it off"
        )
    for prefix, part in (("", cfg), ("encoder-", cfg.encoder), ("decoder-", cfg.decoder)):
        for option in fields(part):
            value = getattr(part, option.name)
            if option.type is float and not _is_number(value):
                name = prefix + option.name.replace("_", "-")
                raise UserError(f"--{name} {value!r}: must be a number")
    for option, positions in (
        ("--max-source-positions", cfg.max_source_positions),
        ("--max-target-positions", cfg.max_target_positions),
    ):
        if positions < 1:
            raise UserError(f"{option} {positions}: must be at least 1")


def _check_gone(cfg: ResMLPConfig) -> None:
    """Refuse what only earlier versions had. Checkpoints keep such options."""
    for name, harmless in GONE.items():
        value = getattr(cfg, name, harmless)
        if str(value) != str(harmless):
            raise UserError(
                f"{name} {value}: this version has no such option: resmlp_mt 0.2.0 still reads it"
            )
    if str(cfg.token_mixing) in GONE_KINDS:
        raise UserError(
            f"--token-mixing {cfg.token_mixing}: this version does not have it any more: "
            "resmlp_mt 0.2.0 still reads it"
        )


def _is_number(value) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
