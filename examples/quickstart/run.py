#!/usr/bin/env python3
"""The demo: translate with the published model, then train a small one and look at what it learned.

    python examples/quickstart/run.py [--verbose]

Nothing is downloaded. The training takes a minute or two on two cores; the same command resumes it.
"""

import argparse
import logging
import shlex
import sys
import warnings
from pathlib import Path

import grammar

from resmlp_mt.cli.main import main as resmlp_mt
from resmlp_mt.cli.main import run_main
from resmlp_mt_runtime.arguments import WHOLE, Parser
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import read_json
from resmlp_mt_runtime.lines import read_text, write_lines

HERE = Path(__file__).resolve().parent
MODEL = HERE.parent / "mixed" / "model"
SENTENCES = (
    "The bridge was built two hundred years ago.",
    "The children are playing in the garden.",
)
HELD_OUT = 300  # sentences to validate, and as many to test
SHOWN = 4  # translations to print
POSITIONS = 16  # of the drawn matrices
# the paper's model in small
SIZES = "--encoder-layers 3 --decoder-layers 3 --encoder-embed-dim 128 --encoder-ffn-embed-dim 256 "
SIZES += "--decoder-attention-heads 4 --layerscale-init 1 --share-all-embeddings"


def translate() -> None:
    """Translate two sentences with the published model."""
    from resmlp_mt import ResMLPModel

    print("English to German, by the model in examples/mixed:\n")
    model = ResMLPModel.from_pretrained(str(MODEL))
    for english, german in zip(SENTENCES, model.translate(list(SENTENCES), beam=4)):
        print(f"  {english}\n  {german}\n", flush=True)


def write_corpus(folder: Path, sentences: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {"test": HELD_OUT, "valid": HELD_OUT, "train": sentences}
    for split, pairs in grammar.generate(1, sizes).items():
        for language, side in zip(("en", "de"), zip(*pairs)):
            write_lines(folder / f"{split}.{language}", side)


def train(args: argparse.Namespace, text: Path) -> None:
    words = ["--source-lang", "en", "--target-lang", "de"]
    for split in ("train", "valid", "test"):
        words += [f"--{split}pref", text / split]
    words += ["--arch", "resmlp_mt_6", "--recipe", HERE / "recipe.toml"]
    words += ["--vocab-size", args.vocab_size, "--max-update", args.max_update]
    words += ["--out", args.out / "run", "--", *SIZES.split()]
    words = ["run", *map(str, words)]
    if args.verbose:
        print(shlex.join(["resmlp-mt", *words]), flush=True)
    status = resmlp_mt(words)
    if status:
        raise SystemExit(status) if status > 128 else UserError("resmlp-mt run failed, see above")


def show(run: Path, text: Path) -> None:
    """Print BLEU and a few translations, with the reference where it differs."""
    scores = read_json(run / "scores.json")["scores"]["test"]
    sources, references = (read_text(text / f"test.{language}") for language in ("en", "de"))
    translations = read_text(run / "translations" / "test.de")
    print(
        f"\nBLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f} on {len(sources)} new sentences\n"
    )
    for source, translation, reference in list(zip(sources, translations, references))[:SHOWN]:
        print(f"  {source}\n  {translation}")
        print(f"  (reference: {reference})\n" if translation != reference else "")


def draw(checkpoint: Path, picture: Path) -> None:
    """Draw the first A of the encoder and of the decoder, before and after training."""
    from fairseq import tasks
    from fairseq.utils import set_torch_seed
    from omegaconf import OmegaConf

    from resmlp_mt.checkpoints.files import read_checkpoint
    from resmlp_mt.plot import draw_matrices, mixing_matrices, save

    cfg = OmegaConf.create(read_checkpoint(checkpoint)["cfg"], flags={"allow_objects": True})
    set_torch_seed(cfg.common.seed)  # the initial weights, as fairseq-train drew them
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    matrices = {}
    for side, after in mixing_matrices(checkpoint, POSITIONS).items():
        mixing = getattr(model, side).layers[0].token_mixing.mixing
        matrices[side] = [mixing.matrix(POSITIONS).detach(), after[0]]
    title, headings = "Training turns the noise of A into bands", ("before", "after training")
    save(draw_matrices(matrices, 1, title, headings), picture)
    print(f"The matrices A before and after training: {picture}")


def parse_args() -> argparse.Namespace:
    parser = Parser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=HERE / "out", help="folder for results")
    parser.add_argument("--sentences", **WHOLE, default=30000, help="training sentences")
    parser.add_argument("--vocab-size", **WHOLE, default=600, help="subwords")
    parser.add_argument("--max-update", **WHOLE, default=320, help="length of the training")
    parser.add_argument("--verbose", action="store_true", help="also show commands and warnings")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    if args.verbose:
        logging.disable(logging.NOTSET)
    else:
        warnings.simplefilter("ignore")
    translate()
    text, run = args.out / "text", args.out / "run"
    print(f"Now a small model, trained on {args.sentences:,} sentences of a grammar:\n", flush=True)
    write_corpus(text, args.sentences)
    train(args, text)
    show(run, text)
    draw(run / "checkpoints" / "checkpoint_last.pt", args.out / "before_and_after.png")


if __name__ == "__main__":
    sys.exit(run_main(main))
