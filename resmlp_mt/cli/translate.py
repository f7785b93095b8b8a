"""Translate a text: the same number of lines in the same order.

  resmlp-mt translate --path run/model --input test.en --output test.de
  ... | resmlp-mt translate --path averaged.pt --data DATA/data-bin --input - --output -

Every checkpoint of a translation task of fairseq works. The search is that of fairseq-generate.
The data folder says whether the text is normalised and how it is split into subwords.

All GPUs of the machine take part. The output is written when all is translated. Until then
OUTPUT.parts keeps what is done, and the same command resumes there. The jobs of a cluster share a
text with --num-shards and --shard-id. The last of them writes the output.

A line ends at the line feed. A line without a word gives an empty one.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Tuple

from resmlp_mt.cli.arguments import LENPEN, WHOLE, count, number
from resmlp_mt.decoding.length_penalty import length_penalty
from resmlp_mt.errors import UserError


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the models and their search, which distill has too."""
    add = parser.add_argument
    help = "checkpoint, or a folder of resmlp-mt run (OUT/model) with model.pt in it. Several, "
    help += "with a colon between them, are an ensemble"
    add("--path", required=True, metavar="FILE[:FILE]", help=help)
    help = "binary data of the training, for its dictionaries and subwords (default: the folder "
    help += "of the checkpoint)"
    add("--data", type=Path, metavar="DIR", help=help)
    help = "SentencePiece model, for data that `resmlp-mt prepare` did not make. The text is not "
    help += "normalised then"
    add("--spm", type=Path, metavar="FILE", help=help)
    add("--beam", **WHOLE, default=4, help="beam size (default: 4)")
    help = "length penalty. Take the best on your validation set. A higher one favours longer "
    help += "translations (default: what resmlp-mt run chose and stored beside the model, or 0.6)"
    add("--lenpen", **LENPEN, help=help)
    add("--max-len-a", type=number, default=0.0, metavar="A", help="see B (default: 0)")
    help = "a translation has at most A x source + B subwords (default: 200)"
    add("--max-len-b", type=count, default=200, metavar="B", help=help)
    help = "no N subwords in a row are repeated in a translation (default: 0, they may be)"
    add("--no-repeat-ngram-size", type=int, default=0, metavar="N", help=help)
    add("--max-tokens", **WHOLE, default=4096, help="source subwords per batch (default: 4096)")
    add("--fp16", action="store_true", help="compute in float16, on a GPU")
    add("--cpu", action="store_true", help="do not use a GPU")
    add("--threads", **WHOLE, help="CPU threads of all processes together")
    add("--processes", **WHOLE, help="number of processes (default: one per GPU, on a CPU 1)")
    help = "model options in place of the checkpoint's, as a Python dictionary"
    add("--model-overrides", default="{}", metavar="DICT", help=help)


def checkpoint_paths(text: str) -> Tuple[Path, ...]:
    """The checkpoints of ``--path``; a folder is that of a run or a published model."""
    paths = map(Path, [text] if os.path.exists(text) else text.split(":"))
    return tuple(path / "model.pt" if path.is_dir() else path for path in paths)


def search_options(args: argparse.Namespace, nbest: int = 1):
    """A :class:`~resmlp_mt.translate.translator.SearchOptions` of a command line."""
    import ast
    import json

    from resmlp_mt.translate.translator import SearchOptions

    try:
        overrides = dict(ast.literal_eval(args.model_overrides))
        json.dumps(overrides)  # as the folder of finished parts stores them
        if not all(isinstance(name, str) for name in overrides):
            raise TypeError
    except (ValueError, TypeError, SyntaxError):
        raise UserError(
            f"--model-overrides {args.model_overrides}: write it like {{'name': 'value'}}"
        ) from None
    paths = checkpoint_paths(args.path)
    same = ("spm", "beam", "max_len_a", "max_len_b", "no_repeat_ngram_size")
    same += ("max_tokens", "fp16", "cpu", "threads", "processes")
    return SearchOptions(
        paths=paths,
        data=args.data or paths[0].parent,
        lenpen=length_penalty(args.lenpen, paths[0].parent),
        nbest=nbest,
        overrides=overrides,
        **{name: getattr(args, name) for name in same},
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this subcommand."""
    add, file = parser.add_argument, {"type": Path, "required": True, "metavar": "FILE"}
    add("--input", **file, help="text, plain or .gz, or -")
    add("--output", **file, help="file to write, or -")
    add_search_arguments(parser)
    help = "the best N translations of each line: the output has N lines for each line of the "
    help += "input, the best first (default: 1)"
    add("--nbest", **WHOLE, default=1, help=help)
    help = "translate the beginning of a line that is too long for the model. Without it such "
    help += "lines are refused before anything is translated"
    add("--truncate", action="store_true", help=help)
    add("--num-shards", **WHOLE, default=1, help="number of jobs that share the text (default: 1)")
    help = "number of this job, from 0 (default: 0)"
    add("--shard-id", type=int, default=0, metavar="I", help=help)


def run(args: argparse.Namespace) -> None:
    """Translate, and print how much to standard error."""
    from resmlp_mt.translate.driver import translate

    options = search_options(args, args.nbest)
    done = translate(
        options, args.input, args.output, args.num_shards, args.shard_id, args.truncate
    )
    said = f"{done['sentences']} sentences in {done['seconds']:.1f} s, {done['cut']} cut off, "
    said += f"length penalty {options.lenpen:g}"
    if done["left"]:
        said += (
            f"; {done['left']} chunks are left to other shards, the last of which writes "
            f"{args.output}"
        )
    elif done["written"]:
        said += f"; {done['lines']} lines, {done['blank']} of them without a word"
    print(said, file=sys.stderr)
