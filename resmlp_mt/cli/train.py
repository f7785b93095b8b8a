"""Train with a recipe: on a CPU, one GPU, several, or several machines.

  resmlp-mt train DATA --out DIR                               what this machine has
  resmlp-mt train DATA --out DIR --recipe paper --arch transformer_wmt_en_de
  resmlp-mt train DATA --out DIR --gpus 8 --dry-run            print the command, run nothing
  resmlp-mt train DATA --out DIR -- --dropout 0.2              more options of fairseq-train
  resmlp-mt train DATA --out DIR --nodes 2 --gpus 8 --node-rank 0 --master-addr HOST
                                                               on each machine, with its rank

It runs fairseq-train, with torchrun for more than one GPU. DATA is the folder data-bin of
resmlp-mt prepare or fairseq-preprocess. DIR gets the checkpoints, train.log and cost.json. The same
command again resumes from the last checkpoint in DIR. The number of GPUs may change then: each
update keeps its tokens.

A recipe is a TOML file: resmlp_mt/train/recipes/small.toml (tens of thousands of pairs) and
paper.toml (WMT14, millions) say what they hold and why. TensorBoard: -- --tensorboard-logdir DIR.
"""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from resmlp_mt.errors import check_positive
from resmlp_mt.train.command import MAX_TOKENS, PORT, PRECISIONS, Devices
from resmlp_mt.train.recipe import NAMES, load_recipe


def add_training_options(parser: ArgumentParser) -> None:
    """What ``resmlp-mt run`` takes too, --recipe and --seed apart."""
    parser.add_argument(
        "--arch",
        default="resmlp_mt_6",
        metavar="NAME",
        help="resmlp_mt_6, resmlp_mt_12, resmlp_mt_toeplitz_6 and _12, resmlp_mt_gated_6 and _12, "
        "resmlp_mt_conv_6 and _12, resmlp_mt_tiny for trials, or one of fairseq such as "
        "transformer (default: resmlp_mt_6)",
    )
    parser.add_argument(
        "--max-update", type=int, metavar="N", help="number of updates (default: of the recipe)"
    )
    parser.add_argument(
        "--tokens",
        type=int,
        metavar="N",
        help="tokens per update, on all GPUs together (default: of the recipe)",
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="tokens per batch on one GPU. Lower it if memory is too small (default: "
        f"{MAX_TOKENS}, or the share of a GPU if that is less)",
    )
    parser.add_argument(
        "--gpus", type=int, metavar="N", help="GPUs on each machine (default: all, or the CPU)"
    )
    parser.add_argument(
        "--precision",
        choices=tuple(PRECISIONS),
        default="fp32",
        help="fp32, tf32 (products in TF32: A100 and later), bf16-products (products in bfloat16: "
        "CPUs with AMX) or fp16 (weights in 16 bits) (default: fp32)",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads")


def check_training_options(args: Namespace) -> None:
    """
    Raises:
        UserError: for a number below 1.
    """
    given = ("max_update", "tokens", "max_tokens", "gpus", "threads")
    check_positive(args, *(name for name in given if getattr(args, name) is not None))


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("data", type=Path, metavar="DATA", help="folder of binary data")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder for checkpoints"
    )
    add_training_options(parser)
    parser.add_argument(
        "--recipe",
        default="small",
        metavar="NAME|FILE",
        help=f"{', '.join(NAMES)} or a TOML file (default: small)",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed (default: 1)")
    parser.add_argument(
        "--source-lang", "-s", metavar="LANG", help="needed if DATA has several pairs"
    )
    parser.add_argument(
        "--target-lang", "-t", metavar="LANG", help="needed if DATA has several pairs"
    )
    parser.add_argument(
        "--nodes", type=int, default=1, metavar="N", help="number of machines (default: 1)"
    )
    parser.add_argument(
        "--node-rank", type=int, default=0, metavar="N", help="number of this one (default: 0)"
    )
    parser.add_argument(
        "--master-addr",
        default=os.environ.get("MASTER_ADDR"),
        metavar="HOST",
        help="host name of the first machine (default: the variable MASTER_ADDR)",
    )
    parser.add_argument(
        "--master-port", type=int, default=PORT, metavar="N", help=f"port there (default: {PORT})"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the command, and run nothing")


def run(args: Namespace) -> None:
    check_training_options(args)
    check_positive(args, "nodes")
    recipe = load_recipe(args.recipe)
    from resmlp_mt.train.training import Training

    training = Training(
        data=args.data,
        out=args.out,
        arch=args.arch,
        recipe=recipe,
        max_update=args.max_update,
        devices=Devices(args.gpus, args.nodes, args.node_rank, args.master_addr, args.master_port),
        precision=args.precision,
        tokens=args.tokens,
        max_tokens=args.max_tokens,
        seed=args.seed,
        threads=args.threads,
        source_lang=args.source_lang,
        target_lang=args.target_lang,
        fairseq_options=args.fairseq_options,
    )
    if args.dry_run:
        print(training.describe())
    else:
        training.run()
