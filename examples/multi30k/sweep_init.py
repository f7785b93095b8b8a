#!/usr/bin/env python3
"""How to draw the mixing matrices' first weights: a short sweep at two sizes of the matrix.

    MULTI30K=DIR python examples/multi30k/sweep_init.py --threads 1

A batch uses the top left submatrix alone, some 20 x 20 here, so that a scale taken from the whole
matrix, as nn.Linear's, depends on positions that are never used. README.md has the result.
"""

import argparse
import sys
from pathlib import Path

from fetch import find_corpora
from run import HERE

from resmlp_mt.pipeline.experiment import Experiment, Recipe
from resmlp_mt.pipeline.steps import Workdir, read_json, write_json
from resmlp_mt.pipeline.terminal import run_main
from resmlp_mt.pipeline.training import read_curve, train

POSITIONS = (128, 1024)


def standard_deviations(positions: int) -> dict:
    """The candidates by name; the last has the deviation of nn.Linear's uniform distribution."""
    return {"0": 0.0, "0.02": 0.02, "0.1": 0.1, "nn.Linear": (3 * positions) ** -0.5}


def training_options(args, positions: int, std: float) -> list:
    options = ["--arch", args.arch, "--seed", args.seed, "--source-lang", "en", "--target-lang"]
    options += ["de", "--task", "translation", "--share-all-embeddings", "--dropout", 0.1]
    options += ["--max-source-positions", positions, "--max-target-positions", positions]
    options += ["--token-mixing-init-std", std, "--optimizer", "adagrad", "--lr", 0.05]
    options += ["--lr-scheduler", "fixed", "--warmup-updates", 100, "--clip-norm", 1.0]
    options += ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 0.1]
    options += ["--max-tokens", 2048, "--no-epoch-checkpoints", "--no-save-optimizer-state"]
    return [str(option) for option in options]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--arch", default="resmlp_mt_tiny")
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--out", type=Path, default=HERE / "out" / "sweep_init")
    args = parser.parse_args()
    options = {name: value for name, value in vars(args).items() if name not in ("out", "threads")}
    runs = [(n, name) for n in POSITIONS for name in standard_deviations(n)]
    workdir = Workdir(args.out, options, len(runs))
    corpora = find_corpora("de", HERE / "corpus")
    recipe = Recipe(args.arch, "en", "de", vocab_size=4000, updates=args.updates)
    experiment = Experiment(args.out / "data", recipe, corpora)
    data_bin = experiment.prepare()
    results = {}
    for positions, name in runs:
        std = standard_deviations(positions)[name]

        def make(folder, positions=positions, std=std):
            train(
                data_bin,
                folder,
                training_options(args, positions, std),
                args.updates,
                args.threads,
            )

        folder = workdir.step(f"{positions}.{name}", f"N = {positions}, std {name}", make, True)
        results[f"{positions}, {name}"] = read_curve(folder / "train.log")["valid"][-1][1]
        (folder / "checkpoint_last.pt").unlink(missing_ok=True)
    write_json(
        args.out / "result.json",
        {"options": read_json(args.out / "manifest.json"), "valid_nll": results},
    )
    print("| std | " + " | ".join(f"N = {n}" for n in POSITIONS) + " |")
    for name in standard_deviations(1):
        cells = (f"{results[f'{n}, {name}']:.3f}" for n in POSITIONS)
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    sys.exit(run_main(main, resumes=True))
