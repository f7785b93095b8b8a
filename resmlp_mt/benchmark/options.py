"""The command line of ``scripts/benchmark.py``."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import List, Optional

import torch

from resmlp_mt.errors import UserError, check_positive

MODES = {
    "train": "time full training steps",
    "decode": "time beam search",
    "length": "time for a decoded token, by target length and by source length",
    "memory": "memory of training and of decoding, by length",
    "shares": "take the time of a decoding step apart",
}
SETTINGS = dict(
    arch="resmlp_mt_6", vocabulary=32768, sentences=64, beam=4, tokens=4096, repeats=5, warmup=1
)
QUICK = dict(arch="resmlp_mt_tiny", vocabulary=1000, sentences=4, tokens=64, repeats=2)
# words a sentence, by mode: source, target, and both with --quick
LENGTHS = {
    "train": ([25], [25], [5], [10]),
    "decode": ([25], [25], [5], [5, 10]),
    "length": ([10, 25, 50, 100, 200], [25, 50, 100, 150, 200], [5, 10], [5, 10]),
    "memory": ([25], [25, 50, 100, 200], [5], [5, 10]),
    "shares": ([25], [25], [5], [10]),
}
COUNTS = ("vocabulary", "positions", "repeats", "threads", "sentences", "beam", "tokens")


def _add_models(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("models")
    group.add_argument("--arch", metavar="NAME", help="our model (default resmlp_mt_6)")
    group.add_argument(
        "--baseline",
        metavar="NAME",
        default="transformer",
        help="what it is compared with: transformer takes its width, hidden size, layers, heads "
        "and dropout from our model, any other name has its own (default transformer)",
    )
    for flag, whose in (("--arch-option", "our model"), ("--baseline-option", "the baseline")):
        group.add_argument(
            flag,
            metavar="KEY=VALUE",
            action="append",
            default=[],
            help=f"an option of {whose}, as fairseq-train takes it, such as decoder_layers=3 "
            "(repeatable)",
        )
    group.add_argument(
        "--positions", type=int, help="of both models (default: what is needed, at least 256)"
    )
    group.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")


def _add_data(parser: ArgumentParser, mode: str) -> None:
    group = parser.add_argument_group("sentences")
    group.add_argument(
        "--data", metavar="DIR", help="what fairseq-preprocess made (default: random words)"
    )
    group.add_argument("--split", help="which sentences of --data (default: test, train to train)")
    group.add_argument("--vocabulary", type=int, help="number of random words (default 32768)")
    source, target, *_ = LENGTHS[mode]
    several = dict(type=int, nargs="+", metavar="WORDS")
    if mode != "memory":
        own = " (with --data: its own sentences)" if mode != "length" else ""
        group.add_argument(
            "--source-length", **several, help=f"default {' '.join(map(str, source))}{own}"
        )
    else:
        group.add_argument(
            "--source-length",
            type=int,
            nargs=1,
            metavar="WORDS",
            help=f"of the sentences that are translated (default {source[0]})",
        )
    group.add_argument("--target-length", **several, help=f"default {' '.join(map(str, target))}")
    if mode == "length":
        group.add_argument(
            "--fixed-length",
            type=int,
            metavar="WORDS",
            help="of the side that is not varied (default 25)",
        )
    if mode in ("train", "memory"):
        group.add_argument("--tokens", type=int, help="target tokens a batch (default 4096)")
    if mode != "train":
        group.add_argument("--sentences", type=int, help="translated in one batch (default 64)")
        group.add_argument("--beam", type=int, help="hypotheses a sentence (default 4)")


def _add_columns(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("further columns")
    group.add_argument(
        "--precision",
        nargs="+",
        default=[],
        choices=("bfloat16", "int8"),
        help="our model with inference_precision set so",
    )
    group.add_argument(
        "--ctranslate2",
        nargs="+",
        default=[],
        choices=("float32", "float16", "bfloat16", "int8"),
        help="the baseline converted to CTranslate2 (pip install ctranslate2)",
    )


def _add_run(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("run")
    group.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    group.add_argument("--repeats", type=int, help="timed runs of each (default 5)")
    group.add_argument("--warmup", type=int, help="runs before them (default 1)")
    group.add_argument("--threads", type=int, help="CPU threads (default: PyTorch's)")
    group.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    group.add_argument("--seed", type=int, default=1, help="of weights and words (default 1)")
    group.add_argument(
        "--out", type=Path, metavar="DIR", help="write numbers and pictures there (default: print)"
    )


def build_parser() -> ArgumentParser:
    parser = ArgumentParser(
        description="Our model and fairseq's Transformer in turn, on the same sentences: time, "
        "memory, and the least work that their formulas allow."
    )
    modes = parser.add_subparsers(dest="mode", required=True, metavar="MODE")
    for mode, said in MODES.items():
        sub = modes.add_parser(mode, help=said, description=f"{said[0].upper()}{said[1:]}.")
        _add_models(sub)
        _add_data(sub, mode)
        if mode in ("decode", "length", "shares"):
            _add_columns(sub)
        _add_run(sub)
    return parser


def _fill(args: Namespace) -> None:
    """Give every option that was left out its value."""
    settings = {**SETTINGS, **(QUICK if args.quick else {})}
    source, target, quick_source, quick_target = LENGTHS[args.mode]
    lengths = dict(source_length=source, target_length=target, fixed_length=25)
    if args.quick:
        lengths = dict(source_length=quick_source, target_length=quick_target, fixed_length=5)
    if args.data is not None and args.mode in ("train", "decode", "shares"):
        # the data's own sentences, unless lengths are asked for
        if args.mode != "train" or (args.source_length, args.target_length) == (None, None):
            lengths["source_length"] = None
        if args.mode == "train" and args.target_length is None and args.source_length is None:
            lengths["target_length"] = None
    settings["split"] = "train" if args.mode == "train" else "test"
    for name, value in {**settings, **lengths}.items():
        if getattr(args, name, None) is None:
            setattr(args, name, value)
    for name in ("precision", "ctranslate2"):
        setattr(args, name, getattr(args, name, []))


def _check(args: Namespace) -> None:
    check_positive(args, *[name for name in COUNTS if getattr(args, name) is not None])
    if args.warmup < 0:
        raise UserError(f"--warmup {args.warmup}: must be at least 0")
    for name in ("source_length", "target_length", "fixed_length"):
        values = getattr(args, name)
        for value in values if isinstance(values, list) else [values]:
            if value is not None and value < 1:
                raise UserError(f"--{name.replace('_', '-')} {value}: must be at least 1")
    least = 2 * args.beam + 4  # fairseq's search takes twice the beam, of words that are no symbols
    if args.data is None and args.vocabulary < least:
        raise UserError(f"--vocabulary {args.vocabulary}: must be at least {least}")
    if args.device == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: PyTorch finds no GPU here")


def parse(argv: Optional[List[str]] = None) -> Namespace:
    """
    Returns:
        the options, every one with its value.

    Raises:
        UserError: for a value out of range.
    """
    args = build_parser().parse_args(argv)
    _fill(args)
    _check(args)
    return args
