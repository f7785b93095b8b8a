"""From raw text to BLEU: prepare, train, average, translate and score, as one resumable run.

  resmlp-mt run --source-lang de --target-lang en --trainpref text/train --validpref text/valid \\
      --testpref text/test --vocab-size 8000 --arch resmlp_mt_toeplitz_6 --out run

reads text/train.de, text/train.en ... (or .gz), one sentence a line. It writes run/model, which is
all that translating needs, run/translations and run/scores.json. The validation set chooses the
length penalty. A run that is stopped resumes with the same command. Options of fairseq-train
follow --.

  resmlp-mt run --recipe wmt14-en-de --arch resmlp_mt_6 --out run

fetches the corpora of WMT14 by mtdata and trains with the recipe of the paper.
"""

import argparse
from pathlib import Path

from resmlp_mt.cli.arguments import LENPEN, SEED, WHOLE
from resmlp_mt.cli.prepare import add_text_arguments, preparation_of, text_options
from resmlp_mt.cli.train import add_training_options
from resmlp_mt.errors import UserError
from resmlp_mt.train.recipe import NAMES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add, folder = parser.add_argument, {"type": Path, "metavar": "DIR"}
    add("--out", **folder, required=True, help="folder for all results")
    add_text_arguments(parser, "of the recipe")
    add("--data", **folder, help="folder of resmlp-mt prepare, in place of text")
    add_training_options(parser)
    help = "recipe of the training: paper, small or a TOML file (default: small, for wmt14-* "
    help += "paper), or of the corpora: wmt14-en-de, wmt14-en-fr or one of mtdata. One of each may "
    help += "be given"
    add("--recipe", action="append", default=[], metavar="NAME|FILE", help=help)
    add("--seed", **SEED, help="seed of the training (default: 1)")
    add("--beam", **WHOLE, help="beam size (default: of the recipe)")
    help = "length penalties. The validation set chooses one (default: of the recipe)"
    add("--lenpen", **LENPEN, nargs="+", help=help)
    add("--limit", **WHOLE, help="only the first N pairs of each training corpus")
    add("--workers", **WHOLE, help="number of processes of prepare (default: all cores)")
    add("--cpu", action="store_true", help="do not use a GPU")
    help = "print the fairseq commands that do the same, and run nothing"
    add("--dry-run", action="store_true", help=help)


def split_recipes(args: argparse.Namespace) -> str:
    """Leave the corpora in ``args.recipe``, and return the recipe to train with.

    Raises:
        UserError: if two recipes are of one kind, or there is text beside one of corpora.
    """
    kinds = {"to train with": [], "of corpora": []}
    for name in args.recipe:
        trains = name in NAMES or name.endswith(".toml")
        kinds["to train with" if trains else "of corpora"].append(name)
    for name in kinds["of corpora"]:
        given = next((flag for flag in ("trainpref", "data") if getattr(args, flag)), None)
        if given:
            raise UserError(
                f"--recipe {name}: to train with, choose {' or '.join(NAMES)}, or give a TOML "
                f"file. One of corpora goes without --{given}"
            )
    for kind, names in kinds.items():
        if len(names) > 1:
            raise UserError(f"--recipe {names[0]} and --recipe {names[1]}: two recipes {kind}")
    args.recipe = (kinds["of corpora"] or [None])[0]
    default = "paper" if str(args.recipe).startswith("wmt14-") else "small"
    return (kinds["to train with"] or [default])[0]


def run(args: argparse.Namespace) -> None:
    from resmlp_mt.train.recipe import load_recipe

    recipe = load_recipe(split_recipes(args))
    preparation = None
    if args.data is not None:
        for name, flag in {"limit": "--limit", **text_options()}.items():
            if getattr(args, name) is not None:
                raise UserError(f"--data and {flag}: give one or the other")
    if args.data is None:
        if args.vocab_size is None and args.subword_model is None and args.recipe is None:
            args.vocab_size = recipe.vocab_size
        # without --seed: the data are the same whatever the seed of the training
        preparation = preparation_of(
            args, args.out / "data", limit=args.limit, workers=args.workers
        )
    from resmlp_mt.run import Run
    from resmlp_mt.train.command import Devices

    work = Run(
        args.out,
        recipe,
        args.arch,
        preparation=preparation,
        data=args.data,
        max_update=args.max_update,
        training={
            "devices": Devices(args.gpus),
            "precision": args.precision,
            "tokens": args.tokens,
            "max_tokens": args.max_tokens,
            "seed": args.seed,
            "threads": args.threads,
            "fairseq_options": [*(["--cpu"] if args.cpu else []), *args.fairseq_options],
        },
        beam=args.beam,
        lenpen=args.lenpen,
        search={"cpu": args.cpu, "threads": args.threads},
    )
    if args.dry_run:
        print(work.describe())
        return
    result = work.run()
    print(f"model: {args.out / 'model'}, length penalty {result['lenpen']['chosen']:g}")
    for split, scores in result["scores"].items():
        print(f"{split}: BLEU {scores['bleu']:.2f} {scores['bleu_signature']}")
        print(f"{split}: chrF {scores['chrf']:.2f} {scores['chrf_signature']}")
