"""Text to text on a CPU, line by line: an exported folder beside a Transformer in CTranslate2."""

from collections.abc import Callable
from functools import partial
from statistics import median

import sentencepiece
from measuring import alternate
from results import number
from systems import converted

from resmlp_mt_runtime import Model
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.lines import read_text

# from a line, and the number of tokens to write (0: no limit), to the number of tokens
Translate = Callable[[str, int], int]


def ours(args) -> Translate:
    exported = Model(args.folder, "native", args.threads)

    def translate(line: str, length: int) -> int:
        ((best, *_),) = exported.stream([line], beam=args.beam)
        return len(best.pieces)

    return translate


def theirs(args, precision: str) -> Translate:
    translator = converted(args.transformer, args.data, precision, args)
    subwords = sentencepiece.SentencePieceProcessor(model_file=str(args.folder / "spm.model"))

    def translate(line: str, length: int) -> int:
        search = {"min_decoding_length": length or 1, "max_decoding_length": length or 200}
        pieces = subwords.encode(line, out_type=str)
        (found,) = translator.translate_batch([pieces], **search, beam_size=args.beam)
        subwords.decode(found.hypotheses[0])
        return len(found.hypotheses[0])

    return translate


def by_line(args) -> dict:
    """Milliseconds per line: all systems in turn, the median of ``--repeats`` runs, of which the
    median over the lines. CTranslate2 writes as many tokens as the first of ours."""
    if not args.folder or args.input is None:
        raise UserError("text: give --folder, an exported model, and --input, lines to translate")
    if args.ctranslate2 and not (args.transformer and args.data):
        raise UserError("--ctranslate2: give --transformer and --data, too")
    name = args.folder.name
    systems = {f"{name}, native": ours(args)}
    systems |= {f"CTranslate2 {p}": theirs(args, p) for p in args.ctranslate2}
    lines = [line for line in read_text(args.input) if line.strip()][: args.sentences]
    first, *_ = systems.values()
    taken: dict[str, list[float]] = {system: [] for system in systems}
    for translate in systems.values():
        translate(lines[0], 0)
    for line in lines:
        length = first(line, 0)
        runs = {system: partial(translate, line, length) for system, translate in systems.items()}
        for system, seconds in alternate(runs, args.repeats).items():
            taken[system].append(1000 * median(seconds))
    found = {system: {"p50": median(of)} for system, of in taken.items()}
    print(f"{len(lines)} lines, beam {args.beam}\n")
    for system, of in found.items():
        print(f"{system}: {number(of['p50'])} ms per line")
    return found
