"""From raw text to BLEU: prepare, train, average, translate and score, as one resumable run.

  resmlp-mt run --source-lang de --target-lang en --trainpref text/train --validpref text/valid \\
      --testpref text/test --arch resmlp_mt_tiny --recipe trial --out run

reads text/train.de, text/train.en ... (or .gz), one sentence per line. It writes run/model, which
is all you need to translate, run/translations and run/scores.json. The length penalty is chosen on
the validation set. The same command resumes a stopped run; a higher --max-update continues a
finished one (unless --patience ended it), another --beam or --lenpen translates again. Options of
fairseq-train go after --.

resmlp_mt_tiny with the recipe trial checks in five minutes that everything works. The defaults are
for quality; with fewer than 100,000 pairs, use --recipe small.
"""

import argparse
import shlex

from resmlp_mt.cli.arguments import OUT_FOLDER
from resmlp_mt.cli.prepare import add_text_arguments, preparation_of
from resmlp_mt.cli.train import add_training_options, training_options
from resmlp_mt_runtime.arguments import searching
from resmlp_mt_runtime.errors import printable
from resmlp_mt_runtime.files import as_written


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", **OUT_FOLDER, help="folder for all results (required)")
    add_text_arguments(parser, "the recipe's, or what the text allows")
    add_training_options(parser.add_argument_group("how it is trained"))
    add = parser.add_argument_group("how it is translated").add_argument
    add("--beam", **searching("beam"), help="beam size (default: the recipe's)")
    help = "length penalties to choose from on the validation set (default: the recipe's)"
    add("--lenpen", **searching("lenpen"), nargs="+", help=help)


def run(args: argparse.Namespace) -> None:
    training = training_options(args)
    recipe = training.recipe
    preparation = preparation_of(args, args.out / "data", recipe.vocab_size)
    from resmlp_mt.pipeline.run import Run
    from resmlp_mt.pipeline.translate.options import SearchOptions

    search = (args.beam or recipe.beam, args.lenpen or recipe.lenpen)
    work = Run(args.out, preparation, training, *search)
    result, model = work.run(), args.out / "model"
    with as_written(work.scores):
        lines = [f"model: {model}, length penalty {result['lenpen']['chosen']:g}"]
        for split, scores in result["scores"].items():
            for name, key in (("BLEU", "bleu"), ("chrF", "chrf")):
                score = f"{name} {scores[key]:.2f} {scores[f'{key}_signature']}"
                lines.append(f"{work.names[split]}: {score}")
    for source, translation in work.example():
        lines += [f"example: {source}", f"      -> {translation}"]
    words = ["--path", str(model)]
    words += ["--beam", str(work.beam)] if work.beam != SearchOptions.beam else []
    words += ["--user-dir", str(args.user_dir)] if args.user_dir else []
    lines.append(f"next: resmlp-mt translate {shlex.join(words)} --input TEXT")
    print(*map(printable, lines), sep="\n")
