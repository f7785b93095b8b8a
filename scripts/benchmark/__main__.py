#!/usr/bin/env python3
"""Measure our model beside fairseq's Transformer and CTranslate2, in turn, in one process.

  python scripts/benchmark decode --quick       # small sizes, to see that it runs
  python scripts/benchmark decode --arch resmlp_mt_6 'resmlp_mt_6 --token-mixing toeplitz' --parts
  python scripts/benchmark decode --exported int8 --ctranslate2 int8
  python scripts/benchmark train --optimizer muon
  python scripts/benchmark text --folder exported --input test.en
  python scripts/benchmark gpu --device cuda    # before a large training

Times are medians with the lowest and the highest repeat. Except in text, weights and tokens are
random and the number of tokens is forced. Leave the machine alone while it runs. Beside a CPU that
is as it is, measure it limited to AVX2: ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2
MKL_ENABLE_INSTRUCTIONS=AVX2 CT2_FORCE_CPU_ISA=AVX2 RESMLP_MT_KERNEL=avx2 in the environment.
"""

import sys
from argparse import Namespace, RawDescriptionHelpFormatter
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

import results
import torch

from resmlp_mt.cli.arguments import WHOLE, Parser, count
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError

# default of each option, and with --quick
DEFAULTS = {
    "arch": (["resmlp_mt_6"], ["resmlp_mt_tiny"]),
    "vocabulary": (32768, 1000),
    "sentences": (64, 4),
    "tokens": (4096, 64),
    "repeats": (5, 2),
    "updates": (200, 2),
    "source_length": (25, 5),
    "target_length": ([25], [10]),
}


def parse_args() -> Namespace:
    parser = Parser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("mode", choices=("decode", "train", "text", "gpu"))
    help = (
        "our models, each with options of fairseq-train: 'resmlp_mt_6 --decoder-layers 3'; the "
        "Transformer has the sizes of the first (default: resmlp_mt_6)"
    )
    add("--arch", nargs="+", metavar="'NAME OPTIONS'", help=help)
    help = "decode: also without packed weights, and under fairseq's search"
    add("--parts", action="store_true", help=help)
    add("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    several = {"nargs": "+", "default": [], "choices": ("float32", "int8")}
    add("--exported", **several, help="decode: our models as they are exported")
    help = "decode, text: by the graph, where the native runtime is installed, too"
    add("--graph", action="store_true", help=help)
    add("--ctranslate2", **several, help="decode, text: the Transformer in CTranslate2")
    add("--vocabulary", **WHOLE, help="number of tokens in the dictionary (default: 32768)")
    add("--sentences", **WHOLE, help="sentences of a batch, lines of --input (default: 64)")
    add("--beam", **WHOLE, default=4, help="(default: 4)")
    add("--source-length", **WHOLE, help="tokens (default: 25)")
    add("--target-length", type=count, nargs="+", metavar="N", help="tokens (default: 25)")
    add("--tokens", **WHOLE, help="target tokens of a training step (default: 4096)")
    help = "train: (default: adagrad, the paper's)"
    add("--optimizer", choices=("adagrad", "muon"), default="adagrad", help=help)
    add("--updates", **WHOLE, help="gpu: updates of each training (default: 200)")
    add("--folder", type=Path, nargs="+", metavar="DIR", help="text: exported models")
    add("--input", type=Path, metavar="FILE", help="text: lines to translate")
    help = "text: fairseq's checkpoint for CTranslate2, with the subwords of the first folder"
    add("--transformer", type=Path, metavar="FILE", help=help)
    add("--data", type=Path, metavar="DIR", help="text: the binary data of --transformer")
    add("--quick", action="store_true", help="small sizes, to see that it runs")
    add("--repeats", **WHOLE, help="timed runs of each (default: 5)")
    add("--threads", **WHOLE, default=torch.get_num_threads(), help="(default: PyTorch's)")
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--seed", type=int, default=1, metavar="N", help="of weights and tokens (default: 1)")
    add("--result", metavar="NAME", help="add a line of that name to docs/results/results.jsonl")
    args = parser.parse_args()
    for name, values in DEFAULTS.items():
        if getattr(args, name) is None:
            setattr(args, name, values[args.quick])
    if args.device == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: PyTorch finds no GPU here")
    if args.device == "cuda" and args.exported:
        raise UserError("--exported: it runs on a CPU: leave off --device cuda")
    if args.mode == "text" and args.ctranslate2 and not (args.transformer and args.data):
        raise UserError("--ctranslate2: give --transformer and --data, too")
    return args


def main() -> None:
    args = parse_args()
    torch.set_num_threads(args.threads)
    import gpu
    import modes
    import text

    known = {"decode": modes.decode, "train": modes.train, "text": text.main, "gpu": gpu.main}
    device = torch.cuda.get_device_name() if args.device == "cuda" else results.machine()
    cpu = results.cpu()
    print(f"{device}, {args.threads} threads, torch {torch.__version__}, {args.dtype}")
    print(f"PyTorch uses {cpu['pytorch']}", *map("=".join, cpu["limits"].items()))
    found = known[args.mode](args)
    if args.result:
        where = {"cpu": cpu} if args.device == "cpu" else {"gpu": device}
        setting = {"threads": args.threads, "dtype": args.dtype, **where}
        results.append(args.result, {**setting, args.mode: found}, args.seed)


if __name__ == "__main__":
    sys.exit(run_main(main))
