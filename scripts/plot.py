#!/usr/bin/env python3
"""Pictures of a checkpoint of ours and of its training, drawn for a printed column of 8 cm.

plot.py all checkpoint.pt -o DIR               all that there is input for, as .png and .svg
plot.py matrices checkpoint.pt -o A.png        every layer's mixing matrix A as a heat map
plot.py rows checkpoint.pt -o rows.svg         rows of A as curves
plot.py sparsity checkpoint.pt -o sparsity.png       weights below 5% of the maximum: A, B, C
plot.py curves train.log other.json -o curves.png    learning curves
plot.py attention checkpoint.pt --data-bin DIR --spm MODEL --sentence TEXT -o attention.png
plot.py length ours=hyp.de theirs=generate.log --references test.de -o length.png
plot.py pruning sweep.json -o pruning.png      BLEU against the share of weights pruned
"""

import argparse
import sys
from pathlib import Path

from resmlp_mt.analysis.pruning import PAPERS_THRESHOLD
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError, check_finite, check_positive
from resmlp_mt.score.by_length import EDGES


def add_common(parser, checkpoint: bool = True) -> None:
    if checkpoint:
        parser.add_argument("checkpoint", type=Path, help="of a resmlp_mt model")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        action="append",
        required=True,
        help=".png or .svg; may be given more than once",
    )
    parser.add_argument("--title", help="heading of the picture; '' for none")


def add_length(parser) -> None:
    parser.add_argument(
        "--length",
        type=int,
        default=32,
        help="positions of A, as many as the longest sentences of which training had many (32)",
    )


def add_sentence(parser, required: bool) -> None:
    parser.add_argument("--data-bin", type=Path, required=required, help="with its dictionaries")
    parser.add_argument(
        "--spm", type=Path, help="SentencePiece model; without: the text is in pieces already"
    )
    parser.add_argument("--sentence", required=required, metavar="TEXT", help="to be translated")
    parser.add_argument(
        "--translation", metavar="TEXT", help="in place of the model's own translation"
    )
    parser.add_argument("--layer", type=int, nargs="+", help="of the decoder (default: the last)")


def add_texts(parser, required: bool) -> None:
    parser.add_argument("--references", type=Path, required=required, help="one sentence a line")
    parser.add_argument("--source", type=Path, help="lengths are its, not the references'")
    parser.add_argument(
        "--edges",
        type=int,
        nargs="+",
        default=EDGES,
        metavar="WORDS",
        help=f"longest sentence of each bucket but the last ({' '.join(map(str, EDGES))})",
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="picture", required=True, metavar="PICTURE")

    def command(name: str, help: str, checkpoint: bool = True):
        added = commands.add_parser(name, help=help, description=help)
        add_common(added, checkpoint)
        return added

    every = commands.add_parser("all", help="every picture that there is input for")
    every.add_argument("checkpoint", type=Path, help="of a resmlp_mt model")
    every.add_argument("-o", "--output", type=Path, required=True, help="folder, made if need be")
    add_length(every)
    add_sentence(every, required=False)
    every.add_argument(
        "--curves",
        nargs="+",
        metavar="FILE",
        help="as of plot.py curves (default: the train.log beside the checkpoint)",
    )
    every.add_argument("--systems", nargs="+", metavar="NAME=FILE", help="as of plot.py length")
    add_texts(every, required=False)
    every.add_argument("--pruning", type=Path, metavar="FILE", help="result of prune_sweep.py")

    one = command("matrices", "every layer's mixing matrix A as a heat map, by depth")
    add_length(one)
    one.add_argument("--head", type=int, nargs="+", help="(default: all, at most 8)")

    one = command("rows", "rows of A as curves; for weights by distance a curve for each head")
    add_length(one)
    one.add_argument("--head", type=int, nargs="+", help="(default: the first; by distance all)")
    one.add_argument("--row", type=int, nargs="+", help="t, from 0 (default: four in between)")
    one.add_argument("--reach", type=int, default=12, help="largest distance s - t shown (12)")
    one.add_argument("--absolute", action="store_true", help="over s, not over s - t")

    one = command("sparsity", "share of small weights in A, B and C by layer: the paper's figure")
    add_length(one)
    one.add_argument(
        "--threshold",
        type=float,
        default=PAPERS_THRESHOLD,
        help=f"small: below this share of the matrix's maximum ({PAPERS_THRESHOLD})",
    )

    one = command("curves", "learning curves", checkpoint=False)
    one.add_argument(
        "files",
        nargs="+",
        metavar="[LABEL=]FILE",
        help="log of fairseq-train --log-format json, or result file with valid_curve (.json)",
    )

    one = command("attention", "cross-attention for a sentence, pieces along the axes")
    add_sentence(one, required=True)
    one.add_argument("--beam", type=int, default=4)
    one.add_argument("--lenpen", type=float, default=0.6, help="length penalty (0.6)")

    one = command("length", "BLEU by sentence length", checkpoint=False)
    one.add_argument(
        "systems",
        nargs="+",
        metavar="NAME=FILE",
        help="translations, one a line, or a log of fairseq-generate",
    )
    add_texts(one, required=True)

    one = command("pruning", "BLEU against the share of weights pruned", checkpoint=False)
    one.add_argument("file", type=Path, help="result of prune_sweep.py")
    args = parser.parse_args()
    for name in ("length", "reach", "beam"):
        if hasattr(args, name):
            check_positive(args, name)
    if hasattr(args, "lenpen"):
        check_finite(args, "lenpen")
    return args


def figure(args: argparse.Namespace, make):
    """The one that the command line asks for."""
    if args.picture == "matrices":
        return make.matrices(args.checkpoint, args.length, args.head, args.title)
    if args.picture == "rows":
        return make.rows(
            *(args.checkpoint, args.length, args.head, args.row, args.reach, args.absolute),
            args.title,
        )
    if args.picture == "sparsity":
        return make.shares(args.checkpoint, args.threshold, args.length, args.title)
    if args.picture == "curves":
        return make.curves(args.files, args.title)
    if args.picture == "pruning":
        return make.pruning(args.file, args.title)
    if args.picture == "length":
        return make.by_length(args.systems, args.references, args.source, args.edges, args.title)
    return make.attention(
        *(args.checkpoint, args.data_bin, args.sentence, args.spm, args.translation),
        *(args.layer, args.beam, args.lenpen, args.title),
    )


def main() -> None:
    args = parse()
    try:
        from resmlp_mt.pictures import make  # needs matplotlib
        from resmlp_mt.pictures.everything import everything
        from resmlp_mt.pictures.style import check_outputs, save
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise UserError("pictures need matplotlib: pip install matplotlib") from None
    if args.picture == "all":
        written, left_out = everything(args)
        print("\n".join([*map(str, written), *left_out]))
        return
    check_outputs(args.output)
    save(figure(args, make), *args.output)
    print("\n".join(map(str, args.output)))


if __name__ == "__main__":
    sys.exit(run_main(main))
