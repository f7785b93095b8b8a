#!/usr/bin/env python3
"""Multi30k from raw text to BLEU: ``python examples/multi30k/run.py --help``."""

import argparse
import json
import shlex
import sys
from pathlib import Path

from fetch import find_corpora
from table import row

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.compat import PRECISIONS
from resmlp_mt.errors import UserError, check_positive
from resmlp_mt.files import write_json
from resmlp_mt.run import Experiment, Recipe
from resmlp_mt.train.programs import architectures

HERE = Path(__file__).resolve().parent

# layers, channels, hidden, heads of the cross-attention (and of a Transformer's self-attention)
SIZES = {"tiny": (4, 128, 256, 4), "small": (3, 256, 512, 4), "base": (6, 512, 2048, 8)}


def size_options(size: str) -> list:
    """fairseq's options for one of :data:`SIZES`, the same for every architecture."""
    layers, channels, hidden, heads = SIZES[size]
    options = []
    for side in ("encoder", "decoder"):
        options += [f"--{side}-layers", layers, f"--{side}-embed-dim", channels]
        options += [f"--{side}-ffn-embed-dim", hidden, f"--{side}-attention-heads", heads]
    return [str(option) for option in options]


def training_options(arch: str, updates: int, args) -> list:
    """The recipe: the paper's for a ResMLP with its schedule scaled to this corpus, Adam else.

    Both fall linearly to 0 at the last update; README.md tells how they were chosen.
    """
    ours = arch.startswith("resmlp_mt")
    optimizer = args.optimizer or ("adagrad" if ours else "adam")
    lr = args.lr or {"adagrad": 0.05, "adam": 0.001}[optimizer]
    options = ["--optimizer", optimizer, "--lr", lr]
    if optimizer == "adam":
        options += ["--adam-betas", "(0.9, 0.98)"]
    options += ["--lr-scheduler", "polynomial_decay", "--total-num-update", updates]
    options += ["--warmup-updates", min(args.warmup, max(1, updates // 4)), "--clip-norm", 1.0]
    options += ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 0.1]
    options += ["--dropout", args.dropout, "--max-tokens", args.max_tokens]
    options += ["--share-all-embeddings"]
    options += ["--max-source-positions", 128, "--max-target-positions", 128]
    options += ["--skip-invalid-size-inputs-valid-test", "--patience", 0]
    return [str(option) for option in options]


def parse_args(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Train and score one model on Multi30k, English to German or French. "
        "The corpus comes from the folder MULTI30K or is fetched from its home. "
        "Options after -- go to fairseq-train.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--lang", choices=["de", "fr"], default="de", help="target language")
    parser.add_argument("--arch", default="resmlp_mt_tiny", help="any fairseq architecture")
    parser.add_argument("--size", choices=SIZES, help="layers and widths, else the architecture's")
    parser.add_argument("--updates", type=int, default=6000, help="length of training")
    parser.add_argument("--minutes", type=float, help="stop earlier, after this wall-clock time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, help="CPU threads (default: PyTorch's)")
    parser.add_argument(
        "--matmul-precision",
        choices=PRECISIONS,
        default="highest",
        help="of training; medium: bfloat16 products where the CPU has them",
    )
    parser.add_argument("--vocab-size", type=int, default=4000, help="joint SentencePiece pieces")
    parser.add_argument("--optimizer", choices=["adagrad", "adam"], help="default: by architecture")
    parser.add_argument("--lr", type=float, help="peak learning rate, by optimizer if not given")
    parser.add_argument("--warmup", type=int, default=400, help="updates of linear warm-up")
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--max-tokens", type=int, default=2048, help="tokens a batch")
    parser.add_argument("--average", type=int, default=3, help="last epochs to average")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument(
        "--lenpen",
        type=float,
        nargs="+",
        default=[0.6, 1.0, 1.4, 1.8],
        help="length penalties, of which the validation set chooses one (the paper: 0.6)",
    )
    parser.add_argument("--out", type=Path, help="folder for results")
    parser.add_argument("train_options", nargs="*", metavar="-- OPTION", help="for fairseq-train")
    args = parser.parse_args(argv)
    check_positive(args, "updates", "vocab_size", "max_tokens", "average", "beam")
    if args.arch not in architectures():
        ours = sorted(name for name in architectures() if name.startswith("resmlp_mt_"))
        raise UserError(
            f"--arch {args.arch}: fairseq knows no such architecture; resmlp_mt has "
            f"{', '.join(ours)}"
        )
    return args


def recipe_of(args: argparse.Namespace) -> Recipe:
    options = training_options(args.arch, args.updates, args)
    options += size_options(args.size) if args.size else []
    options += ["--stop-time-hours", str(args.minutes / 60)] if args.minutes else []
    return Recipe(
        arch=args.arch,
        source="en",
        target=args.lang,
        vocab_size=args.vocab_size,
        updates=args.updates,
        train_options=options + args.train_options,
        average=args.average,
        beam=args.beam,
        lenpen=args.lenpen,
        seed=args.seed,
        threads=args.threads,
        matmul_precision=args.matmul_precision,
    )


def main() -> None:
    args = parse_args()
    name = f"en-{args.lang}.{args.arch}{'.' + args.size if args.size else ''}.{args.seed}"
    out = args.out or HERE / "out" / name
    result = Experiment(out, recipe_of(args), find_corpora(args.lang, HERE / "corpus")).run()
    file = out / "scores" / "result.json"
    command = shlex.join(["examples/multi30k/run.py", *sys.argv[1:]])
    write_json(file, {"command": command, **result})
    print(json.dumps(result["scores"], indent=2))
    print(row(result))
    print(f"result file: {file}")


if __name__ == "__main__":
    sys.exit(run_main(main))
