#!/usr/bin/env python3
"""The quickstart: write a corpus, learn to translate it, look at what was learned.

    python examples/quickstart/run.py [--out DIR] [--max-update N] ...

Everything is made here, without a download. README.md beside this file shows what to expect.
"""

import argparse
import random
import shlex
import sys
from pathlib import Path
from typing import List

import grammar
import torch

from resmlp_mt.cli.arguments import Parser, count
from resmlp_mt.cli.main import main as resmlp_mt
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.files import ResultsFolder, make_folder, read_json, write_json
from resmlp_mt.text.lines import read_lines, read_parallel, write_lines

HERE = Path(__file__).resolve().parent
RESULT = HERE / "result.json"  # of a run with the options that are the defaults
SHOWN_POSITIONS, SHOWN_SENTENCES = 24, 5


def write_corpus(args, folder: Path) -> None:
    sizes = {"train": args.sentences, "valid": args.held_out, "test": args.held_out}
    for split, pairs in grammar.generate(args.seed, sizes).items():
        for language, side in zip(("en", "de"), zip(*pairs)):
            write_lines(folder / f"{split}.{language}", side)


def command() -> str:
    """What was typed: ``make demo`` gives no options."""
    words = sys.argv[1:]
    return shlex.join(["python", "examples/quickstart/run.py", *words]) if words else "make demo"


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


def found(run: Path, corpus: Path, seed: int) -> dict:
    """What the run gave: scores, some held-out sentences, its matrices."""
    from resmlp_mt.plot.mixing_matrices import mixing_matrices

    pairs = read_parallel(corpus / "test.en", corpus / "test.de")
    hypotheses = list(read_lines(run / "translations" / "test.de"))
    shown = random.Random(seed).sample(range(len(pairs)), min(SHOWN_SENTENCES, len(pairs)))
    checkpoint = run / "checkpoints" / "checkpoint_last.pt"
    matrices = {
        when: mixing_matrices(checkpoint, SHOWN_POSITIONS, before_training=when == "before")
        for when in ("before", "after")
    }
    result = read_json(run / "scores.json")
    return {
        **{name: result[name] for name in ("versions", "cost")},
        "scores": {**result["scores"]["test"], "sentences": len(pairs)},
        "sentences": [
            {"source": pairs[i][0], "translated": hypotheses[i], "reference": pairs[i][1]}
            for i in sorted(shown)
        ],
        # by side and layer, a line for each row of a matrix
        "matrices": {
            when: {
                f"{side} {layer + 1}": [" ".join(f"{weight:.3g}" for weight in row) for row in a[0]]
                for (side, layer), a in some.items()
            }
            for when, some in matrices.items()
        },
    }


def draw(result: Path, folder: Path) -> List[Path]:
    """All matrices after training, and those of the first layers beside what they began as."""
    from resmlp_mt.plot.matrices import Panel, arrange, draw_matrices
    from resmlp_mt.plot.style import save

    matrices = {
        when: {
            (name.split()[0], int(name.split()[1]) - 1): torch.tensor(
                [[list(map(float, row.split())) for row in rows]]
            )
            for name, rows in layers.items()
        }
        for when, layers in read_json(result)["matrices"].items()
    }
    first = [
        [
            Panel(some[side, 0][0].numpy(), side == "decoder", f"{side}, layer 1\n{when} training")
            for when, some in matrices.items()
        ]
        for side in ("encoder", "decoder")
    ]
    drawn = {
        "matrices.png": draw_matrices(arrange(matrices["after"], [1]), "A after training"),
        "before_and_after.png": draw_matrices(first, "A, first positions"),
    }
    make_folder(folder)
    for name, figure in drawn.items():
        save(figure, folder / name)
    return [folder / name for name in drawn]


def show_translations(sentences: List[dict]) -> None:
    """Held-out sentences with their translation and the reference."""
    for source, translated, reference in map(dict.values, sentences):
        verdict = "same as the reference" if translated == reference else reference
        print(f"  source     {source}\n  translated {translated}\n  reference  {verdict}\n")


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
    with ResultsFolder(args.out, options, 1) as results:
        corpus = results.step("corpus", "write the corpus", lambda new: write_corpus(args, new))
        words = run_words(args, corpus)
        print(f"resmlp-mt run {' '.join(words)}\n", flush=True)
        status = resmlp_mt(["run", *words])
        if status > 128:  # by a signal
            raise SystemExit(status)
        if status:
            raise UserError("resmlp-mt run failed: its error is above")
        result = found(args.out / "run", corpus, args.seed)
        write_json(args.out / "result.json", {"command": command(), **result})
    print("\nHeld-out sentences, in neither language part of the training corpus:\n")
    show_translations(result["sentences"])
    scores = result["scores"]
    held_out = f"{scores['sentences']} held-out sentences"
    print(f"sacreBLEU {scores['bleu']:.1f} on {held_out}, {scores['bleu_signature']}")
    print(f"chrF      {scores['chrf']:.1f}, {scores['chrf_signature']}")
    try:
        pictures = draw(args.out / "result.json", args.out / "pictures")
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        print("pictures: none without matplotlib: pip install '.[plot]' and run this again")
    else:
        print(f"pictures: {', '.join(map(str, pictures))}")


if __name__ == "__main__":
    sys.exit(run_main(main))
