"""Options of the model: fairseq's own for its Transformer, and ours beside them."""

import math
from argparse import Namespace
from dataclasses import dataclass, field, fields

from fairseq import utils
from fairseq.dataclass import ChoiceEnum
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer import base_architecture as transformer_defaults

from resmlp_mt.errors import UserError
from resmlp_mt.model.mixing_kinds import OF_POSITIONS, TOKEN_MIXING

NORMALIZATIONS = ("affine", "layernorm")


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
    token_mixing: ChoiceEnum(list(TOKEN_MIXING)) = field(
        default="linear",
        metadata={
            "help": "what mixes positions: linear (A of the paper, a weight for each pair of "
            "positions), toeplitz (a weight for each distance), gated (toeplitz, multiplied by a "
            "gate that reads the word), none, mlp (two linear maps over positions), or a "
            "convolution: conv, depthwise-conv, separable-conv"
        },
    )
    token_mixing_heads: int = field(
        default=1,
        metadata={"help": "groups of channels with a mixing matrix each (the paper: 1)"},
    )
    token_mixing_kernel_size: int = field(
        default=3,
        metadata={"help": "positions that --token-mixing conv (or another convolution) reads"},
    )
    token_mixing_expansion: int = field(
        default=4,
        metadata={"help": "hidden units a position of --token-mixing mlp"},
    )
    token_mixing_init_std: float = field(
        default=0.02,
        metadata={"help": "standard deviation of the first weights of the mixing matrices"},
    )
    token_mixing_reach: int = field(
        default=0,
        metadata={
            "help": "for sentences longer than those of training: positions that training reached. "
            "Past them A continues as it is there (0: as the checkpoint has it). Give it by "
            "--model-overrides, with more --max-source-positions where a sentence needs them"
        },
    )
    no_token_mixing_bias: bool = field(
        default=False, metadata={"help": "mixing matrices without a bias"}
    )
    folded: bool = field(
        default=False,
        metadata={
            "help": "the affine maps are folded into the weights (resmlp-mt fold sets it): the "
            "model only translates"
        },
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
    """Refuse what this model cannot do.

    Raises:
        UserError: naming the option and what to do.
    """
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
    for prefix, part in (("", cfg), ("encoder-", cfg.encoder), ("decoder-", cfg.decoder)):
        for option in fields(part):
            value = getattr(part, option.name)
            if option.type is float and not _is_number(value):
                name = prefix + option.name.replace("_", "-")
                raise UserError(f"--{name} {value!r}: must be a number")
    if cfg.token_mixing_reach < 0 or (cfg.token_mixing_reach and cfg.folded):
        raise UserError(
            f"token_mixing_reach {cfg.token_mixing_reach}: give a number of positions, for a "
            "checkpoint that is not folded"
        )
    if cfg.token_mixing_reach and str(cfg.token_mixing) not in OF_POSITIONS:
        raise UserError(
            f"token_mixing_reach {cfg.token_mixing_reach}: --token-mixing {cfg.token_mixing} has "
            "no A to extend: leave it off"
        )
    for option, positions in (
        ("--max-source-positions", cfg.max_source_positions),
        ("--max-target-positions", cfg.max_target_positions),
    ):
        if positions < 1:
            raise UserError(f"{option} {positions}: must be at least 1")


def _is_number(value) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
