"""Mode ``memory``: what training and decoding keep, by length."""

from typing import Dict, List

from tqdm import tqdm

from resmlp_mt.benchmark import floor
from resmlp_mt.benchmark.columns import Pair
from resmlp_mt.benchmark.held import cache_by_length, peak_bytes, saved_bytes
from resmlp_mt.benchmark.report import Chart, Report, counted, megabytes, number
from resmlp_mt.benchmark.sentences import Sentences
from resmlp_mt.benchmark.timing import Spread
from resmlp_mt.score.terminal_table import Table


def training(pair: Pair, sentences: Sentences, args, bar: tqdm) -> List[dict]:
    models = pair.models()
    lines = []
    for length in args.target_length:
        batch = sentences.training_batch(args.tokens, length, length)
        columns = {}
        for name, model in zip(pair.names, models):
            columns[name] = {"saved": saved_bytes(model, pair.task, batch)}
            if args.device == "cuda":
                columns[name]["peak"] = peak_bytes(model, pair.task, batch)
            bar.update()
        lines.append(
            {
                "length": length,
                "sentences": batch["target"].size(0),
                "tokens": batch["ntokens"],
                "columns": columns,
            }
        )
    return lines


def decoding(pair: Pair, sentences: Sentences, args, bar: tqdm) -> List[dict]:
    columns = pair.columns()
    batch = sentences.source_batch(args.sentences, args.source_length[0])
    found = {}
    for column in columns:
        found[column.name] = cache_by_length(column, batch, args.target_length)
        bar.update()
    source = batch["net_input"]["src_tokens"].size(1)
    rows = args.sentences * args.beam
    return [
        {
            "length": length,
            "hypotheses": rows,
            "columns": {
                column.name: {
                    "held": found[column.name][length],
                    "counted": floor.cache_held(
                        column.sizes, length, rows, source, args.sentences, column.cache_bytes
                    ),
                }
                for column in columns
            },
        }
        for length in args.target_length
    ]


def table(title: str, lines: List[dict], kinds: Dict[str, str], notes: List[str]) -> Table:
    """A row a length: MB of both models and the ratio, for each kind of number."""
    ours, baseline = list(lines[0]["columns"])[:2]
    header = ["length"]
    for heading in kinds.values():
        header += [f"{ours}{heading}", f"{baseline}{heading}", "ours / theirs"]
    rows = []
    for line in lines:
        row = [str(line["length"])]
        for kind in kinds:
            some, other = line["columns"][ours][kind], line["columns"][baseline][kind]
            row += [megabytes(some), megabytes(other), number(some / other)]
        rows.append(row)
    return Table(title, header, rows, notes)


def chart(title: str, lines: List[dict], kind: str) -> Chart:
    return Chart(
        title,
        "length (words)",
        "memory (MB)",
        {
            name: [
                (line["length"], Spread(*[line["columns"][name][kind] / 1e6] * 3)) for line in lines
            ]
            for name in lines[0]["columns"]
        },
    )


def main(args) -> Report:
    """
    Args:
        args: with ``target_length``, the list of lengths, ``tokens`` of a training batch, and
            ``source_length``, of what is translated.
    """
    args.target_length = sorted(args.target_length)
    longest = max(args.target_length) + 1
    pair = Pair(args, max(longest, args.source_length[0] + 1), longest)
    sentences = Sentences(pair.task, args)
    total = 2 * len(args.target_length) + 2
    with tqdm(total=total, unit="run", disable=None) as bar:
        trained = training(pair, sentences, args, bar)
        decoded = decoding(pair, sentences, args, bar)
    kinds = {"saved": ""}
    notes = ["kept by the forward pass for the backward pass, weights apart"]
    if args.device == "cuda":
        kinds["peak"] = " (peak)"
        notes.append("peak: the most on the GPU during both passes, weights and gradients apart")
    setting = (
        f"{counted(args.sentences, 'sentence')} of {args.source_length[0]} source words, "
        f"beam {args.beam}"
    )
    tables = [
        table(
            f"Training: MB of activations in a step of {args.tokens} target tokens, by words on "
            "either side",
            trained,
            kinds,
            notes,
        ),
        table(
            f"Decoding: MB remembered, by target words so far ({setting})",
            decoded,
            {"held": "", "counted": " (counted)"},
            ["counted: what must be remembered; ours sets aside room for words to come"],
        ),
    ]
    charts = [
        chart(f"Training: activations, {args.tokens} target tokens a step", trained, "saved"),
        chart(f"Decoding: {setting}", decoded, "held"),
    ]
    result = {"models": pair.described(), "training": trained, "decoding": decoded}
    return Report(result, tables, {"memory": charts})
