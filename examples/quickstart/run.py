#!/usr/bin/env python3
"""The quickstart: write a corpus, learn to translate it, look at what was learned.

    python examples/quickstart/run.py [--out DIR] [--max-update N] ...

Everything is made here, without a download. README.md beside this file shows what to expect.
"""

import argparse
import random
import sys
from pathlib import Path

import grammar

from resmlp_mt.cli.arguments import Parser, count
from resmlp_mt.cli.main import main as resmlp_mt
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.files import ResultsFolder, make_folder, read_json
from resmlp_mt.text.lines import read_lines, read_parallel, write_lines

HERE = Path(__file__).resolve().parent
SHOWN_POSITIONS = 24


def write_corpus(args, folder: Path) -> None:
    sizes = {"train": args.sentences, "valid": args.held_out, "test": args.held_out}
    for split, pairs in grammar.generate(args.seed, sizes).items():
        for language, side in zip(("en", "de"), zip(*pairs)):
            write_lines(folder / f"{split}.{language}", side)


def run_words(args, corpus: Path) -> list:
    """What is done with the corpus: the words after ``resmlp-mt run``."""
    words = ["--source-lang", "en", "--target-lang", "de"]
    for split in ("train", "valid", "test"):
        words += [f"--{split}pref", corpus / split]
    words += ["--arch", "resmlp_mt_tiny", "--recipe", HERE / "recipe.toml"]
    words += ["--vocab-size", args.vocab_size, "--max-update", args.max_update]
    words += ["--seed", args.seed, "--out", args.out / "run"]
    if args.threads:
        words += ["--threads", args.threads]
    return [str(word) for word in words]


def draw(run: Path, folder: Path) -> None:
    """The learning curve, and the first layers' matrices before and after training."""
    from resmlp_mt.checkpoints.inspection import layers_of, mixing_matrices
    from resmlp_mt.pictures import style
    from resmlp_mt.pictures.curves import draw_curves
    from resmlp_mt.pictures.matrices import Panel, draw_matrices
    from resmlp_mt.train.log import read_curve

    checkpoints = run / "checkpoints"
    title = "Quickstart: resmlp_mt_tiny"
    curves = draw_curves({title: read_curve(checkpoints / "train.log")}, title)
    style.save(curves, folder / "learning_curve.png")
    panels = {"encoder": [], "decoder": []}
    for when in ("before", "after"):
        matrices = mixing_matrices(
            checkpoints / "checkpoint_last.pt", SHOWN_POSITIONS, before_training=when == "before"
        )
        for side, row in panels.items():
            layer = layers_of(matrices, side)[0]
            heading = f"{side}, layer {layer + 1}\n{when} training"
            row.append(Panel(matrices[side, layer][0].numpy(), side == "decoder", heading))
    drawn = draw_matrices(list(panels.values()), "Mixing matrices A, first positions")
    style.save(drawn, folder / "mixing_matrices.png")


def show_translations(run: Path, corpus: Path, seed: int) -> None:
    """Five held-out sentences with their translation and the reference."""
    pairs = read_parallel(corpus / "test.en", corpus / "test.de")
    hypotheses = list(read_lines(run / "translations" / "test.de"))
    for index in sorted(random.Random(seed).sample(range(len(pairs)), min(5, len(pairs)))):
        source, reference = pairs[index]
        verdict = "same as the reference" if hypotheses[index] == reference else reference
        print(f"  source     {source}\n  translated {hypotheses[index]}\n  reference  {verdict}\n")


def parse_args() -> argparse.Namespace:
    parser = Parser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=HERE / "out", help="folder for results")
    parser.add_argument("--sentences", type=count, default=30000, help="training sentences")
    help = "sentences to validate, to test"
    parser.add_argument("--held-out", type=count, default=500, help=help)
    parser.add_argument("--vocab-size", type=count, default=1000, help="joint SentencePiece pieces")
    parser.add_argument("--max-update", type=count, default=1500, help="length of training")
    parser.add_argument("--threads", type=count, help="CPU threads (default: that of PyTorch)")
    parser.add_argument("--seed", type=int, default=1, help="of the corpus and of training")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    options = {name: value for name, value in vars(args).items() if name not in ("out", "threads")}
    print(f"Quickstart: results go to {args.out}\n", flush=True)
    make_folder(args.out)
    with ResultsFolder(args.out, options, 2) as results:
        corpus = results.step("corpus", "write the corpus", lambda new: write_corpus(args, new))
        words = run_words(args, corpus)
        print(f"resmlp-mt run {' '.join(words)}\n", flush=True)
        if resmlp_mt(["run", *words]):
            raise UserError("resmlp-mt run failed: its error is above")
        run = args.out / "run"
        pictures = results.step("pictures", "draw", lambda new: draw(run, new))
    print("\nFive held-out sentences, in neither language part of the training corpus:\n")
    show_translations(run, corpus, args.seed)
    scores = read_json(run / "scores.json")["scores"]["test"]
    held_out = f"{args.held_out} held-out sentences"
    print(f"sacreBLEU {scores['bleu']:.1f} on {held_out}, {scores['bleu_signature']}")
    print(f"chrF      {scores['chrf']:.1f}, {scores['chrf_signature']}")
    print(f"pictures: {pictures / 'learning_curve.png'}, {pictures / 'mixing_matrices.png'}")


if __name__ == "__main__":
    sys.exit(run_main(main))
