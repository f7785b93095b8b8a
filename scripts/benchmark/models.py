"""The models that are compared: one dictionary, random weights and tokens."""

import shlex
from argparse import Namespace
from pathlib import Path

import torch
from fairseq import options as fairseq_options
from fairseq.data import Dictionary
from fairseq.models import build_model
from fairseq.tasks.translation import TranslationTask
from fairseq.utils import import_user_module, move_to_cuda

import resmlp_mt

SAME = [
    *("encoder-embed-dim", "encoder-ffn-embed-dim", "encoder-layers"),
    *("decoder-embed-dim", "decoder-ffn-embed-dim", "decoder-layers", "decoder-attention-heads"),
]
LANGUAGES = ("source", "target")
COMMON = [
    *("--share-all-embeddings", "--max-source-positions=256", "--max-target-positions=256"),
    *("--source-lang", LANGUAGES[0], "--target-lang", LANGUAGES[1]),
]
SEED = 1  # of weights and tokens
import_user_module(Namespace(user_dir=str(Path(resmlp_mt.__file__).parent)))


def complete(words: list[str]) -> Namespace:
    """All options of an architecture, as ``fairseq-train`` parses them: its name, then options."""
    parser = fairseq_options.get_training_parser()
    return fairseq_options.parse_args_and_arch(parser, ["data", *COMMON, "--arch", *words])


class Models:
    """Our models, and fairseq's Transformer with the sizes of the first of them."""

    def __init__(self, args):
        self.args = args
        self.ours, self.parameters = args.arch, dict[str, int]()
        options = {text: complete(shlex.split(text)) for text in self.ours}
        first = options[self.ours[0]]
        sizes = [f"--{name}={getattr(first, name.replace('-', '_'))}" for name in SAME]
        # CTranslate2 has one number of heads
        sizes.append(f"--encoder-attention-heads={first.decoder_attention_heads}")
        self.options = {"transformer": complete(["transformer", *sizes]), **options}
        dictionary = Dictionary()
        for word in range(args.vocabulary - len(dictionary)):
            dictionary.add_symbol(f"w{word}")
        self.task = TranslationTask(first, dictionary, dictionary)

    def build(self, name: str):
        """A model with random weights."""
        torch.manual_seed(SEED)
        model = build_model(self.options[name], self.task)
        self.parameters[name] = sum(p.numel() for p in model.parameters())
        return model.to(device=self.args.device, dtype=getattr(torch, self.args.dtype))

    def batch(self) -> dict:
        """Random sentences of ``--length`` tokens each, and EOS."""
        dictionary, args = self.task.source_dictionary, self.args
        shape, low, high = (args.sentences, args.length), dictionary.nspecial, len(dictionary)
        text = torch.randint(low, high, shape, generator=torch.Generator().manual_seed(SEED))
        sources = torch.cat([text, torch.full((len(text), 1), dictionary.eos())], 1)
        lengths = torch.full((len(text),), sources.size(1))
        batch = {"net_input": {"src_tokens": sources, "src_lengths": lengths}}
        return move_to_cuda(batch) if args.device == "cuda" else batch
