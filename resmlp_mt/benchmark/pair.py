"""The two models that are compared: the same sizes, one dictionary, random weights."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import List, Tuple

import torch
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
)
from omegaconf import OmegaConf

from resmlp_mt.benchmark.floor import Sizes
from resmlp_mt.benchmark.mixing_work import SELF_ATTENTION
from resmlp_mt.errors import UserError

LENGTH_PENALTY = 0.6  # the same number of words everywhere, so that it changes no ranking
MODELS = ("resmlp_mt", "transformer")
_SIDES = ("embed_dim", "ffn_embed_dim", "layers", "attention_heads")
_SIZES = [f"{side}_{size}" for side in ("encoder", "decoder") for size in _SIDES]
_DROPOUTS = ["dropout", "attention_dropout", "activation_dropout"]
_SETTING = [
    "max_source_positions",
    "max_target_positions",
    "share_all_embeddings",
    "share_decoder_input_output_embed",
]


def check_architecture(flag: str, name: str) -> None:
    """
    Raises:
        UserError: unless *name* is an architecture that can be counted, so ours or a Transformer.
    """
    if ARCH_MODEL_NAME_REGISTRY.get(name) not in MODELS:
        known = [arch for arch, model in ARCH_MODEL_NAME_REGISTRY.items() if model in MODELS]
        raise UserError(f"{flag} {name}: choose one of {', '.join(sorted(known))}")


def _value(action, text: str):
    if action.nargs == 0:  # a switch
        return {"true": True, "false": False}[text.lower()]
    value = action.type(text) if action.type else text
    if action.choices is not None and value not in action.choices:
        raise ValueError(value)
    return value


def parse_options(flag: str, arch: str, pairs: List[str]) -> dict:
    """``key=value`` pairs as options of *arch*, of the types that ``fairseq-train`` gives them.

    Raises:
        UserError: for an option that the architecture does not have, or a value it does not take.
    """
    parser = ArgumentParser(add_help=False)
    ARCH_MODEL_REGISTRY[arch].add_args(parser)
    actions = {action.dest: action for action in parser._actions}
    options = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        key = key.replace("-", "_")
        if not equals:
            raise UserError(f"{flag} {pair}: write it as key=value")
        if key not in actions:
            raise UserError(
                f"{flag} {pair}: {arch} has no option {key}: see fairseq-train --arch {arch} --help"
            )
        try:
            options[key] = _value(actions[key], text)
        except (ValueError, KeyError, TypeError, ArgumentTypeError):
            choices = actions[key].choices or (["true", "false"] * (actions[key].nargs == 0))
            wanted = f": choose one of {', '.join(map(str, choices))}" if choices else ""
            raise UserError(f"{flag} {pair}: {text!r} is no value of {key}{wanted}") from None
    return options


def complete(arch: str, options: dict) -> Namespace:
    """All of an architecture's options, given some of them.

    Raises:
        UserError: for a size below 1.
    """
    args = Namespace(arch=arch, **options)
    ARCH_CONFIG_REGISTRY[arch](args)
    for name in _SIZES:
        if getattr(args, name) < 1:
            raise UserError(f"{arch}: {name}={getattr(args, name)}: must be at least 1")
    return args


def pair_options(args, positions: int, share: bool) -> Tuple[Namespace, Namespace]:
    """The complete options of our model and of the baseline.

    A baseline of fairseq's plain ``transformer`` takes our width, hidden size, layers, heads and
    dropout; one of another name has its own. Positions and the sharing of embeddings are ours.

    Args:
        args: with ``arch``, ``baseline`` and lists of pairs, ``arch_option``, ``baseline_option``.
        positions: of both sides.
        share: use one embedding for source, target and output.

    Raises:
        UserError: for an unknown architecture or option.
    """
    check_architecture("--arch", args.arch)
    check_architecture("--baseline", args.baseline)
    given = dict(
        max_source_positions=positions, max_target_positions=positions, share_all_embeddings=share
    )
    given.update(parse_options("--arch-option", args.arch, args.arch_option))
    ours = complete(args.arch, given)
    copied = _SETTING + (_SIZES + _DROPOUTS if args.baseline == "transformer" else [])
    theirs = {name: getattr(ours, name) for name in copied}
    theirs.update(parse_options("--baseline-option", args.baseline, args.baseline_option))
    return ours, complete(args.baseline, theirs)


def check_positions(options: Namespace, source: int, target: int) -> None:
    """
    Raises:
        UserError: if sentences of that many tokens, ends of sentence included, do not fit.
    """
    for side, tokens in (("source", source), ("target", target)):
        positions = getattr(options, f"max_{side}_positions")
        if tokens > positions:
            raise UserError(
                f"--{side}-length {tokens - 1}: with its end of sentence that is {tokens} tokens, "
                f"and {options.arch} has {positions} positions: raise --positions"
            )


def build(options: Namespace, task, args):
    """A model with random weights, on ``args.device`` and in ``args.dtype``.

    Raises:
        UserError: if its options do not go together.
    """
    torch.manual_seed(args.seed)
    try:
        model = ARCH_MODEL_REGISTRY[options.arch].build_model(Namespace(**vars(options)), task)
    except UserError:
        raise
    except (AssertionError, ValueError) as error:  # fairseq's way to refuse options
        raise UserError(f"{options.arch}: {error}") from None
    return model.to(device=args.device, dtype=getattr(torch, args.dtype))


def make_ready(model, beam: int):
    """What ``fairseq-generate`` does to a model before it translates."""
    model.eval()
    model.prepare_for_inference_(
        OmegaConf.create({"generation": {"beam": beam, "print_alignment": None}})
    )
    return model


def sizes_of(options: Namespace, vocabulary: int) -> Sizes:
    """What :mod:`resmlp_mt.benchmark.floor` needs to know of a model."""
    ours = ARCH_MODEL_NAME_REGISTRY[options.arch] == "resmlp_mt"
    of_mixing = dict(mixing=SELF_ATTENTION)
    if ours:
        of_mixing = dict(
            mixing=str(options.token_mixing),
            kernel_size=options.token_mixing_kernel_size,
            expansion=options.token_mixing_expansion,
        )
    return Sizes(
        **of_mixing,
        vocabulary=vocabulary,
        encoder_layers=options.encoder_layers,
        encoder_channels=options.encoder_embed_dim,
        encoder_hidden=options.encoder_ffn_embed_dim,
        decoder_layers=options.decoder_layers,
        decoder_channels=options.decoder_embed_dim,
        decoder_hidden=options.decoder_ffn_embed_dim,
    )
