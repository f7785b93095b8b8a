#!/usr/bin/env python3
"""Sentences longer than training's: one to four of the test set in one line, translated.

    MULTI30K=DIR python examples/multi30k/long_sentences.py

by the trained models that study.py left in out/study/, as they are and, where there is an A, with
it extended past the positions that training reached (token_mixing_reach), whose number the
validation set chooses. results/long_sentences.json has what came of it.
"""

import sys
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import torch
from compare import TEST
from decoding import translate
from fetch import find_corpora
from plan import rows
from result_files import earlier
from run import HERE
from study import folder_options

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.files import make_folder, write_json
from resmlp_mt.provenance import versions
from resmlp_mt.score.scoring import score
from resmlp_mt.text.lines import read_parallel

MOST = 4  # sentences in a line
REACHES = (16, 24, 32)  # tried on lines of three sentences
EXTENDED = ("resmlp-3", "toeplitz-3")
NAMES = tuple(
    f"{table}.en-de.{system}.1"
    for table in ("table5", "concatenated")
    for system in ("transformer-3", *EXTENDED, "conv-3")
)
Pairs = List[Tuple[str, str]]


def joined(pairs: Pairs, number: int) -> Pairs:
    """Every *number* sentences that follow each other, in one line; fewer at the end are left."""
    groups = zip(*[iter(pairs)] * number)
    return [tuple(" ".join(side) for side in zip(*group)) for group in groups]


def bleu(name: str, out: Path, pairs: Pairs, reach: Optional[int]) -> float:
    """sacreBLEU of a run's model on *pairs*."""
    sources, references = map(list, zip(*pairs))
    overrides = {"token_mixing_reach": reach} if reach else None
    return score(translate(out, name, sources, overrides), references)["bleu"]


def study(name: str, out: Path, valid: Pairs, tests: List[Pairs]) -> Dict[str, List[float]]:
    """BLEU by number of sentences, for each way to use a run's model."""
    found = {"as it is": [bleu(name, out, pairs, None) for pairs in tests]}
    if rows()[name].label in EXTENDED:
        on_valid = {reach: bleu(name, out, joined(valid, 3), reach) for reach in REACHES}
        reach = max(on_valid, key=on_valid.get)
        found[f"extended from {reach}"] = [bleu(name, out, pairs, reach) for pairs in tests]
    return found


def main() -> None:
    args = folder_options(__doc__).parse_args()
    torch.set_num_threads(1)
    file = args.results / "long_sentences.json"
    made = earlier(file)["rows"]
    corpora = find_corpora("de", HERE / "corpus")
    tests = [joined(read_parallel(*corpora[TEST]), number) for number in range(1, MOST + 1)]
    valid = read_parallel(*corpora["valid"])
    words = [sum(len(source.split()) for source, _ in pairs) / len(pairs) for pairs in tests]
    references = [reference for _, reference in tests[0]]
    head = {"command": "examples/multi30k/long_sentences.py", "versions": versions()}
    head["signature"] = score(references, references)["bleu_signature"]
    for name in NAMES:
        if name in made or name not in rows() or not (args.out / name / "generate").exists():
            continue
        make_folder(args.results)
        made[name] = study(name, args.out, valid, tests)
        for how, scores in made[name].items():
            print(f"{name:34} {how:18} {' '.join(f'{s:5.1f}' for s in scores)}", flush=True)
        write_json(file, {**head, "test": TEST, "words": words, "rows": made})
    if not made:
        raise UserError(f"{args.out}: no trained models there: study.py run 'table5.en-de.*-3.1'")


if __name__ == "__main__":
    sys.exit(run_main(main))
