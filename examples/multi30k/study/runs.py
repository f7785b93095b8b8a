"""The runs of the study: each row of the plan goes through ``resmlp-mt run`` to a result file."""

import fnmatch
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import List, Sequence

from fetch import fetch

from resmlp_mt.errors import UserError
from resmlp_mt.files import make_folder, read_json, write_json
from resmlp_mt.text.lines import read_parallel, write_lines
from resmlp_mt.train.programs import stopping
from study.plan import TESTS, VOCABULARY, Row, rows
from study.result_files import HERE

AVERAGE, BEAM = 3, 4
# what resmlp-mt run calls its precision, for a row of another one than float32
PRECISIONS = {"en-de.small.toeplitz-8.1": ("bf16-products", "medium")}
# whose translations the students learn: of Table 5, English to German, seed 1
TEACHERS = ("table5.en-de.transformer-3.1", "table5.en-de.toeplitz-3.1")


def corpus_folder(language: str) -> Path:
    """Multi30k in ``$MULTI30K``, or fetched into ``corpus`` beside the tutorial.

    Raises:
        UserError: if there is no such folder.
    """
    given = os.environ.get("MULTI30K")
    if not given:
        folder = HERE.parent / "corpus"
        fetch(folder, ("en", language))
        return folder
    if not Path(given).is_dir():
        raise UserError(f"MULTI30K={given}: no such folder: unset it to fetch the corpus")
    return Path(given)


def text_file(name: str, language: str, other: str = "de") -> Path:
    """One side of a text of the corpus, such as ``val``; *other* is the target language."""
    folder = corpus_folder(other if language == "en" else language)
    plain = folder / f"{name}.{language}"
    return plain if plain.exists() else plain.with_name(f"{plain.name}.gz")


def recipe(row: Row) -> str:
    """The recipe of the row, as ``resmlp-mt run --recipe FILE`` reads it."""
    name, options = "", {"keep-last-epochs": AVERAGE, "log-format": "json", "log-interval": 20}
    for word in row.train_options:
        if word.startswith("--"):
            name = word[2:]
            options[name] = True
        else:
            options[name] = word
    head = {
        "max-update": row.updates,
        "tokens": int(options.pop("max-tokens")),
        "vocab-size": VOCABULARY,
        "average-by": "epoch",
        "average-count": AVERAGE,
        "beam": BEAM,
        "lenpen": list(row.lenpen),
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in head.items()]
    lines += ["", "[options.all]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in options.items()]
    return "\n".join([*lines, "", "[options.other]", ""])


def resmlp_mt(*words) -> None:
    """Run a subcommand of ``resmlp-mt``; its last line is the error where it fails.

    Raises:
        UserError: if it fails.
    """
    command = [sys.executable, "-m", "resmlp_mt", *map(str, words)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace")
    with stopping(process):
        _, said = process.communicate()
    if process.returncode:
        said = said.strip().splitlines() or [f"exit status {process.returncode}"]
        raise UserError(said[-1].partition("error: ")[2] or said[-1])


def write_joined(sides: Sequence[Path], prefix: Path, most: int, share: float) -> None:
    """A text and, behind it, *share* as many pairs, each made of 2 to *most* of its own."""
    pairs, draw = read_parallel(*sides), random.Random(1)
    size = len(pairs)
    for _ in range(int(share * size)):
        chosen = draw.sample(range(size), draw.randint(2, most))
        pairs.append(tuple(" ".join(side) for side in zip(*(pairs[n] for n in chosen))))
    for path, side in zip(sides, zip(*pairs)):
        write_lines(Path(f"{prefix}{path.suffix}"), side)


def concatenated(out: Path) -> Path:
    """The text and, behind it, half as many pairs made of two to four of its own."""
    prefix = out / "text.concatenated" / "train"
    if not prefix.with_name("train.de").exists():
        make_folder(prefix.parent)
        sides = [text_file("train", language) for language in ("en", "de")]
        write_joined(sides, prefix, most=4, share=0.5)
    return prefix


def distilled(out: Path) -> Path:
    """The text with the translations of an ensemble, :data:`TEACHERS`, as its target side.

    Raises:
        UserError: if a teacher is not trained yet.
    """
    models = [out / teacher / "model" / "model.pt" for teacher in TEACHERS]
    for teacher, model in zip(TEACHERS, models):
        if not model.exists():
            raise UserError(f"{model}: no such file: first make it: python -m study run {teacher}")
    prefix = out / "text.distilled" / "train"
    if not prefix.with_name("train.de").exists():
        make_folder(prefix.parent)
        sides = [text_file("train", language) for language in ("en", "de")]
        resmlp_mt(
            *("distill", "--path", ":".join(map(str, models)), "--cpu"),
            *("--data", out / TEACHERS[0] / "model", "--out", prefix),
            *("--source", sides[0], "--target", sides[1]),
        )
    return prefix


# by a row's `text`
TEXTS = {"concatenated": concatenated, "distilled": distilled}


def run_options(row: Row, out: Path) -> List[str]:
    """The words after ``resmlp-mt run`` for a row."""
    corpus = corpus_folder(row.target)
    tests = (
        ",".join(str(corpus / name) for name in TESTS.values()) if row.scored else corpus / "val"
    )
    precision, _ = PRECISIONS.get(row.name, ("fp32", ""))
    words = ["--source-lang", "en", "--target-lang", row.target]
    if row.text == "original":
        words += ["--trainpref", corpus / "train"]
    else:
        # with the pieces of the original text, so that the text is the only difference
        same = row.name.replace(row.text, "table5", 1)
        model = out / same / "model" / "spm.model"
        if not model.exists():
            raise UserError(f"{model}: no such file: first make it: python -m study run {same}")
        words += ["--trainpref", TEXTS[row.text](out), "--subword-model", model]
    words += ["--validpref", corpus / "val", "--testpref", tests]
    words += ["--arch", row.arch, "--recipe", out / f"{row.name}.toml", "--seed", row.seed]
    words += ["--threads", 1, "--precision", precision, "--cpu", "--out", out / row.name]
    return [str(word) for word in words]


def make(row: Row, out: Path, results: Path) -> None:
    """Run one row, here, and write its result file."""
    words = run_options(row, out)
    (out / f"{row.name}.toml").write_text(recipe(row), encoding="utf-8")
    resmlp_mt("run", *words)
    make_folder(results / row.table)
    write_json(results / row.table / f"{row.name}.json", result(row, out))


def result(row: Row, out: Path) -> dict:
    """What ``resmlp-mt run`` left in the folder of a row, as the result file of the row has it."""
    found = read_json(out / row.name / "scores.json")
    _, matmul_precision = PRECISIONS.get(row.name, ("", "highest"))
    head = {"row": row.name, "table": row.table, "label": row.label}
    found["recipe"] |= {"vocab_size": VOCABULARY, "train_options": row.train_options, "threads": 1}
    found["recipe"]["matmul_precision"] = matmul_precision
    names = {"valid": "valid", **(TESTS if row.scored else {})}
    found["scores"] = {name: found["scores"][split] for split, name in names.items()}
    return {**head, "command": f"python -m study run {row.name}", **found}


def state(row: Row, out: Path, results: Path) -> str:
    file = results / row.table / f"{row.name}.json"
    if file.exists():
        read_json(file)  # a file that was cut off is an error, not a result
        return "done"
    return "begun" if (out / row.name).exists() else "to do"


def chosen(patterns: List[str], every: bool) -> List[Row]:
    """
    Raises:
        UserError: if a pattern fits no row.
    """
    known = rows()
    for pattern in patterns:
        if not fnmatch.filter(known, pattern):
            raise UserError(f"{pattern}: no such row: python -m study list shows them")
    return [
        row
        for name, row in known.items()
        if every or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    ]


def run(some: List[Row], out: Path, results: Path, jobs: int) -> None:
    """Make the rows that are not done, *jobs* at a time; the first failure ends all.

    Raises:
        UserError: if a row fails.
    """
    make_folder(out)
    make_folder(results)
    todo = [row for row in some if state(row, out, results) != "done"]
    print(f"{len(some) - len(todo)} of {len(some)} rows are done", flush=True)
    if len(todo) == 1 or jobs == 1:
        for row in todo:
            make(row, out, results)
        return
    for target in {row.target for row in todo}:
        corpus_folder(target)  # fetched once, before the rows are side by side
    waiting, running, failed, start = list(todo), {}, None, time.monotonic()
    try:
        while running or (waiting and not failed):
            while waiting and len(running) < jobs and not failed:
                row = waiting.pop(0)
                command = [sys.executable, str(HERE), "run", row.name, "--jobs", "1"]
                command += ["--out", str(out), "--results", str(results)]
                log = out / f"{row.name}.log"
                with open(log, "a", encoding="utf-8") as file:
                    process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
                running[process] = (row, log)
                print(f"{row.name}: begun (log: {log})", flush=True)
            time.sleep(0.5)
            for process in [p for p in running if p.poll() is not None]:
                row, log = running.pop(process)
                if process.returncode:
                    failed = failed or (row, log)
                ended = "failed" if process.returncode else "done"
                minutes = (time.monotonic() - start) / 60
                print(
                    f"{row.name}: {ended} after {minutes:.1f} minutes, {len(waiting)} to go",
                    flush=True,
                )
    finally:
        for process in running:
            process.terminate()
            process.wait()
    if failed:
        row, log = failed
        last = log.read_text(encoding="utf-8").strip().splitlines()[-1]
        raise UserError(f"{row.name} failed: {last} (its whole output: {log})")
