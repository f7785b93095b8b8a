"""Measure our model beside a Transformer of fairseq, in turn, on the same sentences.

  resmlp-mt benchmark decode --quick          # small sizes, to see that it runs
  resmlp-mt benchmark decode --out results    # tables, and results/decode.json
  resmlp-mt benchmark decode --target-length 25 100 200 --ctranslate2 int8 --precision int8

Modes:
    decode    time of a beam search with a forced number of words
    train     time of full training steps
    memory    activations kept by a training step, and memory of decoding, by length
    gpu       what to know of a card before a large training: whether it agrees with the CPU,
              training in each precision, operations and waits of a decoding step, the other
              modes in 16 bits, and training by FSDP (--device cpu tries it without a card)

Every time is a median, with its lowest and highest repeat. Leave the machine alone while it runs,
and set --threads to the number of free cores. Weights and words are random. The number of words is
forced, so that time does not depend on them.
"""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from resmlp_mt.cli.arguments import SEED, WHOLE, count
from resmlp_mt.errors import UserError
from resmlp_mt.files import make_folder

# value of each option that is not given: of itself, and with --quick
DEFAULTS = {
    "arch": ("resmlp_mt_6", "resmlp_mt_tiny"),
    "vocabulary": (32768, 1000),
    "sentences": (64, 4),
    "beam": (4, 4),
    "tokens": (4096, 64),
    "repeats": (5, 2),
    "updates": (200, 2),
    "source_length": (25, 5),
    "target_length": ([25], [10]),
}
PARTS = ("agreement", "training", "step", "speed", "fsdp")
MEMORY_LENGTHS = ([25, 50, 100, 200], [5, 10])


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("mode", choices=("decode", "train", "memory", "gpu"))
    add = parser.add_argument_group("models").add_argument
    add("--arch", metavar="NAME", help="our model (default: resmlp_mt_6)")
    help = (
        "model to compare with. transformer has the width, hidden size, layers, heads and dropout "
        "of our model, any other name has its own (default: transformer)"
    )
    add("--baseline", metavar="NAME", default="transformer", help=help)
    for flag, whose in (("--arch-options", "our model"), ("--baseline-options", "the baseline")):
        help = f"options of fairseq-train for {whose}: {flag}='--decoder-layers 3'"
        add(flag, metavar="'WORDS'", default="", help=help)
    dtypes = ("float32", "bfloat16", "float16")
    add("--dtype", choices=dtypes, default="float32", help="(default: float32)")

    add = parser.add_argument_group("sentences").add_argument
    add("--data", metavar="DIR", help="binary data with sentences (default: random words)")
    help = "split of --data (default: train in train and gpu, otherwise test)"
    add("--split", metavar="NAME", help=help)
    add("--vocabulary", **WHOLE, help="number of random words (default: 32768)")
    add("--source-length", **WHOLE, help="words of random sentences (default: 25)")
    several = {"type": count, "nargs": "+", "metavar": "WORDS"}
    help = "words of translations (default: 25, for memory 25 50 100 200)"
    add("--target-length", **several, help=help)
    add("--tokens", **WHOLE, help="target tokens of a training step (default: 4096)")
    add("--sentences", **WHOLE, help="sentences translated in one batch (default: 64)")
    add("--beam", **WHOLE, help="beam size (default: 4)")

    add = parser.add_argument_group("further columns of decode").add_argument
    several = {"nargs": "+", "default": []}
    help = "our model with this inference_precision"
    add("--precision", **several, choices=("bfloat16", "int8"), help=help)
    help = "our model exported to ONNX Runtime (pip install .[export])"
    add("--exported", **several, choices=("float32", "int8"), help=help)
    help = (
        "the baseline converted to CTranslate2 (pip install ctranslate2). Several threads of it "
        "and those of PyTorch slow each other down: set OMP_WAIT_POLICY=active, and measure our "
        "model in a run without it"
    )
    add("--ctranslate2", **several, choices=("float32", "float16", "bfloat16", "int8"), help=help)

    add = parser.add_argument_group("gpu").add_argument
    add("--parts", nargs="+", choices=PARTS, default=PARTS, help="of gpu (default: all)")
    add("--updates", **WHOLE, help="updates of each training (default: 200)")

    add = parser.add_argument_group("run").add_argument
    add("--quick", action="store_true", help="small sizes, to see that it runs")
    add("--repeats", **WHOLE, help="timed runs of each (default: 5)")
    add("--warmup", type=int, metavar="N", default=1, help="runs before them (default: 1)")
    add("--threads", **WHOLE, help="CPU threads (default: those of PyTorch)")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="(default: cpu)")
    add("--seed", **SEED, help="seed of weights and words (default: 1)")
    add("--out", type=Path, metavar="DIR", help="folder for the numbers (default: print only)")


def complete(args: Namespace) -> Namespace:
    """Give every option that was left out its value.

    Raises:
        UserError: for a value out of range.
    """
    lengths = {
        "--source-length": args.source_length,
        "--target-length": args.mode != "decode" and args.target_length,
        "memory": args.mode == "memory",
        "the part speed (--parts)": args.mode == "gpu" and "speed" in args.parts,
    }
    given = next((name for name, used in lengths.items() if used), None)
    if args.data is not None and given:
        raise UserError(
            f"--data: its sentences have their own lengths: leave out --data or {given}"
        )
    if args.warmup < 0:
        raise UserError(f"--warmup {args.warmup}: must be at least 0")
    if args.mode != "decode" and (args.precision or args.exported or args.ctranslate2):
        raise UserError(
            f"{args.mode}: --precision, --exported and --ctranslate2 are for decode: leave them out"
        )
    if args.device == "cuda" and (args.exported or "int8" in args.precision):
        raise UserError(
            "--device cuda: leave out --exported and --precision int8, which run on a CPU"
        )
    defaults = {name: values[args.quick] for name, values in DEFAULTS.items()}
    defaults["split"] = "train" if args.mode in ("train", "gpu") else "test"
    if args.mode == "gpu" and not args.quick:
        defaults["target_length"] = [25, 200]
    if args.mode == "memory":
        defaults["target_length"] = MEMORY_LENGTHS[args.quick]
    for name, value in defaults.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    least = 2 * args.beam + 4  # fairseq takes the best 2 x beam words, and 4 symbols are no words
    if args.data is None and args.vocabulary < least:
        raise UserError(f"--vocabulary {args.vocabulary}: must be at least {least}")
    return args


def run(args: Namespace) -> None:
    args = complete(args)
    settings = {name: v for name, v in vars(args).items() if name not in ("mode", "out", "run")}

    import torch

    from resmlp_mt.benchmark import decoding, gpu, memory, report, training

    if args.device == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: PyTorch finds no GPU here")
    if args.threads:
        torch.set_num_threads(args.threads)
    if args.out is not None:
        make_folder(args.out)
    modes = {"decode": decoding, "train": training, "memory": memory, "gpu": gpu}
    found = modes[args.mode].main(args)
    report.show(found, args)
    if args.out is not None:
        print(report.save(found, args, settings, sys.argv[1:]))
    if not found.result.get("agrees", True):
        raise UserError(f"--device {args.device}: its results are not those of the CPU, see above")
