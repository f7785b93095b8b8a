#!/usr/bin/env python3
"""Properties of every model, with options, sizes, lengths and dtypes that Hypothesis draws.

    python tests/soak/properties.py [--seed N]

Padding and batch invariance, causality, decoding word by word, folding, saving and loading, each
for every kind of token mixing. A failing example is made as plain as it can be and named.
"""

import argparse
import sys
from collections import Counter
from typing import Iterable, List, Tuple

import soaking
import torch
from model_properties import PROPERTIES, hold

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.model.mixing_kinds import TOKEN_MIXING

ROUNDING = "float64 to 1e-9, float32 to 1e-3, 16 bits to four times their own rounding"


def search(
    kinds: Iterable[str], names: Iterable[str], profile: str, seed: int
) -> Tuple[dict, List[str]]:
    """Try properties with every kind of token mixing.

    Returns:
        how many examples held, by kind, property and dtype; and a line for each property that some
        example breaks.
    """
    held, lost = {}, []
    for kind in kinds:
        held[kind] = {}
        for name in names:
            try:
                held[kind][name] = dict(hold(name, kind, profile, seed))
            except Exception as error:  # whatever the model makes of the example
                lost.append(f"{kind}: {describe(error)}")
        print(f"{kind}: {count(held[kind])} examples held, {len(lost)} failures so far", flush=True)
    return held, lost


def describe(error: Exception) -> str:
    """What Hypothesis notes of a failure (the plainest example), and the error, in one line."""
    notes = " ".join(getattr(error, "__notes__", ["no example"]))
    return " ".join(f"{notes}: {type(error).__name__}: {error}".split())


def count(held: dict) -> int:
    """All examples in what :func:`search` gives, or a part of it."""
    return sum(count(part) if isinstance(part, dict) else part for part in held.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="of the examples (1)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    held, lost = search(TOKEN_MIXING, PROPERTIES, "soak", args.seed)
    dtypes = Counter()
    for of_kind in held.values():
        for of_property in of_kind.values():
            dtypes.update(of_property)
    soaking.record(
        "properties",
        "batch and padding invariance, causality, word-by-word decoding under any reordering, "
        "folding, saving and loading hold for options, sizes and dtypes drawn by Hypothesis",
        f"{count(held):,} examples, {len(held)} kinds of token mixing x {len(PROPERTIES)} "
        "properties",
        lost,
        {"seed": args.seed, "tolerances": ROUNDING, "dtypes": dtypes, "held": held},
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
