#!/usr/bin/env python3
"""Decoding speed of the systems of Table 5: their trained English-German models, in turn.

    python examples/multi30k/speed.py

translates the first sentences of test_2016_flickr with every model that study.py left in out/study/
(seed 1), several times, one model after the other, as fairseq-generate does it. Give it a machine
that does nothing else; results/speed.json has what it found.
"""

import sys
from pathlib import Path
from typing import Callable, Dict, List

import torch
from compare import BASELINE, TEST
from plan import table5
from study import folder_options

from resmlp_mt.benchmark.timing import alternate, ratio, spread
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError, check_positive
from resmlp_mt.files import make_folder, write_json
from resmlp_mt.provenance import versions
from resmlp_mt.text.lines import read_lines
from resmlp_mt.translate.translator import Translator


def decoder(model: Path, data: Path, text: List[str], args) -> Callable[[], int]:
    """What translates the sentences once; it gives the number of subwords it wrote."""
    translator = Translator(
        torch.device("cpu"),
        [model],
        data / "data-bin",
        {"beam": args.beam},
        args.batch,
    )
    sentences = [line.split() for line in text]
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
    batches = [order[start : start + args.batch] for start in range(0, len(order), args.batch)]

    def decode() -> int:
        found = (translator.search([sentences[i] for i in batch]) for batch in batches)
        return sum(len(beam[0]["tokens"]) for hypotheses in found for beam in hypotheses)

    return decode


def main() -> None:
    parser = folder_options(__doc__)
    parser.add_argument("--sentences", type=int, default=256)
    parser.add_argument("--batch", type=int, default=64, help="sentences at a time")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    check_positive(args, "sentences", "batch", "beam", "repeats", "threads")
    torch.set_num_threads(args.threads)
    labels = [row for row in table5() if row.target == "de" and row.seed == 1]
    models = {row.label: args.out / row.name / "generate" / "model.pt" for row in labels}
    models = {label: path for label, path in models.items() if path.exists()}
    if BASELINE not in models:
        raise UserError(f"{args.out}: no model of {BASELINE}: study.py run 'table5.en-de.*.1'")
    data = args.out / "data.en-de"
    text = list(read_lines(data / "subwords" / f"{TEST}.en"))
    if len(text) < args.sentences:
        raise UserError(f"--sentences {args.sentences}: {TEST} has {len(text)}")
    make_folder(args.results)
    text = text[: args.sentences]
    runs = {label: decoder(path, data, text, args) for label, path in models.items()}
    words: Dict[str, int] = {}

    def timed(label: str) -> Callable[[], None]:
        return lambda: words.__setitem__(label, runs[label]())

    seconds = alternate({label: timed(label) for label in runs}, warmup=1, repeats=args.repeats)
    found = {}
    for label, taken in seconds.items():
        per_second = [args.sentences / time for time in taken]
        relative = ratio(seconds[BASELINE], taken)
        found[label] = {
            "sentences_a_second": spread(per_second)._asdict(),
            "relative": relative._asdict(),
            "subwords": words[label],
            "seconds": taken,
        }
        print(f"{label:14} {spread(per_second).median:6.1f} sentences/s, {relative.median:.2f} x")
    sizes = {name: getattr(args, name) for name in ("sentences", "batch", "beam", "repeats")}
    command = "examples/multi30k/speed.py"
    head = {"command": command, "versions": versions(), "threads": args.threads, **sizes}
    write_json(args.results / "speed.json", {**head, "rows": found})


if __name__ == "__main__":
    sys.exit(run_main(main))
