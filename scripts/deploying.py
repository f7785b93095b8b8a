#!/usr/bin/env python3
"""Exported models beside fairseq-generate: the same translations, BLEU of int8, sizes.

    python scripts/deploying.py --model NAME CHECKPOINT DATA --test NAME SOURCE TARGET --out FILE

Both options may be given several times. DATA is binary data whose subset test is the first test:
the translations that are the same are counted there, with beam 1 and 4. The others are scored
alone. It is a result file behind docs/deploying.md.
"""

import argparse
import math
import re
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import psutil
import torch

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.export.folder import export
from resmlp_mt.export.runtime import Translator as Exported
from resmlp_mt.files import write_json
from resmlp_mt.provenance import versions
from resmlp_mt.score.sacre import score
from resmlp_mt.text.lines import read_parallel
from resmlp_mt.train.programs import USER_DIR, program
from resmlp_mt.translate.translator import SearchOptions

PRECISIONS = ("float32", "int8")
LINES = 20_000  # that the memory is watched over


def same_translations(options: SearchOptions, exported: Exported, lines: list) -> dict:
    """How many lines have the translation of fairseq-generate, and the scores of the others."""
    languages = exported.config["languages"]
    sources = [exported.pieces(line) for line in lines]
    found = {}
    for beam in (1, 4):
        theirs = fairseq_generate(replace(options, beam=beam), languages)
        if [theirs[i]["S"] for i in range(len(theirs))] != [" ".join(one) for one in sources]:
            raise UserError(f"{options.data}: its subset test is not the first --test: give that")
        ours = [one[0] for one in exported.search(sources, beam=beam)]
        apart, other = 0.0, []
        for line, hypothesis in enumerate(ours):
            score, pieces = theirs[line]["H"].split("\t")
            score = float(score) * math.log(2)  # fairseq-generate prints it to the base of 2
            if pieces == " ".join(hypothesis.pieces):
                apart = max(apart, abs(score - hypothesis.score))
            else:
                other.append({"line": line + 1, "fairseq": score, "exported": hypothesis.score})
        same = len(ours) - len(other)
        found[f"beam {beam}"] = {
            "same": same,
            "of": len(ours),
            "scores_apart": apart,
            "other": other,
        }
    return found


def fairseq_generate(options: SearchOptions, languages: list) -> dict:
    """What it prints of each sentence of the subset test: ``S`` the source, ``H`` the best score
    and its pieces."""
    words = [program("fairseq-generate"), options.data, "--user-dir", USER_DIR]
    words += ["--path", options.paths[0], "--beam", options.beam, "--lenpen", options.lenpen]
    words += ["--max-len-a", options.max_len_a, "--max-len-b", options.max_len_b, "--cpu"]
    words += ["--max-tokens", options.max_tokens, "-s", languages[0], "-t", languages[1]]
    done = subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True)
    found: dict = {}
    for kind, sentence, said in re.findall(r"^([SH])-(\d+)\t(.*)$", done.stdout, re.MULTILINE):
        found.setdefault(int(sentence), {})[kind] = said
    return found


def scores(exported: Exported, pairs: list, **options) -> dict:
    sources, references = zip(*pairs)
    language = exported.config["languages"][1]
    return score(exported.translate(sources, **options), references, language)


def memory(program: list, lines: list) -> dict:
    """MB of a program, at its highest in each quarter of the time that 20,000 lines take.

    Args:
        program: its words; the names of the text and of the file to write follow.
        lines: which are repeated.
    """
    text = (lines * (LINES // len(lines) + 1))[:LINES]
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "source"
        source.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
        words = [*program, "--input", source, "--output", Path(name) / "target"]
        seen = []
        with subprocess.Popen(list(map(str, words)), stderr=subprocess.DEVNULL) as running:
            process = psutil.Process(running.pid)
            while running.poll() is None:
                seen.append(process.memory_info().rss / 1e6)
                time.sleep(0.05)
        if running.returncode:
            raise UserError(f"{program}: status {running.returncode}")
    quarter = len(seen) // 4
    return {"lines": LINES, "peak_mb": [max(seen[i * quarter :][:quarter]) for i in range(4)]}


def check(name: str, checkpoint: Path, data: Path, tests: dict, work: Path) -> dict:
    options = SearchOptions(paths=(checkpoint,), data=data, cpu=True)
    first = next(iter(tests.values()))
    lines = [source for source, _ in first]
    found = {"tests": {test: {} for test in tests}, "megabytes": {}}
    for precision in PRECISIONS:
        folder = work / f"{name}.{precision}"
        found[f"beside PyTorch {precision}"] = export(options, folder, precision, lines[:50], data)
        sizes = {path.name: path.stat().st_size / 1e6 for path in folder.iterdir()}
        found["megabytes"][precision] = sum(sizes.values())
        exported = Exported(folder, threads=1)
        if precision == "float32":
            found.update(same_translations(options, exported, lines))
        for test, pairs in tests.items():
            of_test = found["tests"][test]
            of_test[precision] = scores(exported, pairs)
            of_test[f"{precision}, shortlist"] = scores(exported, pairs, shortlist=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    several = {"nargs": 3, "action": "append", "required": True}
    parser.add_argument("--model", **several, metavar=("NAME", "CHECKPOINT", "DATA"))
    parser.add_argument("--test", **several, metavar=("NAME", "SOURCE", "TARGET"))
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    args = parser.parse_args()
    torch.set_num_threads(1)
    tests = {name: read_parallel(Path(a), Path(b)) for name, a, b in args.test}
    result = {"command": shlex.join(["python", "scripts/deploying.py", *sys.argv[1:]])}
    result.update(versions=versions(), models={})
    with tempfile.TemporaryDirectory() as work:
        for name, checkpoint, data in args.model:
            found = check(name, Path(checkpoint), Path(data), tests, Path(work))
            result["models"][name] = found
            write_json(args.out, result)


if __name__ == "__main__":
    sys.exit(run_main(main))
