"""The models that are compared: one dictionary, random weights and tokens."""

import shlex
from argparse import Namespace
from pathlib import Path

import torch
from fairseq import options as fairseq_options
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks.translation import TranslationTask
from fairseq.utils import import_user_module, move_to_cuda
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


class Models:
    """Our models, and fairseq's Transformer with the sizes and dropout of the first of them."""

    def __init__(self, args):
        self.args = args
        positions = max(256, args.source_length + 1, *(n + 1 for n in args.target_length))
        words = ["--max-source-positions", str(positions), "--max-target-positions", str(positions)]
        words += ["--share-all-embeddings"]
        named = {text: shlex.split(text) for text in args.arch}
        ours = {text: complete(arch, [*words, *more]) for text, (arch, *more) in named.items()}
        first = next(iter(ours.values()))
        words += [f"--{name}={getattr(first, name.replace('-', '_'))}" for name in SAME]
        self.ours, self._parameters = list(ours), dict[str, int]()
        self.options = {"transformer": complete("transformer", words), **ours}
        dictionary = Dictionary()
        for word in range(args.vocabulary - len(dictionary)):
            dictionary.add_symbol(f"w{word}")
        self.task = TranslationTask(first, dictionary, dictionary)

    def build(self, name: str):
        """A model with random weights."""
        options = self.options[name]
        torch.manual_seed(self.args.seed)
        model = ARCH_MODEL_REGISTRY[options.arch].build_model(options, self.task)
        self._parameters[name] = sum(p.numel() for p in model.parameters())
        return model.to(device=self.args.device, dtype=getattr(torch, self.args.dtype))

    def sizes(self) -> dict[str, dict]:
        """By model that was built: its sizes, and its parameters."""
        names = [name.replace("-", "_") for name in SAME if "dropout" not in name]
        return {
            name: {
                **{size: getattr(self.options[name], size) for size in names},
                "vocabulary": self.args.vocabulary,
                "parameters": parameters,
            }
            for name, parameters in self._parameters.items()
        }

    def batch(self, count: int, source: int, target: int = 0, seed: int = 0) -> dict:
        """*count* random sentences of *source* tokens; with *target* tokens each, to train on."""
        sources = self._random(count, source, seed)
        net_input = {"src_tokens": sources, "src_lengths": torch.full((count,), source + 1)}
        batch = {"id": torch.arange(count), "nsentences": count, "net_input": net_input}
        if target:
            targets = batch["target"] = self._random(count, target, seed + 1)
            batch["ntokens"] = targets.numel()
            net_input["prev_output_tokens"] = targets.roll(1, 1)
        return move_to_cuda(batch) if self.args.device == "cuda" else batch

    def training_batch(self, source: int, target: int, seed: int = 0) -> dict:
        """Sentences with ``--tokens`` target tokens together, ends of sentence included."""
        return self.batch(max(1, self.args.tokens // (target + 1)), source, target, seed)

    def _random(self, count: int, length: int, seed: int) -> Tensor:
        dictionary = self.task.source_dictionary
        generator = torch.Generator().manual_seed(self.args.seed + seed)
        low, high = dictionary.nspecial, len(dictionary)
        text = torch.randint(low, high, (count, length), generator=generator)
        return torch.cat([text, torch.full((count, 1), dictionary.eos())], 1)


def loss_of(model, task, batch: dict) -> Tensor:
    """The mean label-smoothed loss of a batch."""
    loss, size, _ = LabelSmoothedCrossEntropyCriterion(task, False, 0.1)(model, batch)
    return loss / size
