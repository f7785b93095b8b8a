#!/usr/bin/env python3
"""Every kind of token mixing, exported: the translations of fairseq-generate, line by line.

    python scripts/deploying_kinds.py --data DATA --source FILE --out FILE

For each kind, both norms, tied and untied embeddings, a small model is trained for some hundred
updates on DATA, so that it writes words and ends its sentences. FILE is the source of the subset
test of DATA. It is a result file behind docs/deploying.md.
"""

import argparse
import itertools
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from deploying import same_translations

from resmlp_mt.cli.arguments import WHOLE, Parser
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.export.folder import export
from resmlp_mt.export.runtime import Translator as Exported
from resmlp_mt.files import write_json
from resmlp_mt.model.config import NORMALIZATIONS
from resmlp_mt.model.mixing_kinds import OF_POSITIONS, TOKEN_MIXING
from resmlp_mt.provenance import versions
from resmlp_mt.text.lines import read_text
from resmlp_mt.train.programs import USER_DIR, program
from resmlp_mt.translate.translator import SearchOptions

SIZE = """
--arch resmlp_mt_tiny --encoder-layers 2 --decoder-layers 2 --encoder-embed-dim 64
--encoder-ffn-embed-dim 128 --encoder-attention-heads 2 --decoder-attention-heads 2
--max-source-positions 256 --max-target-positions 256 --layerscale-init 1
"""
TRAINING = """
--task translation --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --optimizer adam
--lr 0.004 --lr-scheduler inverse_sqrt --warmup-updates 100 --clip-norm 1 --max-tokens 1024
--no-epoch-checkpoints --disable-validation --seed 1 --cpu --num-workers 0 --no-progress-bar
"""


def train(kind: str, normalization: str, tied: bool, args: argparse.Namespace, out: Path) -> Path:
    """The checkpoint of a short training.

    Raises:
        subprocess.CalledProcessError: if it fails.
    """
    words = [program("fairseq-train"), args.data, "--user-dir", USER_DIR]
    words += [*shlex.split(SIZE), *shlex.split(TRAINING), "--max-update", args.updates]
    words += ["--token-mixing", kind, "--normalization", normalization, "--save-dir", out]
    if kind in OF_POSITIONS:
        words += ["--token-mixing-heads", 4]
    else:
        words += ["--token-positional-embeddings"]
    if tied:
        words += ["--share-all-embeddings"]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL, env=one_thread)
    return out / "checkpoint_last.pt"


def main() -> None:
    parser = Parser(description=__doc__.split("\n")[0])
    for name in ("data", "source", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--updates", **WHOLE, default=300, help="of each training")
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines = read_text(args.source)
    result = {"command": shlex.join(["python", "scripts/deploying_kinds.py", *sys.argv[1:]])}
    result.update(versions=versions(), models=[])
    for kind, normalization, tied in itertools.product(TOKEN_MIXING, NORMALIZATIONS, (True, False)):
        with tempfile.TemporaryDirectory() as name:
            checkpoint = train(kind, normalization, tied, args, Path(name) / "checkpoints")
            options = SearchOptions(paths=(checkpoint,), data=args.data, cpu=True)
            export(options, Path(name) / "exported", "float32", None, args.data)
            found = same_translations(options, Exported(Path(name) / "exported", threads=1), lines)
        model = {"kind": kind, "normalization": normalization, "tied": tied, **found}
        result["models"].append(model)
        write_json(args.out, result)


if __name__ == "__main__":
    sys.exit(run_main(main))
