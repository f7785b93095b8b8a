#!/usr/bin/env python3
"""Translations that say something twice, and what forbidding it gives.

    MULTI30K=DIR python examples/multi30k/repetitions.py

counts, for every run that study.py left in out/study/, the translations of test_2016_flickr in
which the same three words follow each other twice, and their words against the references'. The
Transformer and the ResMLPs of Table 5 then translate again under --no-repeat-ngram-size, whose
value the validation set chooses. results/repetitions.json has what came of it.
"""

import sys
from pathlib import Path
from typing import Dict, List

import torch
from compare import BASELINE, TEST, pairs, tested, translated, translations
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
from resmlp_mt.text.lines import read_lines, read_parallel, write_lines

WORDS = 3  # that say something twice
SIZES = (3, 4)  # of --no-repeat-ngram-size, in pieces
SYSTEMS = (BASELINE, "resmlp-3", "toeplitz-3", "conv-3")


def repeats(line: str) -> bool:
    """Whether the same :data:`WORDS` words follow each other twice."""
    words = line.split()
    runs = list(zip(*(words[start:] for start in range(WORDS))))
    return len(set(runs)) < len(runs)


def counted(texts: List[str], references: List[str]) -> Dict[str, float]:
    """Share of lines that repeat, and the number of words against the references'."""
    lengths = [sum(len(line.split()) for line in lines) for lines in (texts, references)]
    return {"repeats": sum(map(repeats, texts)) / len(texts), "words": lengths[0] / lengths[1]}


def search(name: str, out: Path, corpora: Dict[str, tuple], file: Path) -> dict:
    """Translate without repetitions into *file*; gives the size that is forbidden and BLEU."""
    valid, test = (tuple(zip(*read_parallel(*corpora[split]))) for split in ("valid", TEST))
    on_valid = {
        size: score(translate(out, name, valid[0], no_repeat_ngram_size=size), valid[1])["bleu"]
        for size in SIZES
    }
    best = max(on_valid, key=on_valid.get)
    texts = translate(out, name, test[0], no_repeat_ngram_size=best)
    file.parent.mkdir(exist_ok=True)
    write_lines(file, texts)
    scores = score(texts, test[1])
    return {"size": best, "valid_bleu": on_valid, **counted(texts, test[1]), **scores}


def study(name: str, out: Path, texts: List[str], references: List[str], known: dict) -> dict:
    """What is found of a run's translations, beside what is *known* of it from an earlier call."""
    row = rows()[name]
    found = {**known, **counted(texts, references)}
    if row.table == "table5" and row.label in SYSTEMS:
        place = f"no-repeat/{TEST}.{row.target}"
        file, against = out / name / place, pairs().get(name)
        if "forbidden" not in known or not file.exists():
            corpora = find_corpora(row.target, HERE / "corpus")
            found["forbidden"] = search(name, out, corpora, file)
        if against and (out / against / place).exists():
            both = (list(read_lines(path)) for path in (out / against / place, file))
            found["forbidden"]["against"] = tested(*both, references)
    return found


def main() -> None:
    args = folder_options(__doc__).parse_args()
    torch.set_num_threads(1)
    file = args.results / "repetitions.json"
    known = earlier(file)
    of_references, made = known["references"], known["rows"]
    head = {"command": "examples/multi30k/repetitions.py", "versions": versions(), "test": TEST}
    found = {n: row for n, row in rows().items() if translations(args.out, n).exists()}
    if not found:
        raise UserError(f"{args.out}: no translations there: study.py run 'table5.*'")
    make_folder(args.results)
    texts = {name: translated(args.out, name) for name in found}
    for name, row in found.items():
        lines, references = texts[name]
        of_references[row.target] = counted(references, references)["repeats"]
        made[name] = study(name, args.out, lines, references, made.get(name, {}))
        shares = [made[name]["repeats"]]
        if "forbidden" in made[name]:
            shares.append(made[name]["forbidden"]["repeats"])
        print(f"{name:30} {', forbidden: '.join(f'{share:.1%}' for share in shares)}", flush=True)
        write_json(file, {**head, "references": of_references, "rows": made})


if __name__ == "__main__":
    sys.exit(run_main(main))
