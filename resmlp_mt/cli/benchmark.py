"""Measure our model beside fairseq's Transformer, in turn, on the same sentences.

    resmlp-mt benchmark decode --quick          # small sizes, to see that it runs
    resmlp-mt benchmark decode --out results    # tables, and results/decode.json
    resmlp-mt benchmark decode --target-length 25 100 200 --ctranslate2 int8 --precision int8

Modes:
    decode    time of a beam search with a forced number of words
    train     time of full training steps
    memory    activations kept by a training step, and what decoding remembers, by length

Every time is a median, with its lowest and highest repeat. Leave the machine alone while it runs,
and set --threads to the cores that are free. Weights and words are random: the number of words is
forced, so that time does not depend on them.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

MODES = ("decode", "train", "memory")
SETTINGS = {
    "arch": "resmlp_mt_6",
    "vocabulary": 32768,
    "sentences": 64,
    "beam": 4,
    "tokens": 4096,
    "repeats": 5,
}
QUICK = {"arch": "resmlp_mt_tiny", "vocabulary": 1000, "sentences": 4, "tokens": 64, "repeats": 2}
# target words a sentence by mode, and with --quick
LENGTHS = {"decode": ([25], [10]), "train": ([25], [10]), "memory": ([25, 50, 100, 200], [5, 10])}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("mode", choices=MODES)
    models = parser.add_argument_group("models")
    models.add_argument("--arch", metavar="NAME", help="our model (default resmlp_mt_6)")
    models.add_argument(
        "--baseline",
        metavar="NAME",
        default="transformer",
        help="its rival: transformer takes width, hidden size, layers, heads and dropout of our "
        "model, any other name has its own (default transformer)",
    )
    for flag, whose in (("--arch-options", "our model"), ("--baseline-options", "the baseline")):
        models.add_argument(
            flag,
            metavar="'WORDS'",
            default="",
            help=f"options of fairseq-train for {whose}: {flag}='--decoder-layers 3'",
        )
    models.add_argument(
        "--positions", type=int, help="of both models (default: what is needed, at least 256)"
    )
    models.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    text = parser.add_argument_group("sentences")
    text.add_argument(
        "--data", metavar="DIR", help="sentences of binary data (default: random words)"
    )
    text.add_argument("--split", help="which of --data (default test, or train to train)")
    text.add_argument("--vocabulary", type=int, help="number of random words (default 32768)")
    several = {"type": int, "nargs": "+", "metavar": "WORDS"}
    text.add_argument("--source-length", **several, help="of random sentences (default 25)")
    text.add_argument(
        "--target-length", **several, help="default 25, and to measure memory 25 50 100 200"
    )
    text.add_argument("--tokens", type=int, help="target tokens to train on (default 4096)")
    text.add_argument("--sentences", type=int, help="translated in one batch (default 64)")
    text.add_argument("--beam", type=int, help="hypotheses a sentence (default 4)")
    more = parser.add_argument_group("further columns of decode")
    more.add_argument(
        "--precision",
        nargs="+",
        default=[],
        choices=("bfloat16", "int8"),
        help="our model with inference_precision set so",
    )
    more.add_argument(
        "--ctranslate2",
        nargs="+",
        default=[],
        choices=("float32", "float16", "bfloat16", "int8"),
        help="the baseline converted to CTranslate2 (pip install ctranslate2)",
    )
    run = parser.add_argument_group("run")
    run.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    run.add_argument("--repeats", type=int, help="timed runs of each (default 5)")
    run.add_argument("--warmup", type=int, default=1, help="runs before them (default 1)")
    run.add_argument("--threads", type=int, help="CPU threads (default: that of PyTorch)")
    run.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    run.add_argument("--seed", type=int, default=1, help="of weights and words (default 1)")
    run.add_argument(
        "--out", type=Path, metavar="DIR", help="write numbers and pictures (default: print only)"
    )


def complete(args: Namespace) -> Namespace:
    """Give every option that was left out its value.

    Raises:
        UserError: for a value out of range.
    """
    from resmlp_mt.errors import UserError, check_positive

    quick = 1 if args.quick else 0
    settings = {**SETTINGS, **(QUICK if quick else {})}
    settings["source_length"] = [5] if quick else [25]
    settings["target_length"] = LENGTHS[args.mode][quick]
    settings["split"] = "train" if args.mode == "train" else "test"
    if args.data is not None and (args.source_length or args.mode == "memory"):
        option = "memory" if args.mode == "memory" else "--source-length"
        raise UserError(
            f"--data: its sentences have their own lengths: leave out --data or {option}"
        )
    if args.mode != "decode" and (args.precision or args.ctranslate2):
        raise UserError(
            f"{args.mode}: --precision and --ctranslate2 are for decode: leave them out"
        )
    for name, value in settings.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    counts = ("vocabulary", "positions", "repeats", "threads", "sentences", "beam", "tokens")
    check_positive(args, *[name for name in counts if getattr(args, name) is not None])
    if args.warmup < 0:
        raise UserError(f"--warmup {args.warmup}: must be at least 0")
    for name in ("source_length", "target_length"):
        for value in getattr(args, name):
            if value < 1:
                raise UserError(f"--{name.replace('_', '-')} {value}: must be at least 1")
    least = 2 * args.beam + 4  # fairseq's search takes twice the beam, of words that are no symbols
    if args.data is None and args.vocabulary < least:
        raise UserError(f"--vocabulary {args.vocabulary}: must be at least {least}")
    return args


def run(args: Namespace) -> None:
    import sys

    args = complete(args)
    settings = {name: v for name, v in vars(args).items() if name not in ("mode", "out", "run")}

    import torch

    from resmlp_mt.benchmark import decoding, memory, report, training
    from resmlp_mt.errors import UserError

    if args.device == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: PyTorch finds no GPU here")
    if args.threads:
        torch.set_num_threads(args.threads)
    if args.out is not None:
        report.check_folder(args.out)
    modes = {"decode": decoding.main, "train": training.main, "memory": memory.main}
    found = modes[args.mode](args)
    report.show(found, args)
    if args.out is not None:
        for path in report.save(found, args, settings, sys.argv[1:]):
            print(path)
