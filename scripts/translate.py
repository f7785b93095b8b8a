#!/usr/bin/env python3
"""Translate a text: the same number of lines, in the same order.

translate.py --checkpoint averaged.pt --data DIR/data-bin --input DIR/text/test.en --output test.de
... | translate.py --checkpoint averaged.pt --data DIR/data-bin --input - --output -

Beam 4 and length penalty 0.6, as in the paper, and otherwise fairseq-generate's search. All GPUs of
the machine work on it, a process and a shard each; on a CPU --shards N takes as many processes. The
text is normalised as prepare.py does it. A line ends at the line feed; one without a word becomes
an empty one. The output is written when all is translated, or not at all.
"""

import argparse
import ast
import sys
import time
from functools import partial
from pathlib import Path

import torch
from tqdm import tqdm

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError, check_positive
from resmlp_mt.translate.output import check_output, write_output
from resmlp_mt.translate.shards import open_shards
from resmlp_mt.translate.source_text import SourceText
from resmlp_mt.translate.translator import Translator

DIED = "{shard} {how}: nothing was written; if memory ran out, take fewer --shards or --max-tokens"


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", type=Path, required=True, help="what average.py wrote")
    parser.add_argument("--data", type=Path, required=True, help="data-bin, for its dictionaries")
    parser.add_argument(
        "--spm",
        type=Path,
        metavar="FILE",
        help="SentencePiece model of the data (default: subwords/spm.model beside DATA)",
    )
    parser.add_argument("--input", type=Path, required=True, help="text, plain or .gz, or -")
    parser.add_argument("--output", type=Path, required=True, help="file to write, or -")
    parser.add_argument("--beam", type=int, default=4, metavar="N", help="hypotheses (4)")
    parser.add_argument("--lenpen", type=float, default=0.6, metavar="X", help="(0.6)")
    parser.add_argument("--max-len-a", type=float, default=0.0, metavar="A", help="(0)")
    parser.add_argument(
        "--max-len-b",
        type=int,
        default=200,
        metavar="B",
        help="at most A x source + B words, as of fairseq-generate (200)",
    )
    parser.add_argument(
        "--no-normalise",
        action="store_true",
        help="the data were not made by prepare.py, or the text is normalised already",
    )
    parser.add_argument(
        "--truncate",
        action="store_true",
        help="translate the beginning of a line that is too long for the model; without it such "
        "lines are refused before anything is translated",
    )
    parser.add_argument(
        "--shards", type=int, metavar="N", help="processes (default: one a GPU; on a CPU 1)"
    )
    parser.add_argument("--cpu", action="store_true", help="leave the GPUs alone")
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads of all together")
    parser.add_argument(
        "--max-tokens", type=int, default=4096, metavar="N", help="source tokens a batch (4096)"
    )
    parser.add_argument("--fp16", action="store_true", help="compute in float16 (GPU)")
    parser.add_argument(
        "--model-overrides",
        default="{}",
        metavar="DICT",
        help="as of fairseq-generate, such as \"{'inference_precision': 'int8'}\" on a CPU",
    )
    args = parser.parse_args()
    given = [name for name in ("shards", "threads") if getattr(args, name) is not None]
    check_positive(args, "beam", "max_tokens", "max_len_b", *given)
    try:
        args.model_overrides = dict(ast.literal_eval(args.model_overrides))
    except (ValueError, TypeError, SyntaxError):
        raise UserError(
            f"--model-overrides {args.model_overrides}: write it like {{'name': 'value'}}"
        ) from None
    return args


def open_model(args: argparse.Namespace):
    """The model on the devices that were asked for."""
    gpus = 0 if args.cpu else torch.cuda.device_count()
    shards = args.shards or max(1, gpus)
    if gpus and shards > gpus:
        raise UserError(f"--shards {shards}: there are {gpus} GPUs, one a shard; or add --cpu")
    if args.fp16 and not gpus:
        raise UserError("--fp16: needs a GPU; on a CPU try --model-overrides")
    load = partial(
        Translator,
        checkpoints=[args.checkpoint],
        data=args.data,
        generation={
            name: getattr(args, name) for name in ("beam", "lenpen", "max_len_a", "max_len_b")
        },
        max_tokens=args.max_tokens,
        fp16=args.fp16,
        overrides=args.model_overrides,
    )
    return open_shards(load, shards, args.cpu, DIED, args.threads)


def main() -> None:
    args = parse_args()
    check_output(args.output)
    spm = args.spm or args.data.parent / "subwords" / "spm.model"
    text = SourceText(args.input, spm)
    with open_model(args) as model:
        positions, source = model.about
        text.encode(None if args.no_normalise else source)
        cut = text.fit(positions, args.truncate)
        unknown = text.unknown(args.data / f"dict.{source}.txt")
        if unknown > 0.01:
            print(f"note: {unknown:.1%} of the pieces are not in the dictionary", file=sys.stderr)
        batches = text.batches(args.max_tokens)
        translations = [""] * len(text.pieces)
        start = time.monotonic()
        with tqdm(total=len(text.wanted), unit=" sentences", dynamic_ncols=True) as bar:
            pieces = [[text.pieces[line] for line in batch] for batch in batches]
            for number, found in model.answers(pieces):
                for line, translation in zip(batches[number], found, strict=True):
                    translations[line] = translation
                bar.update(len(found))
    write_output(args.output, translations)
    seconds = time.monotonic() - start
    print(
        f"{len(text.wanted)} sentences in {seconds:.1f} s, "
        f"{len(translations) - len(text.wanted)} lines without a word, {cut} cut off",
        file=sys.stderr,
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
