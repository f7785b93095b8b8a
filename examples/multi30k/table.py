#!/usr/bin/env python3
"""The table of results in README.md, from result files: ``table.py results/en-*.json``."""

import argparse
import sys
from pathlib import Path

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json

TESTS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")
HEAD = (
    *("pair", "architecture", "layers, channels", "optimizer, lr, dropout", "products", "seed"),
    *("parameters", "updates", "CPU minutes", "validation nll"),
    *("flickr 2016", "flickr 2017", "coco 2017"),
)


def option(result: dict, name: str, default: str = "") -> str:
    """The last value of an option of fairseq-train, as argparse takes it."""
    options = result["recipe"]["train_options"]
    values = [b for a, b in zip(options, options[1:]) if a == name]
    return values[-1] if values else default


def architecture(result: dict) -> str:
    """The name, and what is not as the paper has it."""
    name = f"`{result['recipe']['arch']}`"
    kind, heads = option(result, "--token-mixing"), option(result, "--token-mixing-heads", "1")
    if kind or heads != "1":
        name += f", {kind or 'linear'}, {heads} heads"
    scale = option(result, "--layerscale-init")
    return f"{name}, LayerScale {scale}" if scale else name


def row(result: dict) -> str:
    """One line of the table: sacreBLEU / chrF for each test set."""
    recipe = result["recipe"]
    layers, channels = (
        option(result, f"--encoder-{name}", default)
        for name, default in (("layers", ""), ("embed-dim", ""))
    )
    precision = {"highest": "float32", "medium": "bfloat16"}
    cells = [f"{recipe['source']}-{recipe['target']}", architecture(result)]
    cells.append(f"{layers} + {layers}, {channels}" if layers else "the architecture's")
    cells.append(", ".join(option(result, f"--{name}") for name in ("optimizer", "lr", "dropout")))
    cells.append(precision.get(recipe.get("matmul_precision", "highest"), "tensor float32"))
    cells += [str(recipe["seed"]), f"{result['parameters'] / 1e6:.2f} M"]
    cells.append(f"{recipe['updates']:,}")
    cells += [f"{result['cost']['cpu_minutes']:.0f}", f"{result['valid_nll']['last']:.3f}"]
    for split in TESTS:
        scores = result["scores"][split]
        cells.append(f"{scores['bleu']:.1f} / {scores['chrf']:.1f}")
    return "| " + " | ".join(cells) + " |"


def table(paths) -> str:
    """The whole table.

    Raises:
        UserError: if a file is no result of run.py.
    """
    lines = ["| " + " | ".join(HEAD) + " |", "| " + " | ".join("---" for _ in HEAD) + " |"]
    for path in paths:
        try:
            lines.append(row(read_json(path)))
        except (KeyError, TypeError) as error:
            raise UserError(f"{path}: not a result of run.py ({error} is missing)") from None
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("results", type=Path, nargs="+", help="result files of run.py")
    print(table(parser.parse_args().results))


if __name__ == "__main__":
    sys.exit(run_main(main))
