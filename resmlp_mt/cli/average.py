"""Average the weights of checkpoints, like fairseq's average_checkpoints.py.

  resmlp-mt average --inputs DIR --num-epoch-checkpoints 3 --output averaged.pt
  resmlp-mt average --inputs DIR --num-update-checkpoints 10 --output averaged.pt
  resmlp-mt average --inputs a.pt b.pt --output averaged.pt

checkpoint_last.pt counts as one of them if it is newer than the numbered ones. If there are fewer
than N, all are averaged. Needs memory for two checkpoints.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from resmlp_mt_runtime.arguments import FILE, WHOLE
from resmlp_mt_runtime.errors import UserError, printable, say


def add_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    help = "checkpoints, or one folder of them and one of the next two options"
    add("--inputs", type=Path, nargs="+", required=True, metavar="PATH", help=help)
    add("--output", **FILE, required=True, help="checkpoint to write")
    add = parser.add_mutually_exclusive_group().add_argument
    add("--num-epoch-checkpoints", **WHOLE, help="the last N of checkpointEPOCH.pt")
    help = "the last N of checkpoint_EPOCH_UPDATE.pt (--save-interval-updates)"
    add("--num-update-checkpoints", **WHOLE, help=help)
    help = "write float16 weights: half the size, for sharing a model"
    parser.add_argument("--float16", action="store_true", help=help)


def run(args: Namespace) -> None:
    by = "epoch" if args.num_epoch_checkpoints else "update"
    count = args.num_epoch_checkpoints or args.num_update_checkpoints
    folders = [path for path in args.inputs if path.is_dir()]
    if count is None and folders:
        options = "--num-epoch-checkpoints N or --num-update-checkpoints N"
        raise UserError(f"{folders[0]}: add {options}")
    if count is not None and args.inputs != folders[:1]:
        raise UserError(f"--inputs: give one folder with --num-{by}-checkpoints")
    from resmlp_mt.checkpoints.averaging import average_checkpoints, last_checkpoints

    paths = args.inputs
    if count is not None:
        paths = last_checkpoints(folders[0], count, by)
        if len(paths) < count:
            say(f"note: {folders[0]} has fewer than {count} {by} checkpoints")
    average_checkpoints(paths, args.output, args.float16)
    print(printable(f"{args.output}: mean of {', '.join(map(str, paths))}"))
