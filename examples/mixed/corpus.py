#!/usr/bin/env python3
"""Join corpora into the text of scripts/study.py and of the published models, and prepare it.

    python examples/mixed/corpus.py --pair en-de --from DIR ... --share win32=0.3 tatoeba=2

Each DIR holds train.LANG, valid.NAME.LANG and test.NAME.LANG, plain or .gz, one sentence per line,
and may hold train.origin, the corpus of each line. The text goes to OUT/PAIR/text, the output of
resmlp-mt prepare to OUT/PAIR/data-SUBWORDS.
"""

import random
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[2] / "scripts"))

from study import MODELS, PAIR, SIZES, resmlp_mt, side

from resmlp_mt.cli.main import run_main
from resmlp_mt_runtime.arguments import FILE, Parser
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import write_json
from resmlp_mt_runtime.lines import write_lines

THINNED = 3  # every third validation line chooses the length penalty
COVERAGE = 0.999  # of the characters; the rest is spelled in bytes


def make(folders: list[Path], out: Path, languages: tuple[str, str], shares: dict) -> list[str]:
    """Write held-out text by name, and training text sampled by origin. Gives the test sets."""
    out.mkdir(parents=True, exist_ok=True)
    homes = {}
    for path in (path for folder in folders for path in sorted(folder.glob(f"*.{languages[0]}*"))):
        split, name, *_ = path.name.split(".")
        if split in ("valid", "test") and name not in languages:
            homes[f"{split}.{name}"] = path.parent
    valid, tests = ([n for n in homes if n.startswith(split)] for split in ("valid", "test"))
    if not valid or not tests:
        raise UserError(f"--from {folders[0]}: no valid.NAME.LANG or no test.NAME.LANG")
    rows = sampled(folders, languages, shares, out / "origins.json")
    for language, lines in zip(languages, zip(*rows)):
        texts = {name: side(home / name, language) for name, home in homes.items()}
        together = [line for name in valid for line in texts[name]]
        texts |= {"valid": together, "thinned": together[::THINNED], "train": list(lines)}
        for name, text in texts.items():
            write_lines(out / f"{name}.{language}", text)
    return tests


def sampled(
    folders: list[Path], languages: tuple[str, str], shares: dict[str, float], report: Path
) -> list[list[str]]:
    """The training pairs, each as often as its origin's share says: 2 takes it twice, 0.3 with
    probability 0.3. Prints the numbers and stores them in *report*."""
    draw, given, taken = random.Random(1), Counter[str](), Counter[str]()
    rows = []
    for folder in folders:
        sides = [side(folder / "train", language) for language in languages]
        known = any(folder.glob("train.origin*"))
        origins = side(folder / "train", "origin") if known else [folder.name] * len(sides[0])
        for origin, *pair in zip(origins, *sides, strict=True):
            share = shares.get(origin, 1.0)
            times = int(share) + (draw.random() < share % 1)
            given[origin] += 1
            taken[origin] += times
            rows += times * [pair]
    if unknown := set(shares) - set(given):
        raise UserError(f"--share {', '.join(sorted(unknown))}: no such origin: {set(given)}")
    for origin, count in given.most_common():
        print(f"{origin}: {taken[origin]:,} of {count:,} pairs", file=sys.stderr)
    write_json(report, {origin: [taken[origin], count] for origin, count in given.items()})
    draw.shuffle(rows)
    return rows


def share(text: str) -> tuple[str, float]:
    """ORIGIN=N of the command line."""
    origin, _, number = text.partition("=")
    return origin, float(number)


def main() -> None:
    parser = Parser(description=__doc__)
    add = parser.add_argument
    add("--pair", **PAIR)
    add("--from", type=Path, dest="folders", nargs="+", metavar="DIR", required=True)
    help = "how often to take each pair of an origin: win32=0.3 tatoeba=2 (default: once)"
    add("--share", nargs="*", default=[], type=share, metavar="ORIGIN=N", help=help)
    help = "size of the models to train, in million parameters (default: 5.6)"
    add("--size", choices=SIZES, default="5.6", help=help)
    help = "subwords of a model that is to be trained further (default: new ones)"
    add("--subword-model", **FILE, help=help)
    help = "add training lines of more kinds: see resmlp-mt prepare --help"
    add("--augment", action="store_true", help=help)
    add("--out", type=Path, default=MODELS / "out", metavar="DIR")
    args = parser.parse_args()
    source, target = args.pair.split("-")
    out, subwords = args.out / args.pair, SIZES[args.size][0]
    tests = make(args.folders, out / "text", (source, target), dict(args.share))
    vocabulary = ("--vocab-size", subwords, "--character-coverage", COVERAGE)
    resmlp_mt(
        *("prepare", "-s", source, "-t", target, "--trainpref", out / "text" / "train"),
        *("--validpref", out / "text" / "valid", "--out", out / f"data-{subwords}"),
        *("--testpref", ",".join(str(out / "text" / name) for name in tests)),
        *(("--subword-model", args.subword_model) if args.subword_model else vocabulary),
        *(["--augment"] if args.augment else []),
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
