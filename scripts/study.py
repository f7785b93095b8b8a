#!/usr/bin/env python3
"""Compare systems of several sizes on text of several kinds.

    python examples/mixed/corpus.py --size 0.6 --from DIR ... --share win32=0.3 tatoeba=2
    python scripts/study.py train transformer=0.006 gated-ln=0.012 --size 0.6 --updates 11000
    python scripts/study.py cost transformer gated-ln --size 0.6
    python scripts/study.py lead --pair en-de
    python scripts/study.py score transformer=0.006 gated-ln=0.012 --size 0.6 --updates 11000

RATE is the learning rate of a system. A run is stored in
OUT/PAIR/SYSTEM-SIZE-RATE[-LABEL].SEED/UPDATES, where it resumes after a stop. Results go to
docs/results/results.jsonl, for `make tables`; the translations of the test sets to
docs/results/translations.
"""

import argparse
import re
import subprocess
import sys
from itertools import chain, product
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import NamedTuple

import curves
import numpy as np
import results
import scoring

from resmlp_mt.cli.arguments import SEED
from resmlp_mt.cli.main import run_main
from resmlp_mt_runtime.arguments import WHOLE, Parser
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import read_json
from resmlp_mt_runtime.lines import read_text

MODELS = Path(__file__).resolve().parents[1] / "examples" / "mixed"
MIXINGS = MODELS.with_name("mixings")
SIDES = ("encoder", "decoder")
# fairseq's convolutions in the place of self-attention (Wu et al., 2019), kernels of 7 and 31
CONVOLUTIONS = (
    *("lightconv", "--share-all-embeddings", "--input-dropout=0"),
    *(f"--{side}-attention-heads=4" for side in SIDES),
    *(f"--{side}-normalize-before" for side in SIDES),
    *(f"--{side}-kernel-size-list=[7,31]" for side in SIDES),
)
AFF = ("resmlp_mt_small", "--normalization=affine")  # as in the paper
ARCHITECTURES = {  # whose sizes are replaced, and what else mixes positions
    "transformer": ("transformer_small",),
    "dynamicconv": (*CONVOLUTIONS, *(f"--{side}-conv-type=dynamic" for side in SIDES)),
    "lightconv": (*CONVOLUTIONS, *(f"--{side}-conv-type=lightweight" for side in SIDES)),
    "resmlp": (*AFF, "--token-mixing=linear", "--token-mixing-heads=1"),
    "toeplitz": (*AFF, "--token-mixing=toeplitz"),
    "toeplitz-ln": ("resmlp_mt_small", "--token-mixing=toeplitz"),
    "gated": AFF,
    "gated-ln": ("resmlp_mt_small",),
}
# million parameters: subwords, channels, layers of each side, hidden units of the Transformer
SIZES = {
    "0.6": (2000, 96, 2, 192),
    "1.4": (4000, 144, 2, 288),
    "3.3": (4000, 208, 3, 416),
    "5.6": (8000, 256, 3, 512),
}
# times as many hidden units, for as many parameters as the Transformer has
WIDER = dict.fromkeys(("resmlp", "toeplitz", "toeplitz-ln"), 7 / 4)
WIDER |= {"hyena": 3 / 4, "lightconv": 6 / 5}
RECIPE = MODELS / "study.toml"
LENPEN = (0.6, 1.0, 1.4)  # the validation set chooses
REPEATS, TIMED = 5, 60  # trainings and updates that tell the time of an update


def resmlp_mt(*words) -> None:
    command = [sys.executable, "-m", "resmlp_mt", *map(str, words)]
    with subprocess.Popen(command) as process:
        try:
            status = process.wait()
        except SystemExit:  # by SIGTERM, which it has not got
            process.terminate()  # a training saves
            raise
    if status:
        raise UserError(f"resmlp-mt {words[0]} failed, see above")


def side(prefix: Path, language: str) -> list[str]:
    """The lines of ``PREFIX.LANG``, plain or ``.gz``."""
    return read_text(Path(f"{prefix}.{language}"))


def test_sets(text: Path, pair: str) -> dict[str, Path]:
    """The prefixes of the test sets in a folder, by name."""
    paths = sorted(text.glob(f"test.*.{pair.split('-')[0]}"))
    if not paths:
        raise UserError(f"{text} has no test sets: examples/mixed/corpus.py makes them")
    found = {path.name.split(".")[1]: path.with_suffix("") for path in paths}
    # a hundred sentences; the En-De text has none of the sources and seven of the references
    return {**found, "everyday": MODELS / "everyday"} if pair == "en-de" else found


class Training(NamedTuple):
    """What tells a training from others. *label*: whatever else is special."""

    pair: str
    system: str
    size: str
    rate: float
    label: str
    seed: int
    updates: int

    @classmethod
    def at(cls, folder: Path) -> "Training":
        """What the folder PAIR/SYSTEM-SIZE-RATE[-LABEL].SEED/UPDATES holds."""
        form = r"([\w-]+?)-([\d.]+)-([\d.]+(?:e-\d+)?)(?:-(.*))?\.(\d+)/(\d+)"
        found = re.fullmatch(form, f"{folder.parent.name}/{folder.name}")
        if not found:
            raise UserError(f"{folder}: must end in SYSTEM-SIZE-RATE[-LABEL].SEED/UPDATES")
        system, size, rate, label, seed, updates = found.groups()
        pair = folder.parent.parent.name
        return cls(pair, system, size, float(rate), label or "", int(seed), int(updates))

    @property
    def name(self) -> str:
        """In results.jsonl, and of the folder in OUT: fairseq's checkpoints, and ``model.pt``."""
        model = "-".join(filter(None, [self.system, self.size, f"{self.rate:g}", self.label]))
        return f"{self.pair}/{model}.{self.seed}/{self.updates}"


class Study:
    """Where everything is. ``--out/PAIR`` has the data and a folder for each training."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.source, self.target = args.pair.split("-")
        self.out = args.out / args.pair
        self.text = self.out / "text"
        self.vocabulary, *self.sizes = SIZES[getattr(args, "size", "5.6")]
        self.data = self.out / f"data-{self.vocabulary}" / "data-bin"
        self.rates = dict(getattr(args, "systems", ()))

    def training(self, system: str) -> Training:
        given = {**vars(self.args), "system": system, "rate": self.rates[system]}
        return Training(**{name: given[name] for name in Training._fields})

    def user_dir(self, system: str) -> list:
        """What registers the mixing of the system, if it is not ours."""
        return [] if system in ARCHITECTURES else ["--user-dir", self.args.user_dir]

    def folder(self, system: str) -> Path:
        return self.args.out / self.training(system).name

    def train(self) -> None:
        """Train, or resume, to the last update."""
        for system in self.rates:
            folder = self.folder(system)
            self._train(system, folder, self.args.updates)
            last = folder / "checkpoint_last.pt"
            resmlp_mt("average", "--inputs", last, "--output", folder / "model.pt")

    def _train(self, system: str, folder: Path, updates: int, *more: str) -> None:
        channels, layers, hidden = self.sizes
        hidden = round(hidden * WIDER.get(system, 1))
        sizes = {"layers": layers, "embed-dim": channels, "ffn-embed-dim": hidden}
        sides = product(SIDES, sizes.items())
        arch, *mixing = ARCHITECTURES.get(system, ("resmlp_mt_small", f"--token-mixing={system}"))
        resmlp_mt(
            *("train", self.data, "--out", folder, "--arch", arch),
            *("--recipe", self.args.recipe, *self.user_dir(system)),
            *("--seed", self.args.seed, "--max-update", updates, "--threads", 1),
            *("--precision", self.args.precision, "--", "--cpu", f"--lr={self.rates[system]:g}"),
            *(f"--{side}-{name}={size}" for side, (name, size) in sides),
            *mixing,
            *(f"--{option}" for option in self.args.set),
            *more,
        )

    def cost(self) -> None:
        """A line of results: seconds per update of each system, on the same batches, in turn; and
        the means of each repetition."""
        found: dict[str, list[list[float]]] = {system: [] for system in self.rates}
        quiet = ("--no-save", "--disable-validation", "--log-interval=10")
        for _, system in product(range(REPEATS), self.rates):
            with TemporaryDirectory() as folder:
                self._train(system, Path(folder), TIMED, *quiet)
                _, *speeds = curves.batches(Path(folder, "train.log"), "wpb", "wps").values()
                found[system].append([words / speed for words, speed in speeds])
        numbers = {
            **{name: getattr(self.args, name) for name in ("pair", "size", "label", "precision")},
            "seconds": {name: np.median(runs, axis=0).mean() for name, runs in found.items()},
            "repetitions": {name: [*map(mean, runs)] for name, runs in found.items()},
        }
        name = "/".join(filter(None, ["cost", self.args.pair, self.args.size, self.args.label]))
        results.append(name, numbers, self.args.seed)

    def lead(self) -> None:
        """A line of results for each training in OUT/PAIR: its losses by updates. The batches must
        be those of the Transformer of the same size, seed and label, whatever their dropout."""
        texts = {log: log.read_text("utf-8") for log in sorted(self.out.glob("*/*/train.log"))}
        begun = [log for log, text in texts.items() if curves.PARAMETERS.search(text)]
        found = {Training.at(log.parent): log for log in begun}
        if not found:
            raise UserError(f"{self.out} holds no SYSTEM-SIZE-RATE.SEED/UPDATES/train.log")
        batches = {each: curves.batches(log, "wpb", "bsz") for each, log in found.items()}
        for training, log in found.items():
            for other, theirs in batches.items():
                labels = {curves.without_dropout(each.label)[0] for each in (training, other)}
                free = {"rate": other.rate, "updates": other.updates, "label": other.label}
                same = len(labels) == 1 and other == training._replace(system="transformer", **free)
                shared = theirs.keys() & batches[training].keys()
                others = sum(theirs[n] != batches[training][n] for n in shared)
                if same and others >= len(shared) / 20:
                    raise UserError(f"{log}: its batches are not those of {found[other]}")
            if (numbers := curves.read(log))["valid_curve"]:
                self._append(training, "curve/", numbers)

    def _append(self, training: Training, prefix: str, numbers: dict) -> None:
        results.append(prefix + training.name, {**training._asdict(), **numbers}, training.seed)

    def translate(self, model: Path, prefix: Path, lenpen: float, *more) -> list[str]:
        folder = model.parent / "translations"
        folder.mkdir(parents=True, exist_ok=True)
        output = folder / f"{prefix.name}.{lenpen:g}.{self.target}"
        resmlp_mt(
            *("translate", "--path", model, "--data", self.data, "--cpu", "--threads", 1),
            *("--lenpen", lenpen, "--input", f"{prefix}.{self.source}"),
            *("--output", output, "--resume", *more),
        )
        return read_text(output)

    def score(self) -> None:
        """A line of results for each system, tested against those that are named before it."""
        prefixes = test_sets(self.text, self.args.pair)
        sources, references = (
            {test: side(prefix, language) for test, prefix in prefixes.items()}
            for language in (self.source, self.target)
        )
        thinned = self.text / "thinned"
        wanted = side(thinned, self.target)
        before: dict[str, dict[str, list[str]]] = {}
        for system in self.rates:
            model = self.folder(system) / "model.pt"
            if not model.exists():
                raise UserError(f"{model}: no such file: train {system} for these updates first")
            more = self.user_dir(system)
            lenpens = {x: self.translate(model, thinned, x, *more) for x in LENPEN}
            tried = {lenpen: scoring.scores(lines, wanted) for lenpen, lines in lenpens.items()}
            chosen = max(LENPEN, key=lambda lenpen: tried[lenpen]["bleu"])
            lines = {n: self.translate(model, p, chosen, *more) for n, p in prefixes.items()}
            texts = (sources, lines, references)
            scoring.store_translations(self.training(system).name, lines)
            numbers = {
                "pairs": round(read_json(self.data / "report.json")["pairs"]["train"] / 1e6, 1),
                **curves.read(model.with_name("train.log")),
                **{"lenpen": chosen, "lenpens": tried},
                "scores": {n: scoring.scores(lines[n], references[n]) for n in lines},
                "lengths": scoring.by_length(*([*chain(*of.values())] for of in texts)),
                "signatures": scoring.signatures(),
                "against": {
                    other: {n: scoring.tested(of[n], lines[n], references[n]) for n in lines}
                    for other, of in before.items()
                },
            }
            self._append(self.training(system), "", numbers)
            before[system] = lines


def language_pair(text: str) -> str:
    if text.count("-") != 1:
        raise argparse.ArgumentTypeError(f"give two languages, such as en-fr, not {text}")
    return text


PAIR = {"type": language_pair, "default": "en-de", "help": "such as en-fr (default: en-de)"}


def system_and_rate(text: str) -> tuple[str, float]:
    """A system and its learning rate, from SYSTEM or SYSTEM=RATE."""
    system, _, rate = text.partition("=")
    return system, float(rate or 0.004)


def parse_args() -> argparse.Namespace:
    parser = Parser(description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    for name in ("train", "cost", "score", "lead"):
        add = actions.add_parser(name).add_argument
        add("--pair", **PAIR)
        add("--out", type=Path, default=MODELS / "out", metavar="DIR")
        if name != "lead":
            add("--size", choices=SIZES, default="5.6", help="million parameters (default: 5.6)")
            help = f"{', '.join(ARCHITECTURES)} or a token mixing of --user-dir (RATE: 0.004)"
            add("systems", nargs="+", type=system_and_rate, metavar="SYSTEM[=RATE]", help=help)
            add("--user-dir", type=Path, default=MIXINGS, help="(default: examples/mixings)")
            add("--seed", **SEED)
            add("--label", metavar="WORD", default="", help="what else distinguishes these runs")
        if name in ("train", "score"):
            add("--updates", **WHOLE, required=True)
        if name in ("train", "cost"):
            help = "bf16 is faster on a CPU with AMX (default: fp32)"
            add("--precision", choices=("fp32", "bf16"), default="fp32", help=help)
            help = "(default: study.toml, in which updates do not depend on how many follow)"
            add("--recipe", default=RECIPE, metavar="NAME|FILE", help=help)
            help = "options of fairseq-train, such as dropout=0.1: name them in --label"
            add("--set", nargs="*", default=[], metavar="OPTION=VALUE", help=help)
    args = parser.parse_args()
    if len(systems := getattr(args, "systems", [])) > len(dict(systems)):
        raise UserError("a system is named twice: give each of its rates in a command of its own")
    if "recipe" in args and not args.label and (args.set or args.recipe != RECIPE):
        raise UserError("--recipe or --set: name the difference with --label, here and to score")
    return args


def main() -> None:
    args = parse_args()
    getattr(Study(args), args.action)()


if __name__ == "__main__":
    sys.exit(run_main(main))
