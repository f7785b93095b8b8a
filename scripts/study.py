#!/usr/bin/env python3
"""Compare systems after equally many updates, on text of several kinds, and publish the best.

    python scripts/study.py corpus --pair en-de --from DIR ... --share win32=0.3 tatoeba=2
    python scripts/study.py train toeplitz --pair en-de --updates 8000
    python scripts/study.py trial toeplitz --pair en-de --updates 600 --set lr=0.008
    python scripts/study.py score transformer toeplitz --pair en-de --updates 8000
    python scripts/study.py lead transformer toeplitz --pair en-de --updates 8000
    python scripts/study.py publish toeplitz --pair en-de --updates 8000
    python scripts/study.py card --pair en-de

Each DIR holds train.LANG, valid.NAME.LANG and test.NAME.LANG, plain or .gz, one sentence per line,
and may hold train.origin, the corpus of each line. All is stored in --out, where a stopped training
resumes. Scores go to docs/results/results.jsonl, for `make tables`; the translations of the test
sets to docs/results/translations.
"""

import argparse
import gzip
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

import numpy as np
import results
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from resmlp_mt.checkpoints.reading import model_options, read_checkpoint
from resmlp_mt.checkpoints.writing import write_checkpoint
from resmlp_mt.cli.arguments import FILE, SEED, WHOLE, Parser
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json, write_json
from resmlp_mt.pipeline.train.log import parse_record
from resmlp_mt.text.lines import read_text, sha256_of, write_lines

MODELS = Path(__file__).resolve().parents[1] / "examples" / "mixed"
ARCHITECTURES = {
    "transformer": "transformer",
    "resmlp": "resmlp_mt_6",
    "toeplitz": "resmlp_mt_toeplitz_6",
    "conv": "resmlp_mt_conv_6",
    "gated": "resmlp_mt_gated_6",
}
RECIPE, VOCABULARY = "mixed", 8000
LENPEN = (0.6, 1.0, 1.4)  # the validation set chooses
THINNED = 3  # every third validation line chooses the length penalty
COVERAGE = 0.999  # of the characters; the rest is spelled in bytes
SETTLED = 600  # updates before the losses can be compared: three times the warm-up
SHOWN = 12  # sentences in the card
EVERYDAY = MODELS / "everyday"  # a hundred, none of them in the En-De text


def resmlp_mt(*words) -> None:
    command = [sys.executable, "-m", "resmlp_mt", *map(str, words)]
    with subprocess.Popen(command) as process:
        try:
            status = process.wait()
        except SystemExit:  # by SIGTERM, which it has not got
            process.terminate()  # a training saves and adds up its CPU minutes
            raise
    if status:
        raise UserError(f"resmlp-mt {words[0]} failed, see above")


def side(prefix: Path, language: str) -> list[str]:
    """The lines of ``PREFIX.LANG``, plain or ``.gz``."""
    return read_text(Path(f"{prefix}.{language}"))


class Study:
    """Where everything is. ``--out/PAIR`` has the data and a folder for each training."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.source, self.target = args.pair.split("-")
        self.out = args.out / args.pair
        self.data = self.out / "data" / "data-bin"
        self.text = self.out / "text"

    # ----------------------------------------------------------------------------- corpus

    def corpus(
        self, folders: list[Path], shares: dict[str, float], subword_model: Path | None
    ) -> None:
        """Held-out text by name, training text sampled by origin, and the binary data, for a new
        vocabulary or for that of a model."""
        self.text.mkdir(parents=True, exist_ok=True)
        names: dict[str, dict[str, Path]] = {"valid": {}, "test": {}}
        for split, homes in names.items():
            for path in sorted(
                path for folder in folders for path in folder.glob(f"{split}.*.{self.source}*")
            ):
                homes[path.name.split(".")[1]] = path.parent
        if not all(names.values()):
            raise UserError(f"--from {folders[0]}: no valid.NAME.LANG or no test.NAME.LANG")
        rows = self._sampled(folders, shares)
        for language, lines in zip((self.source, self.target), map(list, zip(*rows))):
            texts = {
                f"{split}.{name}": side(home / f"{split}.{name}", language)
                for split, homes in names.items()
                for name, home in homes.items()
            }
            for name, text in texts.items():
                write_lines(self.text / f"{name}.{language}", text)
            valid = [line for name in names["valid"] for line in texts[f"valid.{name}"]]
            write_lines(self.text / f"valid.{language}", valid)
            write_lines(self.text / f"thinned.{language}", valid[::THINNED])
            write_lines(self.text / f"train.{language}", lines)
        vocabulary = ("--vocab-size", VOCABULARY, "--character-coverage", COVERAGE)
        if subword_model:
            vocabulary = ("--subword-model", subword_model)
        resmlp_mt(
            *("prepare", "-s", self.source, "-t", self.target, *vocabulary),
            *("--trainpref", self.text / "train", "--validpref", self.text / "valid"),
            *("--testpref", ",".join(str(self.text / f"test.{name}") for name in names["test"])),
            *("--out", self.out / "data", *(["--augment"] if self.args.augment else [])),
        )

    def _sampled(self, folders: list[Path], shares: dict[str, float]) -> list[list[str]]:
        """The training pairs, each as often as its origin's share says: 2 takes it twice, 0.3 with
        probability 0.3. Prints the numbers and stores them as ``origins.json``."""
        draw, given, taken = random.Random(1), Counter[str](), Counter[str]()
        rows = []
        for folder in folders:
            sides = [side(folder / "train", language) for language in (self.source, self.target)]
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
        write_json(self.text / "origins.json", {o: [taken[o], n] for o, n in given.items()})
        draw.shuffle(rows)
        return rows

    def tests(self) -> dict[str, Path]:
        """The prefixes of the test sets, by name."""
        paths = sorted(self.text.glob(f"test.*.{self.source}"))
        if not paths:
            raise UserError(f"{self.text} has no test sets: study.py corpus makes them")
        found = {path.name.split(".")[1]: path.with_suffix("") for path in paths}
        return {**found, "everyday": EVERYDAY} if self.args.pair == "en-de" else found

    # --------------------------------------------------------------------------- training

    def folder(self, system: str) -> Path:
        """Of a training: fairseq's checkpoints, and ``model.pt`` at its end."""
        return self.out / f"{self.label(system)}.{self.args.seed}" / str(self.args.updates)

    def label(self, system: str) -> str:
        return f"{system}, {self.args.label}" if self.args.label else system

    def result(self, system: str) -> str:
        """The name in results.jsonl."""
        return f"{self.args.pair}/{self.label(system)}/{self.args.seed}/{self.args.updates}"

    def train(self, system: str) -> None:
        """Train, or resume, to the last update, where the recipe's learning rate is 0."""
        folder = self.folder(system)
        resmlp_mt(
            *("train", self.data, "--out", folder, "--arch", ARCHITECTURES[system]),
            *("--recipe", RECIPE, "--seed", self.args.seed, "--max-update", self.args.updates),
            *("--precision", self.args.precision, "--threads", 1),
            *("--", "--cpu", *(f"--{word}" for word in self.args.set)),
        )
        last = folder / "checkpoint_last.pt"
        resmlp_mt("average", "--inputs", last, "--output", folder / "model.pt")

    def trial(self, system: str) -> None:
        """A short training with other options of fairseq-train, judged by the validation loss."""
        self.train(system)
        self._append(f"trial/{self.result(system)}", system, {})

    def lead(self, systems: list[str]) -> None:
        """A line of results: the loss of the second system below that of the first, in bits per
        token, on the same batches of text that neither has seen before, by updates. A power law is
        fitted to four points or more, and extended to ten times as many updates."""
        theirs, ours = (losses(self.folder(system) / "train.log") for system in systems)
        shared = sorted(update for update in theirs.keys() & ours.keys() if update > SETTLED)
        if not shared:
            raise UserError(f"lead: no common update after {SETTLED}: train both longer")
        if any(theirs[update][1] != ours[update][1] for update in shared):
            raise UserError(f"{self.folder(systems[1])}: its batches are not those of {systems[0]}")
        points = []
        edges = np.searchsorted(shared, SETTLED * 2 ** (np.arange(1, 20) / 2))
        for group in np.split(shared, edges):
            loss = np.array([(theirs[update][0], ours[update][0]) for update in group])
            if len(loss) < 4:
                continue
            gap = loss[:, 0] - loss[:, 1]
            error = gap.std(ddof=1) / len(gap) ** 0.5
            means = (*loss.mean(0), gap.mean(), error)
            points.append([round(float(np.exp(np.log(group).mean()))), *map(float, means)])
        numbers = {
            "updates": int(shared[-1]),
            "columns": ["updates", *systems, "lead", "standard error"],
            "points": [[round(value, 4) for value in point] for point in points],
        }
        if len(points) > 3 and min(point[3] for point in points) > 0:
            updates, _, _, lead, _ = np.array(points).T
            exponent, law = power_law(updates, lead)
            numbers["exponent"] = round(exponent, 3)
            numbers["residuals"] = [round(float(value), 4) for value in lead - law(updates)]
            numbers["after ten times as many"] = float(law(10 * shared[-1]))
            _, early = power_law(updates[:4], lead[:4])
            numbers["last by the first four"] = float(early(updates[-1]))
        pair = f"{self.args.pair}/{self.label(systems[1])}/{self.args.seed}"
        results.append(f"lead/{pair}", numbers, self.args.seed)

    def _append(self, name: str, system: str, scores: dict) -> None:
        """A line of results: how a training was made, its losses, and its *scores*."""
        folder = self.folder(system)
        numbers = {
            "pair": self.args.pair,
            "system": self.label(system),
            "updates": self.args.updates,
            "cpu_minutes": read_json(folder / "cost.json")["cpu_minutes"],
            "precision": read_json(folder / "train.json")["settings"]["--precision"][0],
            "valid_curve": valid_curve(folder / "train.log"),
            **scores,
        }
        results.append(name, numbers, self.args.seed)

    # ---------------------------------------------------------------------------- scoring

    def translate(self, model: Path, prefix: Path, lenpen: float) -> list[str]:
        folder = model.parent / "translations"
        folder.mkdir(parents=True, exist_ok=True)
        output = folder / f"{prefix.name}.{lenpen:g}.{self.target}"
        resmlp_mt(
            *("translate", "--path", model, "--data", self.data, "--cpu", "--threads", 1),
            *("--lenpen", lenpen, "--input", f"{prefix}.{self.source}"),
            *("--output", output, "--resume"),
        )
        return read_text(output)

    def score(self, systems: list[str]) -> None:
        """A line of results for each system, tested against those that are named before it and
        against --against, whose translations are stored."""
        before: dict[str, dict[str, list[str]]] = {}
        tests, thinned = self.tests(), self.text / "thinned"
        if self.args.against:
            name = f"{self.args.pair}/{self.args.against}/{self.args.seed}/{self.args.updates}"
            before[self.args.against.split(", ")[0]] = stored_translations(name)
        for system in systems:
            model = self.folder(system) / "model.pt"
            if not model.exists():
                raise UserError(f"{model}: no such file: train {system} for these updates first")
            tried = {
                lenpen: self._scores(self.translate(model, thinned, lenpen), thinned)
                for lenpen in LENPEN
            }
            chosen = max(LENPEN, key=lambda lenpen: tried[lenpen]["bleu"])
            lines = {name: self.translate(model, p, chosen) for name, p in tests.items()}
            store_translations(self.result(system), lines)
            scores = {
                "parameters": count_parameters(read_checkpoint(model)["model"]),
                **{"lenpen": chosen, "lenpens": tried},
                "scores": {name: self._scores(some, tests[name]) for name, some in lines.items()},
                "signatures": {m.__name__.lower(): signature(m) for m in (BLEU, CHRF)},
                "against": {
                    other: {n: self._tested(of[n], lines[n], prefix) for n, prefix in tests.items()}
                    for other, of in before.items()
                },
            }
            self._append(self.result(system), system, scores)
            before[system] = lines

    def _scores(self, lines: list[str], prefix: Path) -> dict:
        references = side(prefix, self.target)
        return {
            "bleu": round(BLEU().corpus_score(lines, [references]).score, 2),
            "chrf": round(CHRF().corpus_score(lines, [references]).score, 2),
            "repeats": round(mean(map(repeats, lines)), 4),
        }

    def _tested(self, theirs: list[str], ours: list[str], prefix: Path) -> dict:
        """Paired bootstrap: the difference in BLEU, and the chance of it."""
        systems = [("baseline", theirs), ("system", ours)]
        references = [side(prefix, self.target)]
        test = PairedTest(systems, {"BLEU": BLEU(references=references)}, references, "bs", 1000)
        baseline, system = test()[1]["BLEU"]
        difference = round(system.score - baseline.score, 2)
        return {"difference": difference, "p": round(system.p_value, 4)}

    # ------------------------------------------------------------------------- publishing

    def publish(self, system: str) -> None:
        """``model/``: the scored weights in float16, and all else that translates."""
        name = self.result(system)
        scored = results.load().get(name)
        if scored is None:
            raise UserError(f"results.jsonl has no {name}: score it first")
        out, lenpen = self.args.model, scored["numbers"]["lenpen"]
        out.mkdir(parents=True, exist_ok=True)
        weights = ("--inputs", self.folder(system) / "model.pt", "--output", out / "model.pt")
        resmlp_mt("average", *weights, "--float16")
        forget_folders(out / "model.pt")
        write_json(out / "search.json", {"lenpen": lenpen})
        names = (f"dict.{self.source}.txt", f"dict.{self.target}.txt", "spm.model", "text.json")
        for file in names:
            shutil.copyfile(self.data / file, out / file)
        self.card(scored)

    def card(self, published: dict | None) -> None:
        """Scores of the published model by its checkpoint and by its exports, and sentences.
        *published*: a result that says how it was trained."""
        if published is None:
            raise UserError(f"results.jsonl has no model/{self.args.pair}: publish it first")
        model, tests = self.args.model, {**self.tests(), "everyday": EVERYDAY}
        found: dict[str, dict[str, list[str]]] = {}
        with TemporaryDirectory() as temporary:
            exported, int8 = (Path(temporary, name) for name in ("exported", "int8"))
            resmlp_mt("export", model, "--out", exported)
            resmlp_mt("export", model, "--out", int8, "--int8")
            engines = {
                "checkpoint": (model, "--cpu"),
                "exported": (exported, "--graph"),
                "int8": (int8, "--graph"),
            }
            if find_spec("resmlp_mt_native"):
                engines["int8, native"] = (int8,)
            for name, engine in engines.items():
                found[name] = {}
                for test, prefix in tests.items():
                    output = Path(temporary, f"{name}.{test}")
                    files = ("--input", f"{prefix}.{self.source}", "--output", output)
                    resmlp_mt("translate", "--threads", 1, *files, "--path", *engine)
                    found[name][test] = read_text(output)
        shown = list(zip(side(EVERYDAY, self.source), found["checkpoint"]["everyday"]))[:SHOWN]
        scores = {
            name: {test: self._scores(some[test], prefix) for test, prefix in self.tests().items()}
            for name, some in found.items()
        }
        kept = ("system", "updates", "cpu_minutes", "parameters", "lenpen", "signatures")
        files = [path for path in sorted(model.iterdir()) if path.suffix != ".md"]
        numbers = {
            **{key: published["numbers"][key] for key in kept},
            "scores": scores.pop("checkpoint"),
            "exports": {n: {test: s["bleu"] for test, s in of.items()} for n, of in scores.items()},
            "sentences": shown,
            "files": {p.name: {"bytes": p.stat().st_size, "sha256": sha256_of(p)} for p in files},
        }
        results.append(f"model/{self.args.pair}", numbers, published["seed"])


def records(log: Path, kind: str) -> Iterator[dict[str, float]]:
    """The statistics of a kind, ``valid`` or ``train_inner``, in a log of fairseq-train."""
    parsed = map(parse_record, read_text(log))
    return (values for found, values in parsed if found == kind)


def valid_curve(log: Path) -> list[tuple[int, float]]:
    """(update, validation nll in bits per token); after a resume the later record counts."""
    valid = records(log, "valid")
    return sorted({int(v["valid_num_updates"]): v["valid_nll_loss"] for v in valid}.items())


def losses(log: Path) -> dict[int, tuple[float, tuple[float, float]]]:
    """By update: bits per token, and the tokens and sentences of the batches."""
    training = records(log, "train_inner")
    return {int(v["num_updates"]): (v["nll_loss"], (v["wpb"], v["bsz"])) for v in training}


def power_law(x: np.ndarray, y: np.ndarray) -> tuple[float, Callable]:
    """The exponent of the power law that is nearest to the points in logarithms, and the law."""
    exponent, start = np.polyfit(np.log(x), np.log(y), 1)
    return float(exponent), lambda at: np.exp(start) * at**exponent


def repeats(line: str) -> bool:
    """Whether the same three words in a row occur twice."""
    words = line.split()
    threes = list(zip(words, words[1:], words[2:]))
    return len(set(threes)) < len(threes)


def translations_of(name: str) -> Path:
    name = name.replace("/", "_").replace(", ", "-").replace(" ", "-")
    return results.FILE.parent / "translations" / f"{name}.gz"


def stored_translations(name: str) -> dict[str, list[str]]:
    """By test set."""
    found: dict[str, list[str]] = {}
    for line in read_text(translations_of(name)):
        test, _, translation = line.partition("\t")
        found.setdefault(test, []).append(translation)
    return found


def store_translations(name: str, lines: dict[str, list[str]]) -> None:
    """TEST<TAB>TRANSLATION lines, for other metrics and for tests against later systems."""
    path = translations_of(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{test}\t{line}\n" for test, some in lines.items() for line in some)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def signature(metric: type) -> str:
    counted = metric()
    counted.corpus_score(["a"], [["a"]])
    return str(counted.get_signature())


def count_parameters(weights: dict) -> int:
    """A matrix that is shared counts once."""
    return sum({w.data_ptr(): w.numel() for w in weights.values() if w.numel() > 1}.values())


def forget_folders(path: Path) -> None:
    """fairseq writes the folders of the training into a checkpoint: they are of one machine."""
    state = read_checkpoint(path)
    parts = [state["cfg"][part] for part in ("common", "checkpoint", "task")]
    for options in [model_options(state), *parts]:
        options = options if isinstance(options, dict) else vars(options)
        for name in ("user_dir", "save_dir", "continue_once", "finetune_from_model", "data"):
            if name in options:
                options[name] = None
    write_checkpoint(state, path)


def share(text: str) -> tuple[str, float]:
    """ORIGIN=N of the command line."""
    origin, _, number = text.partition("=")
    return origin, float(number)


def parse_args() -> argparse.Namespace:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    making = actions.add_parser("corpus")
    making.add_argument(
        "--from", type=Path, dest="folders", nargs="+", metavar="DIR", required=True
    )
    help = "how often to take each pair of an origin, such as win32=0.3 tatoeba=2 (default: once)"
    making.add_argument("--share", nargs="*", default=[], type=share, metavar="ORIGIN=N", help=help)
    help = "of the model that is to be trained on (default: new subwords)"
    making.add_argument("--subword-model", **FILE, help=help)
    help = "add training lines of further kinds, see resmlp-mt prepare"
    making.add_argument("--augment", action="store_true", help=help)
    counts = {"train": "+", "trial": "+", "score": "+", "lead": 2, "publish": 1}
    for name, systems in counts.items():
        action = actions.add_parser(name)
        action.add_argument("systems", nargs=systems, choices=ARCHITECTURES, metavar="SYSTEM")
        action.add_argument("--updates", **WHOLE, required=True)
        action.add_argument("--seed", **SEED)
        action.add_argument("--label", metavar="WORD", help="beside the system, in the results")
    help = "also test against these stored translations, such as 'transformer, large'"
    actions.choices["score"].add_argument("--against", metavar="'SYSTEM, LABEL'", help=help)
    for name in ("train", "trial"):
        add = actions.choices[name].add_argument
        help = "bf16 is faster on a CPU with AMX (default: fp32)"
        add("--precision", choices=("fp32", "bf16"), default="fp32", help=help)
        add("--set", nargs="*", default=[], metavar="OPTION=VALUE", help="such as dropout=0.1")
    actions.add_parser("card")
    for name in ("publish", "card"):
        actions.choices[name].add_argument("--model", type=Path, metavar="DIR")
    for action in actions.choices.values():
        action.add_argument("--pair", default="en-de", help="such as en-fr (default: en-de)")
        action.add_argument("--out", type=Path, default=MODELS / "out", metavar="DIR")
    args = parser.parse_args()
    if getattr(args, "set", None) and not args.label:
        args.label = " ".join(args.set)
    if getattr(args, "model", "") is None:
        args.model = MODELS / ("model" if args.pair == "en-de" else f"model-{args.pair}")
    return args


def main() -> None:
    args = parse_args()
    study = Study(args)
    if args.action == "corpus":
        study.corpus(args.folders, dict(args.share), args.subword_model)
    elif args.action in ("score", "lead"):
        getattr(study, args.action)(args.systems)
    elif args.action == "card":
        study.card(results.load().get(f"model/{args.pair}"))
    else:
        for system in args.systems:
            getattr(study, args.action)(system)  # train, trial, publish


if __name__ == "__main__":
    sys.exit(run_main(main))
