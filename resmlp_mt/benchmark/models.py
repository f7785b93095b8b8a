"""The two models that are compared: the same sizes, one dictionary, random weights."""

import shlex
from argparse import Namespace
from typing import Dict, List

import torch
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY
from omegaconf import OmegaConf

from resmlp_mt.benchmark.sentences import build_task
from resmlp_mt.errors import UserError
from resmlp_mt.train.training import parse_training_options

_SIDES = ("embed_dim", "ffn_embed_dim", "layers", "attention_heads")
SIZES = [f"{side}_{size}" for side in ("encoder", "decoder") for size in _SIDES]
_DROPOUTS = ["dropout", "attention_dropout", "activation_dropout"]


def complete(flag: str, arch: str, words: List[str]) -> Namespace:
    """All options of an architecture, as ``fairseq-train`` parses them from *words*.

    Raises:
        UserError: for an architecture or an option that fairseq does not know.
    """
    if arch not in ARCH_MODEL_REGISTRY:
        ours = [name for name, model in ARCH_MODEL_NAME_REGISTRY.items() if model == "resmlp_mt"]
        raise UserError(f"{flag} {arch}: choose transformer or one of {', '.join(sorted(ours))}")
    return parse_training_options(["data", "--arch", arch, *words], f"{flag}-options for {arch}")


def split(flag: str, options: str) -> List[str]:
    """Words as a shell splits them."""
    try:
        return shlex.split(options)
    except ValueError as error:
        raise UserError(f"{flag} {options}: {error}") from None


class Pair:
    """Our model and the baseline.

    The baseline ``transformer`` has our width, hidden size, layers, heads and dropout. A baseline
    of another name has its own. Both have the same positions and share embeddings alike.

    Args:
        args: the options of ``resmlp-mt benchmark``.
        source, target: the longest sentences, in tokens, ends of sentence included.

    Attributes:
        task: the translation task of fairseq, with the dictionaries.
        names: of the two models, for headings.
        options: complete options of the two.

    Raises:
        UserError: for options that do not go together.
    """

    def __init__(self, args, source: int, target: int):
        self.args = args
        positions = max(256, source, target)
        self.task = build_task(args, positions)
        words = ["--max-source-positions", str(positions), "--max-target-positions", str(positions)]
        if self.task.source_dictionary == self.task.target_dictionary:
            words.append("--share-all-embeddings")
        else:
            words.append("--share-decoder-input-output-embed")
        ours = complete("--arch", args.arch, [*words, *split("--arch-options", args.arch_options)])
        if args.baseline == "transformer":
            for name in SIZES + _DROPOUTS:
                words += [f"--{name.replace('_', '-')}", str(getattr(ours, name))]
        words += split("--baseline-options", args.baseline_options)
        self.options = ours, complete("--baseline", args.baseline, words)
        for options in self.options:
            _check_positions(options, source, target)
        same = args.arch == args.baseline
        self.names = args.arch, f"{args.baseline} (baseline)" if same else args.baseline
        self._parameters: Dict[str, int] = {}

    def build(self, number: int, **changes):
        """The model of that number with random weights, some of its options changed."""
        options = Namespace(**{**vars(self.options[number]), **changes})
        torch.manual_seed(self.args.seed)
        try:
            model = ARCH_MODEL_REGISTRY[options.arch].build_model(options, self.task)
        except UserError:
            raise
        except (AssertionError, ValueError, ZeroDivisionError) as error:
            raise UserError(f"{options.arch}: {error}") from None  # fairseq refuses its options
        parameters = sum(weight.numel() for weight in model.parameters())
        self._parameters.setdefault(self.names[number], parameters)
        return model.to(device=self.args.device, dtype=getattr(torch, self.args.dtype))

    def models(self) -> list:
        """Both models, ready to be trained."""
        return [self.build(number) for number in (0, 1)]

    def describe(self) -> dict:
        """What the two models are that were built, for the result file."""
        return {
            name: {
                "architecture": options.arch,
                "parameters": self._parameters[name],
                "positions": [options.max_source_positions, options.max_target_positions],
                **{size: getattr(options, size, None) for size in SIZES},
            }
            for name, options in zip(self.names, self.options)
        }


def _check_positions(options: Namespace, source: int, target: int) -> None:
    for side, tokens in (("source", source), ("target", target)):
        positions = getattr(options, f"max_{side}_positions")
        if tokens > positions:
            raise UserError(
                f"--{side}-length {tokens - 1}: with its end of sentence that is {tokens} tokens, "
                f"and {options.arch} has {positions} positions: raise its "
                f"--max-{side}-positions"
            )


def make_ready(model, beam: int):
    """What ``fairseq-generate`` does to a model before it translates."""
    model.eval()
    model.prepare_for_inference_(
        OmegaConf.create({"generation": {"beam": beam, "print_alignment": None}})
    )
    return model
