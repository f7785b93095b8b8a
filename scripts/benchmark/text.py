"""Text to text on a CPU: exported folders beside a Transformer in CTranslate2."""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import sentencepiece
from fairseq import checkpoint_utils
from measuring import alternate, show
from results import number
from systems import convert, engines, load_converted

from resmlp_mt.errors import UserError
from resmlp_mt.export.runtime import ExportedModel
from resmlp_mt.text.lines import read_text

TOKENS = 4096  # source tokens of a batch, padding included
# from lines, and the number of tokens to write (0: no limit), to the number of tokens, EOS included
Translate = Callable[[list[str], int], int]


def ours(folder: Path, graph: bool, args) -> Translate:
    exported = ExportedModel(folder, args.threads, graph)

    def translate(lines: list[str], length: int) -> int:
        found = exported.stream(lines, beam=args.beam, max_tokens=TOKENS)
        return sum(len(one[0].pieces) + 1 for one in found)

    return translate


def theirs(folder: Path, spm: Path, precision: str, args) -> Translate:
    translator = load_converted(folder, precision, args)
    subwords = sentencepiece.SentencePieceProcessor(model_file=str(spm))

    def translate(lines: list[str], length: int) -> int:
        search = {"min_decoding_length": length or 1, "max_decoding_length": length or 200}
        pieces = subwords.encode(lines, out_type=str)
        found = translator.translate_batch(
            pieces, **search, beam_size=args.beam, max_batch_size=TOKENS, batch_type="tokens"
        )
        best = [one.hypotheses[0] for one in found]
        subwords.decode(best)
        return sum(len(pieces) + 1 for pieces in best)

    return translate


def one_by_one(systems: dict[str, Translate], lines: list[str]) -> dict[str, dict]:
    """Milliseconds per line: all systems in turn, the median of three runs. CTranslate2 writes as
    many tokens as the first of ours."""
    taken: dict[str, list[float]] = {system: [] for system in systems}
    first, *_ = systems.values()
    for line in lines:
        length = first([line], 0) - 1
        runs = {system: partial(translate, [line], length) for system, translate in systems.items()}
        for system, seconds in alternate(runs, 3).items():
            taken[system].append(1000 * median(seconds))
    late = len(lines) * 95 // 100
    return {name: {"p50": median(of), "p95": sorted(of)[late]} for name, of in taken.items()}


def main(args) -> dict:
    if not args.folder or args.input is None:
        raise UserError("text: give --folder, an exported model, and --input, lines to translate")
    lines = [line for line in read_text(args.input) if line.strip()][: args.sentences]
    loading = {
        f"{folder.name}, native" if engine == "native" else folder.name: (
            folder,
            partial(ours, folder, engine == "graph", args),
        )
        for engine in engines(args.graph)
        for folder in args.folder
    }
    systems, found = {}, {}
    with tempfile.TemporaryDirectory() as name:
        if args.ctranslate2:
            (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task(
                [str(args.transformer)], arg_overrides={"data": str(args.data)}
            )
        for precision in args.ctranslate2:
            out = Path(name) / f"CTranslate2 {precision}"
            convert(model, cfg.model, task, precision, out)
            spm = args.folder[0] / "spm.model"
            loading[out.name] = out, partial(theirs, out, spm, precision, args)
        for system, (folder, load) in loading.items():
            start = time.perf_counter()
            systems[system] = load()
            systems[system](lines[:1], 0)
            found[system] = {
                "start_seconds": time.perf_counter() - start,
                "model_mb": sum(path.stat().st_size for path in folder.rglob("*")) / 1e6,
            }
        runs = {system: partial(translate, lines, 0) for system, translate in systems.items()}
        tokens = {system: run() for system, run in runs.items()}
        seconds = alternate(runs, args.repeats)
        each = one_by_one(systems, lines)
    for system, taken in seconds.items():
        found[system] |= {"tokens_per_second": tokens[system] / median(taken), **each[system]}
    head = ["", "start, s", "model, MB", "tokens/s", "ms per sentence", "95%"]
    rows = [[name, *map(number, of.values())] for name, of in found.items()]
    show(f"{len(lines)} lines, beam {args.beam}", head, rows)
    return found
