#!/usr/bin/env python3
"""Benchmark our models against fairseq's Transformer and CTranslate2, in turn, in one process.

  python scripts/benchmark --quick       # small sizes, to check that it runs
  python scripts/benchmark --arch resmlp_mt_6 'resmlp_mt_6 --token-mixing toeplitz' --parts
  python scripts/benchmark --exported --ctranslate2

Times are medians with the lowest and the highest repeat. Weights and tokens are random and the
number of tokens is forced. Run nothing else meanwhile. Measure each CPU again,
limited to AVX2, with the environment variables ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2
MKL_ENABLE_INSTRUCTIONS=AVX2 CT2_FORCE_CPU_ISA=AVX2 RESMLP_MT_KERNEL=avx2.
"""

import sys
from argparse import Namespace
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

import results
import torch

from resmlp_mt.cli.main import run_main
from resmlp_mt_runtime.arguments import WHOLE, Parser
from resmlp_mt_runtime.errors import UserError


def parse_args() -> Namespace:
    parser = Parser(description=__doc__)
    add = parser.add_argument
    help = (
        "our models, each with options of fairseq-train: 'resmlp_mt_6 --decoder-layers 3'; the "
        "Transformer has the sizes of the first (default: resmlp_mt_6)"
    )
    add("--arch", nargs="+", default=["resmlp_mt_6"], metavar="'NAME OPTIONS'", help=help)
    add("--parts", action="store_true", help="also our models under fairseq's search")
    add("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    add("--exported", action="store_true", help="also our models as exported, in int8")
    add("--ctranslate2", action="store_true", help="also the Transformer in CTranslate2")
    add("--vocabulary", **WHOLE, default=32768, help="tokens of the dictionary (default: 32768)")
    add("--sentences", **WHOLE, default=64, help="sentences of a batch (default: 64)")
    add("--beam", **WHOLE, default=4, help="(default: 4)")
    add("--length", **WHOLE, default=25, help="tokens of each source and target (default: 25)")
    add("--quick", action="store_true", help="small sizes, to check that it runs")
    add("--repeats", **WHOLE, default=5, help="timed runs of each (default: 5)")
    add("--threads", **WHOLE, default=torch.get_num_threads(), help="(default: PyTorch's)")
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--result", metavar="NAME", help="add a line of that name to docs/results/results.jsonl")
    if "--quick" in sys.argv:
        small = {"vocabulary": 1000, "sentences": 4, "length": 10, "repeats": 2}
        parser.set_defaults(arch=["resmlp_mt_tiny"], **small)
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: PyTorch finds no GPU here")
    if args.device == "cuda" and args.exported:
        raise UserError("--device cuda: an exported model runs on a CPU")
    return args


def main() -> None:
    args = parse_args()
    torch.set_num_threads(args.threads)
    import decoding

    device = torch.cuda.get_device_name() if args.device == "cuda" else results.machine()
    cpu = results.cpu()
    print(f"{device}, {args.threads} threads, torch {torch.__version__}, {args.dtype}")
    print(f"PyTorch uses {cpu['pytorch']}", *map("=".join, cpu["limits"].items()))
    found = decoding.decode(args)
    if args.result:
        where = {"cpu": cpu} if args.device == "cpu" else {"gpu": device}
        setting = {"threads": args.threads, "dtype": args.dtype, **where}
        results.append(args.result, {**setting, "decode": found})


if __name__ == "__main__":
    sys.exit(run_main(main))
