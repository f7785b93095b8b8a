"""Export a model: a folder that translates without fairseq and PyTorch.

  resmlp-mt export run/model --out exported
  resmlp-mt export averaged.pt --data DATA/data-bin --out exported --int8
  python exported/runtime.py --input test.en --output test.de

The folder needs numpy, onnxruntime and sentencepiece. It holds two ONNX graphs, the subwords, a
description with checksums, a model card and the runtime, which is one file. What is written is
compared with PyTorch, and the differences are printed.

It needs onnx and onnxruntime: pip install ".[export]".
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from resmlp_mt.cli.arguments import LENPEN, WHOLE
from resmlp_mt.decoding.length_penalty import length_penalty
from resmlp_mt.errors import UserError


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "checkpoint",
        help="checkpoint of a resmlp_mt model, or a folder of resmlp-mt run (OUT/model)",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to make")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="binary data of the training, for its dictionaries and subwords (default: the folder "
        "of the checkpoint)",
    )
    parser.add_argument(
        "--spm",
        type=Path,
        metavar="FILE",
        help="SentencePiece model, for data that `resmlp-mt prepare` did not make. The text is not "
        "normalised then",
    )
    precision = parser.add_mutually_exclusive_group()
    precision.add_argument(
        "--int8",
        dest="precision",
        action="store_const",
        const="int8",
        help="weights of 8 bits: a quarter of the size, and faster. Translations differ a little",
    )
    precision.add_argument(
        "--float16",
        dest="precision",
        action="store_const",
        const="float16",
        help="weights of 16 bits: half the size. The arithmetic stays float32",
    )
    parser.add_argument("--beam", **WHOLE, default=4, help="default of the folder: 4")
    help = "default of the folder: what resmlp-mt run chose, or 0.6"
    parser.add_argument("--lenpen", **LENPEN, help=help)
    parser.add_argument(
        "--verify",
        type=Path,
        metavar="FILE",
        help="compare the translations of these lines (default: of random subwords)",
    )
    parser.set_defaults(precision="float32")


def run(args: Namespace) -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise UserError(f'{error}: pip install ".[export]"') from None
    from resmlp_mt.export.folder import export
    from resmlp_mt.text.lines import read_text
    from resmlp_mt.translate.options import SearchOptions, checkpoint_paths

    paths = checkpoint_paths(args.checkpoint)
    options = SearchOptions(
        paths=paths,
        data=args.data or paths[0].parent,
        spm=args.spm,
        beam=args.beam,
        lenpen=length_penalty(args.lenpen, paths[0].parent),
        cpu=True,
    )
    lines = None if args.verify is None else read_text(args.verify)
    found = export(options, args.out, args.precision, lines)
    size = sum(path.stat().st_size for path in args.out.iterdir()) / 1e6
    print(f"{args.out}: {size:.1f} MB, {args.precision}")
    print(
        f"beside PyTorch: the scores of ten steps differ by {found['steps']:.1e}. {found['same']} "
        f"of {found['lines']} translations are the same, their scores differ by "
        f"{found['scores']:.1e}"
    )
