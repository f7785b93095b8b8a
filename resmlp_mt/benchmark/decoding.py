"""``benchmark decode``: translate the same sentences with each system in turn."""

from argparse import Namespace
from functools import partial
from typing import Callable, Dict

from tqdm import tqdm

from resmlp_mt.benchmark.converted import CTranslate2System
from resmlp_mt.benchmark.exported import ExportedSystem
from resmlp_mt.benchmark.models import Pair, make_ready
from resmlp_mt.benchmark.report import Report, Table, counted
from resmlp_mt.benchmark.sentences import Sentences
from resmlp_mt.benchmark.timing import (
    Spread,
    alternate,
    column,
    number,
    spread_text,
    synchronizer,
)
from resmlp_mt.benchmark.work import multiply_adds

NOTES = [
    "speed: how many times as fast as the baseline, repeat by repeat: median (lowest .. highest)",
    "counted: what the speed would be if every multiply-add took the same time",
]


class FairseqSystem:
    """A model that translates by ``task.build_generator``, as in ``fairseq-generate``.

    Attributes:
        name: the heading.
        model: made ready for inference.
        counts_as: the number of the model in the pair whose products it makes.
    """

    def __init__(self, name: str, model, pair: Pair, counts_as: int):
        self.name, self.task, self.beam = name, pair.task, pair.args.beam
        self.counts_as = counts_as
        self.model = make_ready(model, self.beam)

    def prepare(self, batch: dict, words: int) -> Callable[[], int]:
        """A function that translates *batch* into exactly *words* words a sentence and their end.

        It returns the number of tokens in the best hypotheses, and raises RuntimeError if a
        hypothesis has another length.
        """
        options = Namespace(beam=self.beam, max_len_a=0, max_len_b=words, min_len=words)
        generator = self.task.build_generator([self.model], options)

        def translate() -> int:
            found = self.task.inference_step(generator, [self.model], batch)
            lengths = {len(hypothesis["tokens"]) for beams in found for hypothesis in beams}
            if lengths != {words + 1}:
                raise RuntimeError(f"{self.name}: {lengths} tokens, asked for {words + 1}")
            return len(found) * (words + 1)

        return translate


def systems_of(pair: Pair) -> list:
    """Our model, the baseline, and further forms of both."""
    args = pair.args
    systems = [FairseqSystem(pair.names[n], pair.build(n), pair, n) for n in (0, 1)]
    for precision in args.precision:
        model = pair.build(0, inference_precision=precision)
        systems.append(FairseqSystem(f"{pair.names[0]} {precision}", model, pair, 0))
    for precision in args.exported:
        systems.append(ExportedSystem(precision, pair))
    for precision in args.ctranslate2:
        systems.append(CTranslate2System(precision, systems[1].model, pair))
    return systems


def measure(systems: list, batch: dict, words: int, args, bar: tqdm) -> dict:
    """Translate one batch with all *systems*, the baseline second; the numbers, as JSON values.

    Args:
        batch: the sentences.
        words: of each translation, without its end.
        bar: advances at each run.
    """
    tokens: Dict[str, int] = {}
    translating = {system.name: system.prepare(batch, words) for system in systems}

    def run(name: str) -> None:
        tokens[name] = translating[name]()

    runs = {name: partial(run, name) for name in translating}
    synchronize = synchronizer(args.device)
    seconds = alternate(runs, args.warmup, args.repeats, synchronize, bar.update)
    work = [multiply_adds(translating[system.name]) for system in systems[:2]]
    sentences, source = batch["net_input"]["src_tokens"].shape
    line = {
        "sentences": sentences,
        "beam": args.beam,
        "source_tokens": source,
        "target_words": words,
        "steps": words + 1,
        "columns": {},
    }
    for system in systems:
        taken, mine = seconds[system.name], work[system.counts_as]
        line["columns"][system.name] = {
            **column(taken, seconds[systems[1].name], tokens[system.name], words + 1),
            "output_tokens": tokens[system.name],
            "counted": {"multiply_adds": mine, "speed": work[1] / mine},
        }
    return line


def table(line: dict) -> Table:
    rows = [
        [
            name,
            number(found["tokens_per_second"]),
            spread_text(Spread(**found["ms_a_step"])),
            spread_text(Spread(**found["speed"])),
            number(found["counted"]["speed"]),
        ]
        for name, found in line["columns"].items()
    ]
    return Table(
        f"Decoding: {counted(line['sentences'], 'sentence')} of {line['source_tokens']} source "
        f"tokens, beam {line['beam']}, {line['target_words']} words and an end of sentence "
        f"forced: {line['steps']} steps",
        ["", "tokens/s", "ms a step", "speed", "counted"],
        rows,
    )


def main(args) -> Report:
    """The same sentences with every target length."""
    pair = Pair(args, args.source_length + 1, max(args.target_length) + 1)
    batch = Sentences(pair.task, args).source_batch(args.sentences, args.source_length)
    systems = systems_of(pair)
    total = len(args.target_length) * len(systems) * (args.warmup + args.repeats)
    with tqdm(total=total, unit="run", disable=None) as bar:
        lines = [measure(systems, batch, words, args, bar) for words in args.target_length]
    tables = [table(line) for line in lines]
    tables[-1].notes += NOTES
    return Report({"models": pair.describe(), "lines": lines}, tables)
