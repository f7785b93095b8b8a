#!/usr/bin/env python3
"""Exported models beside PyTorch: the same translations, BLEU of int8, sizes, speed, memory.

    python scripts/deploying.py --model NAME CHECKPOINT DATA --test NAME SOURCE TARGET --out FILE

Both options may be given several times. The first test counts the translations that are the same,
with beam 1 and 4. The others are scored alone. It is the result file behind docs/deploying.md.
"""

import argparse
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import psutil
import torch
from sacrebleu.metrics import BLEU, CHRF

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.export.folder import export
from resmlp_mt.export.runtime import Translator as Exported
from resmlp_mt.files import write_json
from resmlp_mt.provenance import versions
from resmlp_mt.text.lines import one_line, read_parallel
from resmlp_mt.translate.translator import SearchOptions, Translator

PRECISIONS = ("float32", "int8")
BATCH = 100  # sentences that PyTorch translates together
LINES = 20_000  # that the memory is watched over


def same_translations(options: SearchOptions, exported: Exported, lines: list) -> dict:
    """How many lines have the translation that fairseq's search in PyTorch gives them."""
    found = {}
    for beam in (1, 4):
        translator = Translator(replace(options, beam=beam), torch.device("cpu"))
        pieces = [translator.encode(line).split() for line in lines]
        order = sorted(range(len(lines)), key=lambda i: -len(pieces[i]))
        theirs = {}
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            theirs.update(zip(batch, translator.nbest([pieces[i] for i in batch])))
        ours = [one[0] for one in exported.search(pieces, beam=beam)]
        best = [theirs[i][0] for i in range(len(lines))]
        same = [one_line(a.text) == b.text for a, b in zip(best, ours)]
        gaps = [abs(a.score - b.score) for a, b, s in zip(best, ours, same) if s]
        found[f"beam {beam}"] = {"same": sum(same), "of": len(same), "scores_apart": max(gaps)}
    return found


def scores(exported: Exported, pairs: list) -> dict:
    sources, references = zip(*pairs)
    translated = exported.translate(sources)
    bleu = BLEU()
    return {
        "bleu": round(bleu.corpus_score(translated, [references]).score, 2),
        "chrf": round(CHRF().corpus_score(translated, [references]).score, 2),
        "signature": str(bleu.get_signature()),
    }


def speed(folder: Path, lines: list) -> dict:
    """Words of the source a second of one thread, with beam 1, and one sentence at a time with
    beam 4, in seconds of the CPU."""
    exported = Exported(folder, threads=1)
    exported.translate(lines[:10])
    start = time.process_time()
    exported.translate(lines, beam=1)
    taken, each = time.process_time() - start, []
    for line in lines[:100]:
        start = time.process_time()
        exported.translate([line])
        each.append(1000 * (time.process_time() - start))
    each.sort()
    return {
        "words_a_second": sum(len(line.split()) for line in lines) / taken,
        "sentence_ms": {"median": each[len(each) // 2], "95%": each[len(each) * 95 // 100]},
    }


def memory(folder: Path, lines: list) -> dict:
    """MB of the program, at its highest in each quarter of 20,000 lines."""
    text = (lines * (LINES // len(lines) + 1))[:LINES]
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "source"
        source.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
        words = [sys.executable, folder / "runtime.py", "--input", source, "--beam", 1]
        words += ["--threads", 1, "--output", Path(name) / "target"]
        seen = []
        with subprocess.Popen(list(map(str, words)), stderr=subprocess.DEVNULL) as program:
            process = psutil.Process(program.pid)
            while program.poll() is None:
                with_peak = process.memory_info().rss / 1e6
                seen.append(with_peak)
                time.sleep(0.05)
        if program.returncode:
            raise UserError(f"{folder / 'runtime.py'}: status {program.returncode}")
    quarter = len(seen) // 4
    return {"lines": LINES, "peak_mb": [max(seen[i * quarter :][:quarter]) for i in range(4)]}


def check(name: str, checkpoint: Path, data: Path, tests: dict, work: Path) -> dict:
    options = SearchOptions(paths=(checkpoint,), data=data, cpu=True)
    first = next(iter(tests.values()))
    lines = [source for source, _ in first]
    found = {"tests": {test: {} for test in tests}, "megabytes": {}}
    for precision in PRECISIONS:
        folder = work / f"{name}.{precision}"
        found[f"beside PyTorch {precision}"] = export(options, folder, precision, lines[:50])
        size = sum(path.stat().st_size for path in folder.iterdir())
        found["megabytes"][precision] = size / 1e6
        exported = Exported(folder, threads=1)
        if precision == "float32":
            found.update(same_translations(options, exported, lines))
        for test, pairs in tests.items():
            found["tests"][test][precision] = scores(exported, pairs)
        found[f"speed {precision}"] = speed(folder, lines)
    found["memory int8"] = memory(work / f"{name}.int8", lines)
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
