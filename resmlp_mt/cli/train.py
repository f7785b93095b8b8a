"""Train with a recipe: on a CPU, one GPU or several.

  resmlp-mt train DATA --out DIR                               on all GPUs, or the CPU
  resmlp-mt train DATA --out DIR --recipe mixed --arch transformer_small
  resmlp-mt train DATA --out DIR -- --dropout 0.2              more options of fairseq-train

prints the fairseq-train command and runs it, with torchrun for more than one GPU. DATA is the
folder data-bin of resmlp-mt prepare or fairseq-preprocess. DIR gets the checkpoints and train.log.
The same command resumes, even on a different number of GPUs; the tokens per update stay the same.

--arch names a model, --recipe a TOML file that says how to train it, with reasons in comments:
trial, small (tens of thousands of pairs), mixed (more), iwslt, paper (WMT14). For TensorBoard,
pip install tensorboardX and add -- --tensorboard-logdir DIR.
"""

import shlex
from argparse import ArgumentParser, Namespace
from dataclasses import fields
from pathlib import Path

from resmlp_mt.cli.arguments import OUT_FOLDER, SEED, USER_DIR
from resmlp_mt.pipeline.train.command import MAX_TOKENS, PRECISIONS, TrainingOptions
from resmlp_mt.pipeline.train.recipe import NAMES, load_recipe
from resmlp_mt_runtime.arguments import WHOLE
from resmlp_mt_runtime.errors import say


def add_training_options(parser) -> None:
    """The options that ``resmlp-mt run`` shares, of a parser or a group of it."""
    add = parser.add_argument
    help = f"{', '.join(NAMES)} or a TOML file (default: mixed)"
    add("--recipe", default="mixed", metavar="NAME|FILE", help=help)
    help = "resmlp_mt_tiny, resmlp_mt_small, resmlp_mt_base, resmlp_mt_iwslt_de_en, resmlp_mt_6, "
    help += "resmlp_mt_12, transformer_small or one of fairseq (default: resmlp_mt_small)"
    add("--arch", default="resmlp_mt_small", metavar="NAME", help=help)
    add("--max-update", **WHOLE, help="number of updates (default: the recipe's)")
    help = "tokens per update, on all GPUs together (default: the recipe's)"
    add("--tokens", **WHOLE, help=help)
    help = f"tokens per batch on each GPU; fewer need less memory (default: up to {MAX_TOKENS})"
    add("--max-tokens", **WHOLE, help=help)
    device = parser.add_mutually_exclusive_group().add_argument
    device("--gpus", **WHOLE, help="number of GPUs (default: all; if there is none, the CPU)")
    device("--cpu", action="store_true", help="do not use a GPU")
    help = "fp32, bf16 (torch.autocast) or fp16 (16-bit weights); default: fp32"
    add("--precision", choices=tuple(PRECISIONS), default="fp32", help=help)
    add("--seed", **SEED, help="random seed (default: 1)")
    add("--threads", **WHOLE, help="CPU threads (default: all cores)")
    add("--user-dir", **USER_DIR)


def add_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("data", type=Path, metavar="DATA", help="folder of binary data")
    add("--out", **OUT_FOLDER, help="folder for checkpoints")
    add_training_options(parser)
    for flag in (("--source-lang", "-s"), ("--target-lang", "-t")):
        add(*flag, metavar="LANG", help="needed if DATA has several pairs")


def training_options(args: Namespace) -> TrainingOptions:
    recipe = load_recipe(args.recipe)
    given = {each.name: getattr(args, each.name) for each in fields(TrainingOptions)}
    for name in ("max_update", "tokens"):
        given[name] = given[name] or getattr(recipe, name)
    return TrainingOptions(**{**given, "recipe": recipe})


def run(args: Namespace) -> None:
    options = training_options(args)
    from resmlp_mt.pipeline.train.training import Training

    training = Training(args.data, args.out, options, args.source_lang, args.target_lang)
    training.check_data()
    say(f"    {shlex.join(training.command())}")
    training.run()
