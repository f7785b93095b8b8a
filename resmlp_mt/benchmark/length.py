"""Mode ``length``: time per decoded token by the length of the target, and of the source."""

from typing import Dict, List

from tqdm import tqdm

from resmlp_mt.benchmark.columns import Pair
from resmlp_mt.benchmark.decode import measure
from resmlp_mt.benchmark.report import Chart, Report, counted, number, spread_text
from resmlp_mt.benchmark.sentences import Sentences
from resmlp_mt.benchmark.timing import Spread, spread
from resmlp_mt.score.terminal_table import Table


def per_token(line: dict, name: str) -> Spread:
    """Milliseconds for a token of output, all sentences of the batch together."""
    found = line["columns"][name]
    return spread(found["seconds"]).scaled(1000 / found["output_tokens"])


def grown(lines: List[dict], name: str) -> str:
    """The last line's time for a token relative to the first's, and so the multiply-adds."""
    times = [per_token(line, name).median for line in (lines[0], lines[-1])]
    found = [line["columns"][name] for line in (lines[0], lines[-1])]
    work = [column["counted"]["multiply_adds"] / column["output_tokens"] for column in found]
    return f"{number(times[1] / times[0])} (counted {number(work[1] / work[0])})"


def table(side: str, other: str, lengths: List[int], lines: List[dict]) -> Table:
    names = list(lines[0]["columns"])
    rows = []
    for length, line in zip(lengths, lines):
        cells = [str(length)]
        cells += [spread_text(per_token(line, name)) for name in names]
        found = line["columns"][names[0]]
        cells += [spread_text(Spread(**found["speed"])), number(found["counted"]["speed"])]
        rows.append(cells)
    growth = ", ".join(f"{name} {grown(lines, name)}" for name in names)
    return Table(
        f"Milliseconds for a decoded token by {side} words ({other})",
        [f"{side} words", *names, "speed", "counted"],
        rows,
        [
            f"speed: {names[0]} against {names[1]}; counted: that if every multiply-add took the "
            "same time",
            f"time for a token at {lengths[-1]} relative to {lengths[0]}: {growth}",
        ],
    )


def chart(side: str, other: str, lengths: List[int], lines: List[dict]) -> Chart:
    return Chart(
        f"Time for a decoded token by {side} length\n({other})",
        f"{side} length (words)",
        "time for a token (ms)",
        {
            name: [(length, per_token(line, name)) for length, line in zip(lengths, lines)]
            for name in lines[0]["columns"]
        },
    )


def main(args) -> Report:
    """
    Args:
        args: with ``source_length`` and ``target_length``, lists, and ``fixed_length`` of the
            side that is not varied.
    """
    fixed = args.fixed_length
    longest = [max(*lengths, fixed) + 1 for lengths in (args.source_length, args.target_length)]
    pair = Pair(args, *longest)
    sentences = Sentences(pair.task, args)
    columns = pair.columns()
    series = {
        "target": [(fixed, words) for words in sorted(args.target_length)],
        "source": [(words, fixed) for words in sorted(args.source_length)],
    }
    points = list(dict.fromkeys(series["target"] + series["source"]))
    found: Dict[tuple, dict] = {}
    total = len(points) * len(columns) * (args.warmup + args.repeats)
    with tqdm(total=total, unit="run", disable=None) as bar:
        for source, words in points:
            batch = sentences.source_batch(args.sentences, source)
            found[source, words] = measure(columns, batch, words, args, bar)
    report = Report({"models": pair.described()}, [])
    for side, other in (("target", "source"), ("source", "target")):
        lines = [found[point] for point in series[side]]
        lengths = sorted(getattr(args, f"{side}_length"))
        setting = f"{fixed} {other} words, {counted(args.sentences, 'sentence')}, beam {args.beam}"
        report.result[f"by_{side}_length"] = [
            {"length": length, **line} for length, line in zip(lengths, lines)
        ]
        report.tables.append(table(side, setting, lengths, lines))
        report.pictures[f"length-{side}"] = [chart(side, setting, lengths, lines)]
    return report
