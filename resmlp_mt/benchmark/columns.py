"""What translates the same sentences in turn: our model, the baseline, further forms of both."""

from argparse import Namespace
from dataclasses import asdict
from typing import Callable, Dict

from resmlp_mt.benchmark.ctranslate import CTranslate2Column
from resmlp_mt.benchmark.floor import Sizes
from resmlp_mt.benchmark.mixing_work import SELF_ATTENTION
from resmlp_mt.benchmark.pair import (
    LENGTH_PENALTY,
    build,
    check_positions,
    make_ready,
    pair_options,
    parse_options,
    sizes_of,
)
from resmlp_mt.benchmark.sentences import build_task
from resmlp_mt.errors import UserError

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1}


class FairseqColumn:
    """A model translated with by ``task.build_generator``, as ``fairseq-generate`` does.

    Attributes:
        name: the heading.
        model: made ready for inference.
        sizes: for :mod:`resmlp_mt.benchmark.floor`.
        bytes_each: of a weight.
        cache_bytes: of a number in the memory of decoding.
    """

    def __init__(self, name: str, model, sizes: Sizes, task, args, weights: str):
        self.name, self.sizes, self.task, self.beam = name, sizes, task, args.beam
        self.model = make_ready(model, args.beam)
        self.bytes_each = BYTES[weights]
        self.cache_bytes = 4 if weights == "int8" else BYTES[weights]  # states are not quantized

    def prepare(self, batch: dict, words: int) -> Callable[[], int]:
        """What translates *batch* into exactly *words* words a sentence, and an end of sentence.

        Returns:
            a function that translates, and gives the number of tokens in the best hypotheses.

        Raises (when called):
            RuntimeError: if a hypothesis came out of another length.
        """
        options = Namespace(
            beam=self.beam, max_len_a=0, max_len_b=words, min_len=words, lenpen=LENGTH_PENALTY
        )
        generator = self.task.build_generator([self.model], options)

        def translate() -> int:
            found = self.task.inference_step(generator, [self.model], batch)
            lengths = {len(hypothesis["tokens"]) for beams in found for hypothesis in beams}
            if lengths != {words + 1}:
                raise RuntimeError(f"{self.name}: {lengths} tokens, asked for {words + 1}")
            return len(found) * (words + 1)

        return translate


class Pair:
    """Our model and the baseline as ``args`` describes them.

    Args:
        args: the parsed options.
        source, target: the longest sentences, in tokens, ends of sentence included.

    Raises:
        UserError: for options that do not go together.
    """

    def __init__(self, args, source: int, target: int):
        self.args = args
        positions = args.positions or max(256, source, target)
        self.task = build_task(args, positions)
        share = self.task.source_dictionary == self.task.target_dictionary
        self.options = pair_options(args, positions, share)
        for options in self.options:
            check_positions(options, source, target)
        same = args.arch == args.baseline
        self.names = args.arch, f"{args.baseline} (baseline)" if same else args.baseline
        types = len(self.task.target_dictionary)
        self.sizes = tuple(sizes_of(options, types) for options in self.options)
        self._parameters: Dict[str, int] = {}

    def _build(self, name: str, options: Namespace):
        model = build(options, self.task, self.args)
        self._parameters[name] = sum(weight.numel() for weight in model.parameters())
        return model

    def models(self) -> list:
        """Both models, with random weights, ready to be trained."""
        return [self._build(name, options) for name, options in zip(self.names, self.options)]

    def columns(self) -> list:
        """All that is to translate: our model first, the baseline second."""
        args, task = self.args, self.task
        columns = [
            FairseqColumn(name, self._build(name, options), sizes, task, args, args.dtype)
            for name, options, sizes in zip(self.names, self.options, self.sizes)
        ]
        for precision in args.precision:
            pairs = [f"inference_precision={precision}"]
            extra = parse_options("--precision", args.arch, pairs)
            model = build(Namespace(**{**vars(self.options[0]), **extra}), task, args)
            name = f"{self.names[0]} {precision}"
            columns.append(FairseqColumn(name, model, self.sizes[0], task, args, precision))
        for precision in args.ctranslate2:
            if self.sizes[1].mixing != SELF_ATTENTION:
                raise UserError(f"--ctranslate2: it has no {args.baseline}: name a Transformer")
            columns.append(
                CTranslate2Column(
                    precision,
                    columns[1].model,
                    self.options[1],
                    self.sizes[1],
                    task,
                    args,
                    BYTES[precision],
                )
            )
        return columns

    def described(self) -> dict:
        """What the two models are that were built, for the result file."""
        return {
            name: {
                "architecture": options.arch,
                "parameters": self._parameters[name],
                "positions": [options.max_source_positions, options.max_target_positions],
                **asdict(sizes),
            }
            for name, options, sizes in zip(self.names, self.options, self.sizes)
        }
