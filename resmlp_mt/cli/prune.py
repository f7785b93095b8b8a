"""Set small weights to zero: those below a share of the largest weight of their matrix.

  resmlp-mt prune checkpoint.pt -o pruned.pt             below 5%, as in the paper, in A, B and C
  resmlp-mt prune checkpoint.pt -o pruned.pt --which A --threshold 0.2
  resmlp-mt prune checkpoint.pt --sweep --data data-bin --source test.en \\
      --references test.de -o sweep.json

The model is not trained again. A mixes positions. B and C (fc1 and fc2) mix channels. Of A only
the weights that sentences of --length tokens use are counted, because training hardly changes the
others.

--sweep measures BLEU against the share of weights pruned. Each point prunes the checkpoint,
translates the test set and scores it. The file is written after each point. The same command
resumes, or adds points for other thresholds. `resmlp-mt plot pruning sweep.json` draws it.
"""

import argparse
import shlex
import sys
from pathlib import Path

from resmlp_mt.cli.arguments import WHOLE, number
from resmlp_mt.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add, file = parser.add_argument, {"type": Path, "metavar": "FILE"}
    add("checkpoint", type=Path, help="checkpoint of a resmlp_mt model, not folded")
    help = "checkpoint to write, or with --sweep JSON file"
    add("-o", "--output", **file, required=True, help=help)
    help = "share of the largest weight of a matrix (default: 0.05, with --sweep 0.02 0.05 0.1 "
    help += "0.15 0.2 0.3)"
    add("--threshold", type=number, nargs="+", metavar="SHARE", help=help)
    help = "matrices (default: all, with --sweep each of A, B, C and all)"
    add("--which", nargs="+", choices=("A", "B", "C", "all"), help=help)
    help = "positions of A, as many as most long sentences of training had (default: 32)"
    add("--length", **WHOLE, default=32, help=help)

    add = parser.add_argument_group("a sweep").add_argument
    add("--sweep", action="store_true", help="measure BLEU at several thresholds")
    add("--data", type=Path, metavar="DIR", help="binary data of the training")
    help = "SentencePiece model, for data that `resmlp-mt prepare` did not make"
    add("--spm", **file, help=help)
    add("--source", **file, help="test set, one sentence a line")
    add("--references", **file, help="its references")
    add("--beam", **WHOLE, default=4, help="beam size (default: 4)")
    add("--lenpen", type=number, default=0.6, metavar="X", help="length penalty (default: 0.6)")
    add("--cpu", action="store_true", help="do not use a GPU")
    add("--threads", **WHOLE, help="CPU threads (default: those of PyTorch)")


def run(args: argparse.Namespace) -> None:
    if args.sweep:
        sweep(args)
        return
    from resmlp_mt.analysis.pruning import KINDS, PAPERS_THRESHOLD, prune_checkpoint

    if args.threshold and len(args.threshold) > 1:
        raise UserError("--threshold: give one, or several with --sweep")
    (threshold,) = args.threshold or [PAPERS_THRESHOLD]
    which = None if not args.which or "all" in args.which else args.which
    counts = prune_checkpoint(args.checkpoint, args.output, threshold, which, args.length)
    for kind in KINDS:
        if kind in counts:
            found = counts[kind]
            print(f"{kind}: {found.share:6.1%} removed, {found.small:,} of {found.total:,} weights")
    print(args.output)


def sweep(args: argparse.Namespace) -> None:
    for name in ("data", "source", "references"):
        if getattr(args, name) is None:
            raise UserError(f"--sweep needs --{name}")
    from resmlp_mt.analysis.pruning_sweep import THRESHOLDS, Sweep
    from resmlp_mt.translate.translator import SearchOptions

    search = SearchOptions(
        paths=(args.checkpoint,),
        data=args.data,
        spm=args.spm,
        beam=args.beam,
        lenpen=args.lenpen,
        cpu=args.cpu,
        threads=args.threads,
    )
    command = shlex.join(["resmlp-mt", *sys.argv[1:]])
    made = Sweep(
        args.checkpoint, search, args.source, args.references, args.output, args.length, command
    )
    made.run(args.threshold or THRESHOLDS, args.which, show)
    print(args.output)


def show(point: dict, new: bool) -> None:
    print(
        f"{point['which']:4}  threshold {point['threshold']:<5g}  removed {point['removed']:6.1%}  "
        f"BLEU {point['bleu']:5.2f}{'' if new else '  (done before)'}",
        flush=True,
    )
