"""Mode ``shares``: what a decoding step's time goes to.

Two measurements are put together. All columns translate in turn without a profiler: that gives the
wall time. Then ours and fairseq's translate as often under PyTorch's profiler, which says how long
each operator ran itself; the profiler's own work, by which those runs were longer, is taken off
event by event. "Python and dispatch" is the wall time less all operators' time: the interpreter,
PyTorch's way to its operators, memory management. It is shown as 0 where the operators' time comes
out longer. On a GPU the kernels' time takes the place of the operators', and what is left over is
the time in which the GPU had nothing to do. CTranslate2 has no such profile: its wall time stands
beside the others.
"""

from typing import Dict, List

from tqdm import tqdm

from resmlp_mt.benchmark.columns import FairseqColumn, Pair
from resmlp_mt.benchmark.decode import measure
from resmlp_mt.benchmark.operators import PARTS, PRODUCTS, PYTHON, profile_parts
from resmlp_mt.benchmark.report import Report, counted, number
from resmlp_mt.benchmark.sentences import Sentences
from resmlp_mt.score.terminal_table import Table


def step_parts(column, batch: dict, words: int, wall_ms: float, args) -> Dict[str, float]:
    """Milliseconds a step by part, Python among them; *wall_ms* is the whole step's."""
    steps = words + 1
    run, wall = column.prepare(batch, words), wall_ms * steps / 1000
    vocabulary = column.sizes.vocabulary
    seconds = profile_parts(run, column.model, vocabulary, args.device, wall, args.repeats)
    parts = {part: 1000 * taken / steps for part, taken in seconds.items()}
    parts[PYTHON] = max(0.0, wall_ms - sum(parts.values()))
    return parts


def largest(parts: Dict[str, float]) -> str:
    """The two largest parts, in words."""
    two = sorted(parts, key=parts.get, reverse=True)[:2]
    return " and ".join(f"{part} ({number(parts[part])} ms)" for part in two)


def gaps(parts: Dict[str, Dict[str, float]], wall: Dict[str, float]) -> List[str]:
    """What our model's distance to each other column is made of, a line each."""
    ours = next(iter(wall))
    mine = parts[ours]
    lines = []
    for name, theirs in wall.items():
        if name == ours:
            continue
        more = wall[ours] - theirs
        line = f"{ours} takes {number(abs(more))} ms a step {'more' if more > 0 else 'less'}"
        line += f" than {name}"
        if name in parts:
            sign = 1 if more > 0 else -1
            differences = {part: sign * (mine[part] - parts[name][part]) for part in mine}
            line += f"; most of it: {largest(differences)}"
        else:
            beside = {part: taken for part, taken in mine.items() if part not in PRODUCTS}
            products = wall[ours] - sum(beside.values())
            line += (
                f"; it spends {number(products)} ms in matrix products, and beside them "
                f"most in {largest(beside)}"
            )
        lines.append(line)
    return lines


def table(line: dict, parts: Dict[str, Dict[str, float]]) -> Table:
    wall = {name: found["ms_a_step"]["median"] for name, found in line["columns"].items()}
    rows = []
    for part in (*PARTS, PYTHON):
        row = [part]
        for name in wall:
            taken = parts[name][part] if name in parts else None
            row.append("-" if taken is None else f"{number(taken)} ({taken / wall[name]:4.0%})")
        rows.append(row)
    rows.append(["all", *[f"{number(taken)} (100%)" for taken in wall.values()]])
    return Table(
        f"Milliseconds a decoding step: {counted(line['sentences'], 'sentence')} of "
        f"{line['source_tokens']} source tokens, beam {line['beam']}, {line['steps']} steps",
        ["", *wall],
        rows,
        gaps(parts, wall),
    )


def main(args) -> Report:
    """
    Args:
        args: as for ``decode``.
    """
    sources = args.source_length or [None]
    pair = Pair(args, max(length or 0 for length in sources) + 1, max(args.target_length) + 1)
    sentences = Sentences(pair.task, args)
    columns = pair.columns()
    settings = [(source, words) for source in sources for words in args.target_length]
    profiled = [column for column in columns if isinstance(column, FairseqColumn)]
    total = len(settings) * (len(columns) * (args.warmup + args.repeats) + len(profiled))
    lines, tables = [], []
    with tqdm(total=total, unit="run", disable=None) as bar:
        for source, words in settings:
            batch = sentences.source_batch(args.sentences, source)
            line = measure(columns, batch, words, args, bar)
            parts = {}
            for column in profiled:
                wall = line["columns"][column.name]["ms_a_step"]["median"]
                parts[column.name] = step_parts(column, batch, words, wall, args)
                line["columns"][column.name]["ms_by_part"] = parts[column.name]
                bar.update()
            lines.append(line)
            tables.append(table(line, parts))
    tables[-1].notes += [
        "the encoder, which runs once, is spread over the steps",
        f"{PYTHON}: wall time without the profiler, less the operators' own time",
    ]
    return Report({"models": pair.described(), "lines": lines}, tables)
