"""Mode ``decode``: translate the same sentences with each column in turn."""

from statistics import mean
from typing import Dict

from tqdm import tqdm

from resmlp_mt.benchmark import floor
from resmlp_mt.benchmark.columns import Pair
from resmlp_mt.benchmark.floor import Sizes
from resmlp_mt.benchmark.report import Report, counted, megabytes, number, spread_text
from resmlp_mt.benchmark.sentences import Sentences
from resmlp_mt.benchmark.timing import Spread, alternate, ratio, spread, synchronizer
from resmlp_mt.score.terminal_table import Table

NOTES = [
    "speed: how many times faster than the baseline, repeat by repeat: median (lowest .. highest)",
    "counted: what the speed would be if every multiply-add took the same time",
    "weights, cache: MB that a step must read of weights, and read and write of past target words",
]


def measure(columns: list, batch: dict, words: int, args, bar: tqdm) -> dict:
    """Translate one batch with all columns.

    Args:
        columns: the baseline second.
        batch: the sentences.
        words: to be made of each sentence, its end on top.
        bar: moved on by each run.

    Returns:
        the numbers, as JSON values.
    """
    tokens: Dict[str, int] = {}

    def run(name, translate):
        def translating():
            tokens[name] = translate()

        return translating

    runs = {column.name: run(column.name, column.prepare(batch, words)) for column in columns}
    synchronize = synchronizer(args.device)
    seconds = alternate(runs, args.warmup, args.repeats, synchronize, after_each=bar.update)
    sentences, source = batch["net_input"]["src_tokens"].shape
    baseline = columns[1]
    line = {
        "sentences": sentences,
        "beam": args.beam,
        "source_tokens": source,
        "target_words": words,
        "steps": words + 1,
        "columns": {},
    }
    for column in columns:
        taken = seconds[column.name]
        line["columns"][column.name] = {
            "seconds": taken,
            "output_tokens": tokens[column.name],
            "tokens_per_second": tokens[column.name] / spread(taken).median,
            "ms_a_step": spread(taken).scaled(1000 / (words + 1))._asdict(),
            "speed": ratio(seconds[baseline.name], taken)._asdict(),
            "counted": count(column, baseline.sizes, source, words + 1, sentences, args.beam),
        }
    return line


def count(column, baseline: Sizes, source: int, steps: int, sentences: int, beam: int) -> dict:
    """The floor of one column: see :mod:`resmlp_mt.benchmark.floor`."""
    work = floor.decoding(column.sizes, source, steps, beam)
    traffic = None
    if column.cache_bytes is not None:
        traffic = mean(
            floor.cache_traffic(column.sizes, position, sentences * beam, column.cache_bytes)
            for position in range(1, steps + 1)
        )
    return {
        "multiply_adds": sentences * work,
        "speed": floor.decoding(baseline, source, steps, beam) / work,
        "weights_read_a_step": floor.weights_read(column.sizes, column.bytes_each),
        "cache_moved_a_step": traffic,
    }


def table(line: dict) -> Table:
    rows = []
    for name, found in line["columns"].items():
        least = found["counted"]
        rows.append(
            [
                name,
                number(found["tokens_per_second"]),
                spread_text(Spread(**found["ms_a_step"])),
                spread_text(Spread(**found["speed"])),
                number(least["speed"]),
                megabytes(least["weights_read_a_step"]),
                megabytes(least["cache_moved_a_step"]),
            ]
        )
    return Table(
        f"Decoding: {counted(line['sentences'], 'sentence')} of {line['source_tokens']} source "
        f"tokens, beam {line['beam']}, {line['target_words']} words and an end of sentence "
        f"forced: {line['steps']} steps",
        ["", "tokens/s", "ms a step", "speed", "counted", "weights", "cache"],
        rows,
    )


def main(args) -> Report:
    """
    Args:
        args: with ``source_length`` (None: the data's own sentences) and ``target_length``, lists.
    """
    sources = args.source_length or [None]
    pair = Pair(args, max(length or 0 for length in sources) + 1, max(args.target_length) + 1)
    sentences = Sentences(pair.task, args)
    columns = pair.columns()
    lines = []
    total = len(sources) * len(args.target_length) * len(columns) * (args.warmup + args.repeats)
    with tqdm(total=total, unit="run", disable=None) as bar:
        for source in sources:
            batch = sentences.source_batch(args.sentences, source)
            for words in args.target_length:
                lines.append(measure(columns, batch, words, args, bar))
    tables = [table(line) for line in lines]
    tables[-1].notes += NOTES
    return Report({"models": pair.described(), "lines": lines}, tables)
