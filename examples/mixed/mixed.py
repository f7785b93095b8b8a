#!/usr/bin/env python3
"""English to German, four kinds of text: the corpus, trainings of equal CPU minutes, their scores.

    python examples/mixed/mixed.py corpus [--from DIR] [--test PREF]
    python examples/mixed/mixed.py train gated --cpu-minutes 60
    python examples/mixed/mixed.py score transformer conv gated --cpu-minutes 60
    python examples/mixed/mixed.py speed conv gated --cpu-minutes 60
    python examples/mixed/mixed.py publish gated --cpu-minutes 60

A training that is there resumes, up to more minutes too. All is in --out, the scores and the
published model are beside this file. README.md has the results.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Dict, List, Optional

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "multi30k"))

from study.measures import counted, repeats, tested  # noqa: E402
from study.runs import write_joined  # noqa: E402

from resmlp_mt.checkpoints.averaging import average_checkpoints, final_checkpoints  # noqa: E402
from resmlp_mt.checkpoints.loading import load_checkpoint, save_checkpoint  # noqa: E402
from resmlp_mt.cli.arguments import WHOLE, Parser  # noqa: E402
from resmlp_mt.cli.terminal import run_main  # noqa: E402
from resmlp_mt.decoding.length_penalty import FILE as SEARCH  # noqa: E402
from resmlp_mt.errors import UserError  # noqa: E402
from resmlp_mt.files import make_folder, read_json, write_json  # noqa: E402
from resmlp_mt.provenance import count_parameters, versions  # noqa: E402
from resmlp_mt.text.lines import read_text, sha256_of, write_lines  # noqa: E402
from resmlp_mt.train.log import parse_record, read_curve  # noqa: E402
from resmlp_mt.train.programs import stopping  # noqa: E402
from resmlp_mt.train.recipe import FOLDER as RECIPES  # noqa: E402
from resmlp_mt.train.recipe import load_recipe  # noqa: E402

SOURCE, TARGET = "en", "de"
RECIPE = RECIPES / "mixed.toml"
RESULTS = HERE / "results"
MODEL = HERE / "model"
EVERYDAY = HERE / "everyday"  # a hundred sentences that are not in the corpus
READ = 30  # of them stand in the card of the model
# architectures by the name of the system
SYSTEMS = {
    "transformer": "transformer",
    "conv": "resmlp_mt_conv_6",
    "gated": "resmlp_mt_gated_6",
    "toeplitz": "resmlp_mt_toeplitz_6",
    "resmlp": "resmlp_mt_6",
    # on text that has pairs of sentences in one line, too
    "transformer-longer": "transformer",
    "conv-longer": "resmlp_mt_conv_6",
    "gated-longer": "resmlp_mt_gated_6",
    # the same, whose learning rate falls to 0 over the last tenth of the updates
    "transformer-longer-decayed": "transformer",
    "gated-longer-decayed": "resmlp_mt_gated_6",
}
DECAYED, ENDLESS = "-decayed", 9  # parts of the training before the one in which it falls
EDGES = (5, 10, 20, 30)  # words of the longest source of a bucket, all test sets together
LINES, TOKENS = 500, 4096  # whose speed is measured; source subwords of a batch
STAGE = 500  # updates between two looks at the CPU minutes; the recipe saves twice as often


def resmlp_mt(*words) -> None:
    """Run a subcommand of ``resmlp-mt``.

    Raises:
        UserError: if it fails. It has said why.
    """
    command = [sys.executable, "-m", "resmlp_mt", *map(str, words)]
    process = subprocess.Popen(command)
    with stopping(process):
        status = process.wait()
    if status:
        raise UserError(f"resmlp-mt {words[0]} failed")


def sets(folder: Path, split: str) -> Dict[str, Path]:
    """The held-out sets ``SPLIT.NAME.LANG[.gz]`` of a folder: their prefixes by name."""
    names = {p.name.removesuffix(".gz") for p in folder.glob(f"{split}.*.{SOURCE}*")}
    found = sorted(name.removesuffix(f".{SOURCE}") for name in names)
    return {name.removeprefix(f"{split}."): folder / name for name in found}


def side(prefix: Path, language: str) -> List[str]:
    """The lines of ``PREFIX.LANG``, plain or ``.gz``."""
    plain = Path(f"{prefix}.{language}")
    return read_text(plain if plain.exists() else Path(f"{plain}.gz"))


def by_twos(lines: List[str]) -> List[str]:
    """Two lines in one; a last one without a partner stays alone."""
    return [" ".join(lines[start : start + 2]) for start in range(0, len(lines), 2)]


def corpus(args: argparse.Namespace) -> None:
    """``OUT/data``, the test sets as ``OUT/text/test.NAME.LANG``, the lines of those of the corpus
    two by two as ``OUT/text/pairs.NAME.LANG``, and ``OUT/longer``."""
    if args.folder is None:
        os.environ["MTDATA_RECIPES"] = str(HERE)
        recipe = ("--recipe", "mixed_en_de", "--limit", 200000, "--vocab-size", 8000)
        resmlp_mt("prepare", *recipe, "--out", args.out / "data")
        tests = {"newstest2014": args.out / "data" / "text" / "test"}
    else:
        valid, tests = sets(args.folder, "valid"), sets(args.folder, "test")
        if not valid or not tests:
            raise UserError(
                f"--from {args.folder}: needs train.{SOURCE}, valid.NAME.{SOURCE}, "
                f"test.NAME.{SOURCE}, and the same in {TARGET}, each plain or .gz"
            )
    further: Dict[str, Path] = {}
    for prefix in args.test:
        name = prefix.name.partition(".")[0]
        if name in (EVERYDAY.name, *tests, *further):
            raise UserError(f"--test {prefix}: there is a test set {name} already: rename the file")
        further[name] = prefix
    text = args.out / "text"
    make_folder(text)
    for language in (SOURCE, TARGET):
        for name, prefix in {**tests, **further}.items():
            lines = side(prefix, language)
            write_lines(text / f"test.{name}.{language}", lines)
            if name not in further:
                write_lines(text / f"pairs.{name}.{language}", by_twos(lines))
        if args.folder is not None:
            lines = [line for prefix in valid.values() for line in side(prefix, language)]
            write_lines(text / f"valid.{language}", lines)
    if args.folder is not None:
        resmlp_mt(
            *("prepare", "-s", SOURCE, "-t", TARGET, "--vocab-size", 8000),
            *("--trainpref", args.folder / "train", "--validpref", text / "valid"),
            *("--testpref", ",".join(str(text / f"test.{name}") for name in tests)),
            *("--out", args.out / "data"),
        )
    longer_lines(args.out)


def longer_lines(out: Path) -> None:
    """``OUT/longer``: the data with a quarter as many lines again, each made of two of its own."""
    text, longer = out / "data" / "text", out / "text" / "longer"
    source, target = (text / f"train.{language}" for language in (SOURCE, TARGET))
    write_joined((source, target), longer, most=2, share=0.25)
    resmlp_mt(
        *("prepare", "-s", SOURCE, "-t", TARGET, "--trainpref", longer),
        *("--validpref", text / "valid", "--out", out / "longer"),
        *("--subword-model", out / "data" / "data-bin" / "spm.model"),
    )


def data_bin(args: argparse.Namespace, system: str) -> Path:
    return args.out / ("longer" if "-longer" in system else "data") / "data-bin"


def run_folder(args: argparse.Namespace, system: str) -> Path:
    """A training without an end has one folder, one that ends has one for each budget."""
    budget = f".{args.cpu_minutes:g}" if system.endswith(DECAYED) else ""
    return args.out / f"{system}.{args.seed}{budget}"


def progress(run: Path) -> List[dict]:
    """Of each stage that is over: ``updates``, and ``cpu_minutes`` from the beginning."""
    path = run / "progress.json"
    return read_json(path) if path.exists() else []


def stage_within(args: argparse.Namespace, system: str, share: float = 1) -> dict:
    """The last stage of a system within a share of ``--cpu-minutes``.

    Raises:
        UserError: if there is none.
    """
    run, minutes = run_folder(args, system), share * args.cpu_minutes
    stages = [s for s in progress(run) if s["cpu_minutes"] <= minutes]
    if not stages:
        raise UserError(
            f"{run}: no stage within {minutes:g} CPU minutes: train first, or give more"
        )
    return stages[-1]


def train(args: argparse.Namespace) -> None:
    """Each system until the CPU minutes are used up."""
    for system in args.systems:
        if system.endswith(DECAYED):
            decay(args, system)
        else:
            train_stages(args, system, args.cpu_minutes)


def train_stages(args: argparse.Namespace, system: str, cpu_minutes: float) -> None:
    """Stage by stage, until the minutes are used up; each leaves ``model.UPDATES.pt``."""
    run = run_folder(args, system)
    stages = progress(run)
    while not stages or stages[-1]["cpu_minutes"] < cpu_minutes:
        updates = STAGE * (len(stages) + 1)
        minutes = train_until(args, system, updates)
        stages.append({"updates": updates, "cpu_minutes": minutes})
        write_json(run / "progress.json", stages)


def train_until(args: argparse.Namespace, system: str, updates: int, *options) -> float:
    """Train or resume until so many updates, leave ``model.UPDATES.pt``, and return the CPU minutes
    that the folder took from its beginning."""
    run, recipe = run_folder(args, system), load_recipe(str(RECIPE))
    checkpoints = run / "checkpoints"
    resmlp_mt(
        *("train", data_bin(args, system), "--out", checkpoints),
        *("--arch", SYSTEMS[system], "--recipe", RECIPE, "--seed", args.seed),
        *("--precision", "bf16", "--max-tokens", 1024, "--threads", 1),
        *("--max-update", updates, "--", "--cpu", *options),
    )
    paths = final_checkpoints(checkpoints, recipe.average_count, recipe.average_by)
    average_checkpoints(paths, run / f"model.{updates}.pt")
    return read_json(checkpoints / "cost.json")["cpu_minutes"]


def decay(args: argparse.Namespace, system: str) -> None:
    """From where the undecayed system is after nine tenths of the minutes, a ninth as many updates
    again, over which the learning rate falls to 0.

    Raises:
        UserError: for few minutes; if the undecayed system went on, and the checkpoint is gone.
    """
    run, endless = run_folder(args, system), system.removesuffix(DECAYED)
    if progress(run):
        return
    share = ENDLESS / (ENDLESS + 1)
    train_stages(args, endless, share * args.cpu_minutes)
    stage = stage_within(args, endless, share)
    start = stage["updates"]
    end = start + start // ENDLESS // STAGE * STAGE
    if end == start:
        raise UserError(
            f"--cpu-minutes {args.cpu_minutes:g}: {start:,} updates before the learning rate falls "
            f"are less than {ENDLESS * STAGE:,}: give more"
        )
    checkpoints = run_folder(args, endless) / "checkpoints"
    there = list(checkpoints.glob(f"checkpoint_*_{start}.pt"))
    if not there:  # the recipe keeps the last three
        raise UserError(
            f"{checkpoints}: the checkpoint of update {start:,} is gone, because the training went "
            f"on: give more --cpu-minutes than {args.cpu_minutes:g}, or another --out"
        )
    (optimizer,) = load_checkpoint(there[0])["last_optimizer_state"]["param_groups"]
    minutes = train_until(
        *(args, system, end),
        *("--continue-once", there[0], "--reset-lr-scheduler"),
        *("--lr-scheduler", "polynomial_decay", "--lr", optimizer["lr"]),
        *("--warmup-updates", start, "--total-num-update", end),
    )
    minutes += stage["cpu_minutes"]
    write_json(run / "progress.json", [{"updates": end, "cpu_minutes": minutes}])


def translate(
    args: argparse.Namespace, path: Path, prefix: Path, lenpen: float, data: Optional[Path] = None
) -> List[str]:
    """Translations of ``PREFIX.en``, kept in --out, by a checkpoint and its data-bin or by a
    published folder."""
    folder = args.out / "translations" / (path.parent.name if path.is_file() else path.name)
    make_folder(folder)
    output = folder / f"{path.stem}.{prefix.name}.lenpen-{lenpen:g}.{TARGET}"
    if not output.exists():
        resmlp_mt(
            *("translate", "--path", path, *(("--data", data) if data else ())),
            *("--cpu", "--threads", 1, "--truncate"),
            *("--beam", load_recipe(str(RECIPE)).beam, "--lenpen", lenpen),
            *("--input", f"{prefix}.{SOURCE}", "--output", output),
        )
    return read_text(output)


def tests(args: argparse.Namespace) -> Dict[str, Path]:
    """The prefixes of the test sets by name."""
    return {**sets(args.out / "text", "test"), EVERYDAY.name: EVERYDAY}


def scored(hypotheses: List[str], prefix: Path) -> dict:
    """BLEU, chrF, the share of lines that repeat and the words against those of the references."""
    from resmlp_mt.score.sacre import score

    references = side(prefix, TARGET)
    return {**score(hypotheses, references, TARGET), **counted(hypotheses, references)}


def by_length(lines: Dict[str, List[str]], prefixes: Dict[str, Path]) -> List[dict]:
    """BLEU by the words of the source, of all test sets together."""
    from study.by_length import bleu_by_length

    together = [line for name in prefixes for line in lines[name]]
    sources, references = (
        [line for prefix in prefixes.values() for line in side(prefix, language)]
        for language in (SOURCE, TARGET)
    )
    return bleu_by_length(together, references, sources, EDGES, TARGET)


def command(args: argparse.Namespace) -> str:
    return (
        f"python examples/mixed/mixed.py {args.action} {' '.join(args.systems)} "
        f"--cpu-minutes {args.cpu_minutes:g} --seed {args.seed}"
    )


def result_file(args: argparse.Namespace, system: str) -> Path:
    return RESULTS / f"{system}.{args.seed}.{args.cpu_minutes:g}.json"


def passes(log: Path, updates: int) -> float:
    """How often a training had read its text after so many updates."""
    records = map(parse_record, read_text(log))
    inner = [values for kind, values in filter(None, records) if kind == "train_inner"]
    return max(values["update"] for values in inner if values["num_updates"] <= updates)


def letters(line: str) -> str:
    """A line without case, punctuation and spaces."""
    return re.sub(r"[\W_]", "", line.lower())


def score(args: argparse.Namespace) -> None:
    """``results/SYSTEM.SEED.MINUTES.json`` of each system, against each that is named before it."""
    stages = {system: stage_within(args, system) for system in args.systems}
    text, prefixes = args.out / "data" / "text", tests(args)
    valid = text / "valid"
    make_folder(RESULTS)
    references_repeat = {
        name: mean(map(repeats, side(prefix, TARGET))) for name, prefix in prefixes.items()
    }
    trained_on = set(map(letters, side(text / "train", SOURCE)))
    sources_in_training_text = {
        name: sum(letters(line) in trained_on for line in side(prefix, SOURCE))
        for name, prefix in prefixes.items()
    }
    before: Dict[str, Dict[str, List[str]]] = {}
    for system in args.systems:
        stage, run = stages[system], run_folder(args, system)
        model = run / f"model.{stage['updates']}.pt"
        data = data_bin(args, system)
        found = {}
        for lenpen in load_recipe(str(RECIPE)).lenpen:
            found[lenpen] = scored(translate(args, model, valid, lenpen, data), valid)
        lenpen = max(found, key=lambda value: found[value]["bleu"])
        lines = {n: translate(args, model, p, lenpen, data) for n, p in prefixes.items()}
        scores = {name: scored(lines[name], prefix) for name, prefix in prefixes.items()}
        two_in_a_line = {}
        for name, prefix in sets(args.out / "text", "pairs").items():
            together = scored(translate(args, model, prefix, lenpen, data), prefix)
            alone = scored(by_twos(lines[name]), prefix)
            two_in_a_line[name] = {"alone": alone, "together": together}
        against = {
            other: {
                name: tested(baseline[name], lines[name], side(prefix, TARGET))
                for name, prefix in prefixes.items()
            }
            for other, baseline in before.items()
        }
        options = read_json(run / "checkpoints" / "train.json")["settings"]
        del options["--save-dir"]  # says nothing elsewhere
        log = run / "checkpoints" / "train.log"
        curve = read_curve(log)["valid"]
        curve = [point for point in curve if point[0] <= stage["updates"]]
        result = {
            "system": system,
            "command": command(args),
            "versions": versions(),
            "seed": args.seed,
            "arch": SYSTEMS[system],
            "train_options": options,
            "parameters": count_parameters(load_checkpoint(model)["model"]),
            "budget_minutes": args.cpu_minutes,
            **stage,
            "passes": passes(log, stage["updates"]),
            "lenpen": lenpen,
            "valid_curve": curve,
            "scores": {"valid": found[lenpen], **scores},
            "by_length": by_length(lines, prefixes),
            "references_repeat": references_repeat,
            "sources_in_training_text": sources_in_training_text,
            "two_in_a_line": two_in_a_line,
            "against": against,
        }
        write_json(result_file(args, system), result)
        before[system] = lines


def speed(args: argparse.Namespace) -> None:
    """``results/speed.json``: the systems in turn translate the first lines of each test set of the
    corpus, from text to text. Ratios are of the times of the first system."""
    import torch

    from resmlp_mt.benchmark.report import machine
    from resmlp_mt.benchmark.timing import alternate, ratio
    from resmlp_mt.translate.translator import SearchOptions, Translator

    torch.set_num_threads(args.threads)
    systems, updates = {}, {}
    for system in args.systems:
        updates[system] = stage_within(args, system)["updates"]
        model = run_folder(args, system) / f"model.{updates[system]}.pt"
        options = SearchOptions(
            (model,), data_bin(args, system), lenpen=1.0, max_tokens=TOKENS, cpu=True
        )
        systems[system] = Translator(options, torch.device("cpu"))
    tests = {}
    for name in sets(args.out / "text", "pairs"):
        lines = side(args.out / "text" / f"test.{name}", SOURCE)[:LINES]
        runs = {system: partial(tokens_written, each, lines) for system, each in systems.items()}
        written = {system: run() for system, run in runs.items()}
        seconds = alternate(runs, 0, args.repeats)
        first = seconds[args.systems[0]]
        tests[name] = {
            system: {
                "seconds": taken,
                "tokens": written[system],
                "sentences_per_second": len(lines) / median(taken),
                "speed": ratio(first, taken)._asdict(),
            }
            for system, taken in seconds.items()
        }
    result = {
        "command": f"{command(args)} --threads {args.threads} --repeats {args.repeats}",
        "versions": versions(),
        "machine": machine(argparse.Namespace(dtype="float32", device="cpu")),
        "updates": updates,
        "lines": LINES,
        "max_tokens": TOKENS,
        "tests": tests,
    }
    make_folder(RESULTS)
    write_json(RESULTS / "speed.json", result)


def tokens_written(translator, lines: List[str]) -> int:
    """Translate *lines*, and count what the best hypotheses have, ends included."""
    from resmlp_mt.translate.translator import by_length

    sources = [translator.encode(line).split()[: translator.positions - 1] for line in lines]
    batches = by_length(range(len(sources)), list(map(len, sources)), TOKENS)
    found = (translator.search([sources[i] for i in batch]) for batch in batches)
    return sum(len(one[0]["tokens"]) for hypotheses in found for one in hypotheses)


def publish(args: argparse.Namespace) -> None:
    """``model/``: the weights of a scored system in float16, and all else that translates. Its own
    scores are in ``results/model.json``."""
    (system,) = args.systems
    path = result_file(args, system)
    if not path.exists():
        raise UserError(f"{path}: no such file: score {system} first")
    result, stage, prefixes = read_json(path), stage_within(args, system), tests(args)
    make_folder(MODEL)
    resmlp_mt(
        *("average", "--inputs", run_folder(args, system) / f"model.{stage['updates']}.pt"),
        *("--float16", "--output", MODEL / "model.pt"),
    )
    forget_folders(MODEL / "model.pt")
    write_json(MODEL / SEARCH, {"lenpen": result["lenpen"]})
    for name in (f"dict.{SOURCE}.txt", f"dict.{TARGET}.txt", "spm.model", "text.json"):
        shutil.copyfile(data_bin(args, system) / name, MODEL / name)
    shutil.rmtree(args.out / "translations" / MODEL.name, ignore_errors=True)
    lines = {n: translate(args, MODEL, p, result["lenpen"]) for n, p in prefixes.items()}
    files = [path for path in sorted(MODEL.iterdir()) if path.suffix != ".md"]
    published = {
        "command": command(args),
        "versions": versions(),
        **{key: result[key] for key in ("system", "seed", "parameters", "updates", "cpu_minutes")},
        "lenpen": result["lenpen"],
        "files": {p.name: {"bytes": p.stat().st_size, "sha256": sha256_of(p)} for p in files},
        "scores": {name: scored(lines[name], prefix) for name, prefix in prefixes.items()},
        "sentences": list(zip(side(EVERYDAY, SOURCE), lines[EVERYDAY.name]))[:READ],
    }
    write_json(RESULTS / "model.json", published)


def forget_folders(path: Path) -> None:
    """fairseq writes the folders of the training into a checkpoint. They are of one machine."""
    state = load_checkpoint(path)
    for part in ("common", "checkpoint", "model", "task"):
        options = state["cfg"][part]
        options = options if isinstance(options, dict) else vars(options)
        for name in ("user_dir", "save_dir", "continue_once", "data"):
            if name in options:
                options[name] = None
    save_checkpoint(state, path)


def parse_args() -> argparse.Namespace:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    making = actions.add_parser("corpus", help="prepare the corpus, downloaded by mtdata or given")
    making.add_argument("--from", type=Path, dest="folder", metavar="DIR")
    making.add_argument(
        "--test", type=Path, nargs="*", default=[], metavar="PREF", help="further test sets"
    )
    for name, systems in (("train", "+"), ("score", "+"), ("speed", "+"), ("publish", 1)):
        action = actions.add_parser(name)
        action.add_argument("systems", nargs=systems, choices=list(SYSTEMS), metavar="SYSTEM")
        action.add_argument("--cpu-minutes", type=float, required=True, metavar="N")
        action.add_argument("--seed", type=int, default=1)
    timing = actions.choices["speed"].add_argument
    timing("--threads", **WHOLE, default=2, help="CPU threads")
    timing("--repeats", **WHOLE, default=5, help="timed runs of each system")
    for action in actions.choices.values():
        action.add_argument("--out", type=Path, default=HERE / "out", metavar="DIR")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    if args.action != "corpus" and not args.cpu_minutes > 0:
        raise UserError(f"--cpu-minutes {args.cpu_minutes:g}: must be above 0")
    run = {"corpus": corpus, "train": train, "score": score, "speed": speed, "publish": publish}
    run[args.action](args)


if __name__ == "__main__":
    sys.exit(run_main(main))
