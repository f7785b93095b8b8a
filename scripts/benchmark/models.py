"""The models that are compared: the same sizes, one dictionary, random weights and words."""

from argparse import Namespace
from pathlib import Path

import torch
from fairseq import options as fairseq_options
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks.translation import TranslationTask
from fairseq.utils import import_user_module, move_to_cuda
from omegaconf import OmegaConf
from torch import Tensor

import resmlp_mt

SAME = [
    *("dropout", "attention-dropout", "activation-dropout"),
    *("encoder-embed-dim", "encoder-ffn-embed-dim", "encoder-layers", "encoder-attention-heads"),
    *("decoder-embed-dim", "decoder-ffn-embed-dim", "decoder-layers", "decoder-attention-heads"),
]
import_user_module(Namespace(user_dir=str(Path(resmlp_mt.__file__).parent)))


def complete(arch: str, words: list[str]) -> Namespace:
    """All options of an architecture, as ``fairseq-train`` parses them from *words*."""
    parser = fairseq_options.get_training_parser()
    return fairseq_options.parse_args_and_arch(parser, ["data", "--arch", arch, *words])


class Pair:
    """Our model and fairseq's Transformer of the same width, depth, heads and dropout."""

    def __init__(self, args):
        self.args = args
        positions = max(256, args.source_length + 1, *(n + 1 for n in args.target_length))
        words = ["--max-source-positions", str(positions), "--max-target-positions", str(positions)]
        words += ["--share-all-embeddings"]
        ours = complete(args.arch, [*words, *args.arch_options.split()])
        words += [f"--{name}={getattr(ours, name.replace('-', '_'))}" for name in SAME]
        self.options = {args.arch: ours, "transformer": complete("transformer", words)}
        self.ours = args.arch
        dictionary = Dictionary()
        for word in range(args.vocabulary - len(dictionary)):
            dictionary.add_symbol(f"w{word}")
        self.task = TranslationTask(ours, dictionary, dictionary)

    def build(self, name: str):
        """A model with random weights."""
        options = self.options[name]
        torch.manual_seed(self.args.seed)
        model = ARCH_MODEL_REGISTRY[options.arch].build_model(options, self.task)
        return model.to(device=self.args.device, dtype=getattr(torch, self.args.dtype))

    def batch(self, count: int, source: int, target: int = 0, seed: int = 0) -> dict:
        """*count* random sentences of so many words, to train on if they have targets."""
        sources = self._random(count, source, seed)
        net_input = {"src_tokens": sources, "src_lengths": torch.full((count,), source + 1)}
        batch = {"id": torch.arange(count), "nsentences": count, "net_input": net_input}
        if target:
            targets = batch["target"] = self._random(count, target, seed + 1)
            batch["ntokens"] = targets.numel()
            net_input["prev_output_tokens"] = targets.roll(1, 1)
        return move_to_cuda(batch) if self.args.device == "cuda" else batch

    def training_batch(self, source: int, target: int, seed: int = 0) -> dict:
        """As many sentences as have ``--tokens`` target tokens, ends of sentence included."""
        return self.batch(max(1, self.args.tokens // (target + 1)), source, target, seed)

    def _random(self, count: int, words: int, seed: int) -> Tensor:
        dictionary = self.task.source_dictionary
        generator = torch.Generator().manual_seed(self.args.seed + seed)
        low, high = dictionary.nspecial, len(dictionary)
        text = torch.randint(low, high, (count, words), generator=generator)
        return torch.cat([text, torch.full((count, 1), dictionary.eos())], 1)


def make_ready(model, beam: int):
    """What ``fairseq-generate`` does to a model before it translates."""
    model.eval()
    generation = {"generation": {"beam": beam, "print_alignment": None}}
    model.prepare_for_inference_(OmegaConf.create(generation))
    return model


def loss_of(model, task, batch: dict) -> Tensor:
    """The mean label-smoothed loss of a batch."""
    loss, size, _ = LabelSmoothedCrossEntropyCriterion(task, False, 0.1)(model, batch)
    return loss / size
