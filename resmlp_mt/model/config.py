"""Options of the model: fairseq's own for its Transformer, and ours."""

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from fairseq import utils
from fairseq.dataclass import ChoiceEnum
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer import base_architecture as transformer_defaults

from resmlp_mt.model.mixing import TOKEN_MIXING
from resmlp_mt_runtime.errors import UserError

# options of fairseq's Transformer that this model lacks
NOT_OURS = ["cross_self_attention", "no_cross_attention", "base_layers", "merge_src_tgt_embed"]
NOT_OURS += ["char_inputs", "adaptive_input", "adaptive_softmax_cutoff", "layernorm_embedding"]
NOT_OURS += ["encoder.normalize_before", "decoder.normalize_before", "quant_noise.pq"]
NOT_OURS += ["encoder.xformers_att_config", "decoder.xformers_att_config", "quant_noise.scalar"]
# removed options in old checkpoints, which changed what the weights mean
REMOVED = ["folded", "token_mixing_reach"]


def option(default, help: str):
    return field(default=default, metadata={"help": help})


@dataclass
class ResMLPConfig(TransformerConfig):
    """fairseq's options for its Transformer, some with other defaults, and our own."""

    activation_fn: ChoiceEnum(utils.get_available_activation_fns()) = option(  # type: ignore
        "gelu", "activation function of the feed-forward sublayers and of the gate"
    )
    dropout: float = option(0.15, "dropout probability (the paper: 0.15 for En-De, 0.1 for En-Fr)")
    layerscale_init: float = option(0.2, "initial alpha of the affine map after each branch")
    normalization: ChoiceEnum(("affine", "layernorm")) = option(  # type: ignore
        "affine", "map before each branch and after the last: affine as in the paper, or layernorm"
    )
    token_mixing: str = option(
        "linear",
        "what mixes positions: linear (A of the paper, a weight for each pair of positions), "
        "toeplitz (a weight for each distance), gated (toeplitz, multiplied by a gate that reads "
        "the token), none, or a kind of your own: resmlp_mt.register_mixing",
    )
    token_mixing_heads: int = option(1, "channel groups, each with its own matrix (the paper: 1)")
    token_mixing_init_std: float = option(0.02, "standard deviation of the initial mixing weights")
    no_token_mixing_bias: bool = option(False, "token mixing without biases")
    token_positional_embeddings: bool = option(False, "add positional embeddings (the paper: none)")


def has_heads(kind: str) -> bool:
    return getattr(TOKEN_MIXING.get(str(kind)), "has_heads", False)


def set_defaults(args: Any, **values) -> None:
    """Fill in the options that *args* lacks: from *values*, our defaults, the Transformer's."""
    if not has_heads(getattr(args, "token_mixing", values.get("token_mixing", "linear"))):
        values.pop("token_mixing_heads", None)  # of an architecture, for its own mixing
    ours = {name: getattr(ResMLPConfig, name) for name in ResMLPConfig.__annotations__}
    for name, value in {**ours, **values}.items():
        setattr(args, name, getattr(args, name, value))
    transformer_defaults(args)


def check_config(cfg: ResMLPConfig) -> None:
    """Raise a UserError for options that this model lacks and values that it cannot have: fairseq
    takes any value from a saved configuration."""
    refused = [name for name in NOT_OURS if attrgetter(name)(cfg)]
    if str(cfg.decoder.output_dim) != str(cfg.decoder.embed_dim):
        refused.append("decoder.output_dim")
    if refused:
        flag = refused[0].replace(".", "-").replace("_", "-")
        raise UserError(f"--{flag}: resmlp_mt does not support it: leave it out")
    for name in REMOVED:
        if getattr(cfg, name, None):
            raise UserError(f"{name}: only resmlp_mt 0.2 supports it: use that for this checkpoint")
    for side in ("source", "target"):
        positions = getattr(cfg, f"max_{side}_positions")
        if positions < 2:
            raise UserError(f"--max-{side}-positions {positions}: give at least 2")
    for side in ("encoder", "decoder"):
        if (layers := getattr(cfg, side).layers) > 1000:
            raise UserError(f"--{side}-layers {layers}: give at most 1000")
    kind, heads = str(cfg.token_mixing), cfg.token_mixing_heads
    if kind not in (*TOKEN_MIXING, "none"):
        wrong = f"--token-mixing {kind}: choose one of {', '.join(TOKEN_MIXING)}, none"
        raise UserError(f"{wrong}, or give the --user-dir that registers it")
    if heads != 1 and not has_heads(kind):
        raise UserError(f"--token-mixing-heads {heads}: {kind} has no heads: leave it out")
