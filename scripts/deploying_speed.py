#!/usr/bin/env python3
"""An exported model beside a Transformer in CTranslate2, from text to text: speed and memory.

    python scripts/deploying_speed.py --model CHECKPOINT --transformer CHECKPOINT --data DATA \\
        --source FILE [--threads N] [--memory] --out FILE

Both models are of one folder of binary data. All systems translate the same lines in turn, in
batches by tokens, and then one line at a time. A system with a shortlist has that of the export.
The memory is measured by a run of its own. These are result files behind docs/deploying.md.
"""

import argparse
import shlex
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import Callable, Dict, List

import ctranslate2
import sentencepiece
import torch
from ctranslate2.converters import FairseqConverter
from deploying import PRECISIONS, memory

from resmlp_mt.benchmark.converted import save_checkpoint
from resmlp_mt.benchmark.report import machine
from resmlp_mt.benchmark.timing import alternate
from resmlp_mt.checkpoints.loading import load_checkpoint
from resmlp_mt.cli.arguments import WHOLE, Parser
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.export.folder import export
from resmlp_mt.export.runtime import SHORTLIST
from resmlp_mt.export.runtime import Translator as Exported
from resmlp_mt.files import write_json
from resmlp_mt.provenance import versions
from resmlp_mt.text.lines import read_text
from resmlp_mt.translate.translator import SearchOptions, Translator

BEAM, LENPEN, TOKENS = 4, 0.6, 4096  # of a batch: source tokens, padding included
ONE_BY_ONE = 100  # lines
# what runtime.py is for our model
PROGRAM = """
import argparse, itertools, ctranslate2, sentencepiece
parser = argparse.ArgumentParser()
for name in ("model", "spm", "input", "output"):
    parser.add_argument(f"--{name}")
args = parser.parse_args()
translator = ctranslate2.Translator(args.model, inter_threads=1, intra_threads=1)
subwords = sentencepiece.SentencePieceProcessor(model_file=args.spm)
with open(args.input, encoding="utf-8") as lines, open(args.output, "w") as output:
    while chunk := list(itertools.islice(lines, 2048)):
        found = translator.translate_batch(
            subwords.encode(chunk, out_type=str), beam_size=1, max_decoding_length=100,
            max_batch_size=4096, batch_type="tokens")
        output.writelines(subwords.decode(one.hypotheses[0]) + "\\n" for one in found)
"""

Translate = Callable[[List[str]], int]  # returns the number of tokens, ends included


def ours(folder: Path, threads: int, shortlist: bool) -> Translate:
    exported = Exported(folder, threads=threads)

    def translate(lines: List[str]) -> int:
        found = exported.stream(
            lines, beam=BEAM, lenpen=LENPEN, max_tokens=TOKENS, shortlist=shortlist
        )
        return sum(len(one[0].pieces) + 1 for one in found)

    return translate


def theirs(folder: Path, spm: Path, threads: int, shortlist: bool) -> Translate:
    translator = ctranslate2.Translator(str(folder), inter_threads=1, intra_threads=threads)
    subwords = sentencepiece.SentencePieceProcessor(model_file=str(spm))

    def translate(lines: List[str]) -> int:
        found = translator.translate_batch(
            subwords.encode(lines, out_type=str),
            beam_size=BEAM,
            length_penalty=LENPEN,
            max_decoding_length=200,
            max_batch_size=TOKENS,
            batch_type="tokens",
            use_vmap=shortlist,
        )
        best = [one.hypotheses[0] for one in found]
        subwords.decode(best)
        return sum(len(pieces) + 1 for pieces in best)

    return translate


def convert(options: SearchOptions, vmap: Path, precision: str, out: Path) -> None:
    """Write the Transformer for CTranslate2."""
    loaded = Translator(options, torch.device("cpu"))
    words = load_checkpoint(options.paths[0])["cfg"]["model"]
    with tempfile.TemporaryDirectory() as name:
        checkpoint = save_checkpoint(loaded.models[0], words, loaded.task, Path(name))
        quantization = None if precision == "float32" else precision
        converter = FairseqConverter(str(checkpoint), name)
        converter.convert(str(out), vmap=str(vmap), quantization=quantization)


def one_by_one(systems: Dict[str, Translate], lines: List[str]) -> Dict[str, dict]:
    """Milliseconds of a line: all systems in turn, the median of three times."""
    taken: Dict[str, List[float]] = {system: [] for system in systems}
    for line in lines:
        runs = {system: partial(translate, [line]) for system, translate in systems.items()}
        for system, seconds in alternate(runs, 0, 3).items():
            taken[system].append(1000 * median(seconds))
    return {
        system: {"median": median(times), "95%": sorted(times)[len(times) * 95 // 100]}
        for system, times in taken.items()
    }


def main() -> None:
    parser = Parser(description=__doc__.split("\n")[0])
    for name in ("model", "transformer", "data", "source", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--threads", **WHOLE, default=1)
    parser.add_argument("--repeats", **WHOLE, default=5)
    parser.add_argument("--lines", **WHOLE, default=500, help="how many of the source")
    help = "of the whole programs on 20,000 lines, in place of the speed"
    parser.add_argument("--memory", action="store_true", help=help)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    lines = read_text(args.source)[: args.lines]
    result = {
        "command": shlex.join(["python", "scripts/deploying_speed.py", *sys.argv[1:]]),
        "versions": {**versions(), "ctranslate2": ctranslate2.__version__},
        "machine": machine(argparse.Namespace(dtype="float32", device="cpu")),
        "lines": len(lines),
        "beam": BEAM,
        "systems": {},
    }
    with tempfile.TemporaryDirectory() as name:
        work, systems, programs = Path(name), {}, {}
        for precision in PRECISIONS:
            folder, converted = work / precision, work / f"ct2.{precision}"
            options = SearchOptions(paths=(args.model,), data=args.data, cpu=True)
            export(options, folder, precision, None, args.data)
            other = SearchOptions(paths=(args.transformer,), data=args.data, cpu=True)
            convert(other, folder / SHORTLIST, precision, converted)
            spm = folder / "spm.model"
            for listed in (False, True):
                ending = f"{precision}, shortlist" if listed else precision
                systems[f"ours, {ending}"] = ours(folder, args.threads, listed)
                systems[f"CTranslate2, {ending}"] = theirs(converted, spm, args.threads, listed)
            command = [sys.executable, folder / "runtime.py", "--beam", 1, "--threads", 1]
            programs[f"ours, {precision}"] = command
            command = [sys.executable, "-c", PROGRAM, "--model", converted, "--spm", spm]
            programs[f"CTranslate2, {precision}"] = command
        if args.memory:
            result["memory"] = {name: memory(words, lines) for name, words in programs.items()}
            write_json(args.out, result)
            return
        tokens = {system: translate(lines) for system, translate in systems.items()}
        runs = {system: partial(translate, lines) for system, translate in systems.items()}
        seconds = alternate(runs, 1, args.repeats)
        each = one_by_one(systems, lines[:ONE_BY_ONE])
        for system in systems:
            result["systems"][system] = {
                "seconds": seconds[system],
                "tokens": tokens[system],
                "tokens_per_second": tokens[system] / median(seconds[system]),
                "sentence_ms": each[system],
            }
        write_json(args.out, result)


if __name__ == "__main__":
    sys.exit(run_main(main))
