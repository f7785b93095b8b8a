#!/usr/bin/env python3
"""The quickstart: write a corpus, learn to translate it, look at what was learned.

    python examples/quickstart/run.py [--out DIR] [--updates N] ...

Everything is made here: no download. README.md beside this file shows what to expect.
"""

import argparse
import random
import sys
from pathlib import Path

import grammar

from resmlp_mt.checkpoints.inspection import layers_of, mixing_matrices
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import check_positive
from resmlp_mt.files import ResultsFolder
from resmlp_mt.pictures import style
from resmlp_mt.pictures.curves import draw_curves
from resmlp_mt.pictures.matrices import Panel, draw_matrices
from resmlp_mt.run import STEPS, Experiment, Recipe
from resmlp_mt.text.lines import read_lines, read_parallel, write_lines
from resmlp_mt.train.log import read_curve

HERE = Path(__file__).resolve().parent
SHOWN_POSITIONS = 24


def training_options(args) -> list:
    """The paper's recipe (Adagrad, warm-up, label smoothing 0.1, LayerScale 0.2), made short."""
    options = ["--share-all-embeddings", "--max-source-positions", 64, "--max-target-positions", 64]
    options += ["--optimizer", "adagrad", "--lr", args.lr, "--clip-norm", 1.0]
    options += ["--lr-scheduler", "polynomial_decay", "--total-num-update", args.updates]
    options += ["--warmup-updates", max(1, args.updates // 16), "--dropout", args.dropout]
    options += ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 0.1]
    options += ["--max-tokens", args.max_tokens, "--save-interval-updates", 100]
    options += ["--keep-interval-updates", 1]
    return [str(option) for option in options]


def write_corpus(args, folder: Path) -> None:
    sizes = {"train": args.sentences, "valid": args.held_out, "test": args.held_out}
    for split, pairs in grammar.generate(args.seed, sizes).items():
        for language, side in zip(("en", "de"), zip(*pairs)):
            write_lines(folder / f"{split}.{language}", side)


def draw(experiment: Experiment, folder: Path) -> None:
    """The learning curve, and the first layers' matrices before and after training."""
    train_dir = experiment.train_dir
    title = "Quickstart: resmlp_mt_tiny"
    curves = draw_curves({title: read_curve(train_dir / "train.log")}, title)
    style.save(curves, folder / "learning_curve.png")
    panels = {"encoder": [], "decoder": []}
    for when in ("before", "after"):
        matrices = mixing_matrices(
            train_dir / "checkpoint_last.pt", SHOWN_POSITIONS, before_training=when == "before"
        )
        for side, row in panels.items():
            layer = layers_of(matrices, side)[0]
            heading = f"{side}, layer {layer + 1}\n{when} training"
            row.append(Panel(matrices[side, layer][0].numpy(), side == "decoder", heading))
    drawn = draw_matrices(list(panels.values()), "Mixing matrices A, first positions")
    style.save(drawn, folder / "mixing_matrices.png")


def show_translations(experiment: Experiment, corpus: Path, seed: int) -> None:
    """Five held-out sentences with their translation and the reference."""
    pairs = read_parallel(corpus / "test.en", corpus / "test.de")
    hypotheses = list(read_lines(experiment.generated / "test.de"))
    for index in sorted(random.Random(seed).sample(range(len(pairs)), min(5, len(pairs)))):
        source, reference = pairs[index]
        verdict = "same as the reference" if hypotheses[index] == reference else reference
        print(f"  source     {source}\n  translated {hypotheses[index]}\n  reference  {verdict}\n")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=HERE / "out", help="folder for results")
    parser.add_argument("--sentences", type=int, default=30000, help="training sentences")
    parser.add_argument("--held-out", type=int, default=500, help="sentences to validate, to test")
    parser.add_argument("--vocab-size", type=int, default=1000, help="joint SentencePiece pieces")
    parser.add_argument("--updates", type=int, default=1500, help="length of training")
    parser.add_argument("--lr", type=float, default=0.1, help="peak learning rate of Adagrad")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--max-tokens", type=int, default=2048, help="tokens a batch")
    parser.add_argument("--threads", type=int, help="CPU threads (default: PyTorch's)")
    parser.add_argument("--seed", type=int, default=1, help="of the corpus and of training")
    args = parser.parse_args()
    check_positive(args, "sentences", "held_out", "vocab_size", "updates", "max_tokens")
    return args


def main() -> None:
    args = parse_args()
    options = {name: value for name, value in vars(args).items() if name not in ("out", "threads")}
    workdir = ResultsFolder(args.out, options, 2)
    print(f"Quickstart: results go to {args.out}\n", flush=True)
    corpus = workdir.step("corpus", "write the corpus", lambda folder: write_corpus(args, folder))
    recipe = Recipe(
        arch="resmlp_mt_tiny",
        source="en",
        target="de",
        vocab_size=args.vocab_size,
        updates=args.updates,
        train_options=training_options(args),
        seed=args.seed,
        threads=args.threads,
    )
    corpora = {
        split: (corpus / f"{split}.en", corpus / f"{split}.de")
        for split in ("train", "valid", "test")
    }
    print(f"then {STEPS} steps of the experiment in {args.out / 'experiment'}:")
    experiment = Experiment(args.out / "experiment", recipe, corpora)
    result = experiment.run()
    pictures = workdir.step("pictures", "draw", lambda folder: draw(experiment, folder))
    print("\nFive held-out sentences, in neither language part of the training corpus:\n")
    show_translations(experiment, corpus, args.seed)
    scores = result["scores"]["test"]
    held_out = f"{args.held_out} held-out sentences"
    print(f"sacreBLEU {scores['bleu']:.1f} on {held_out}, {scores['bleu_signature']}")
    print(f"chrF      {scores['chrf']:.1f}, {scores['chrf_signature']}")
    print(f"pictures: {pictures / 'learning_curve.png'}, {pictures / 'mixing_matrices.png'}")


if __name__ == "__main__":
    sys.exit(run_main(main))
