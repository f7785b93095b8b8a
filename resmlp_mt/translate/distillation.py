"""Sequence-level distillation (Kim and Rush, 2016): a teacher's beam outputs as training targets.

The source side of a training text stays as it is. Its target side is what the teacher makes of it:
the best hypothesis of the beam, or with interpolation (their section 3.3) the one in the beam that
is nearest to the reference. A student is trained on the result like on any parallel text.
"""

import random
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.metrics.base import Metric
from tqdm import tqdm

from resmlp_mt.errors import UserError
from resmlp_mt.files import check_options, make_folder, read_json, whole_file, write_json
from resmlp_mt.processes import Workers, usable_cores
from resmlp_mt.provenance import versions
from resmlp_mt.text.lines import language_of, one_line, sha256_of
from resmlp_mt.translate.driver import SearchOptions, search
from resmlp_mt.translate.parts import Parts, Text, read_chunk
from resmlp_mt.translate.translator import Hypothesis

# what becomes of a line whose hypothesis is not fit to learn from
FAILURES = ("reference", "drop", "keep")
FATES = dict(zip(FAILURES, ("replaced by the reference", "left out", "kept")))
SHOWN = 5  # line numbers in the report of each kind of failure
SAMPLE, SEED = 2000, 1  # lines that are scored


@dataclass(frozen=True)
class Targets:
    """How targets are made of hypotheses.

    Attributes:
        interpolate: take the hypothesis nearest to the reference, by sentence BLEU, in place of
            the best-scored one.
        keep_original: add the original pairs behind those of the teacher.
        failures: one of :data:`FAILURES`.
    """

    interpolate: bool = False
    keep_original: bool = False
    failures: str = FAILURES[0]


def distill(
    options: SearchOptions,
    source: Path,
    target: Path,
    prefix: Path,
    targets: Targets = Targets(),
    beams: Optional[Path] = None,
) -> dict:
    """Make ``PREFIX.SRC`` and ``PREFIX.TGT``, with ``PREFIX.json`` and, where there are failures,
    ``PREFIX.failures.tsv`` beside them; what was made before is not made again.

    Args:
        options: teacher and search; all hypotheses of the beam are kept.
        source, target: training text, plain or ``.gz``. It is translated as it stands there.
        prefix: folder and first part of the names of the files.
        targets: how targets are made.
        beams: folder for the hypotheses, default ``PREFIX.beams``; another prefix with other
            *targets* may use the same.

    Returns:
        the contents of ``PREFIX.json``.

    Raises:
        UserError: bad input; a place that cannot be written, or holds other files of these names.
    """
    options = replace(options, nbest=options.beam)
    languages = _languages(options, source, target)
    outputs = [Path(f"{prefix}.{language}") for language in languages]
    manifest = Path(f"{prefix}.json")
    texts = [Text(path) for path in (source, target)]
    if texts[0].lines != texts[1].lines:
        raise UserError(
            f"{source} has {texts[0].lines} lines but {target} has {texts[1].lines}: "
            "both sides of a corpus need the same number"
        )
    identity = options.identity()
    made_with = {**identity, **asdict(targets), "corpus": [text.digest for text in texts]}
    metrics = _metrics(languages[1])  # before hours of work: its tokenizer may be missing
    make_folder(manifest.parent)
    made = _made_before(manifest, outputs, made_with)
    if made is not None:
        return made
    with Parts(beams or Path(f"{prefix}.beams"), identity, texts[0]) as parts:
        searched = search(options, parts, "skip")
        write_json(manifest, {"options": made_with})  # what is written from here on is ours
        failures = Path(f"{prefix}.failures.tsv")
        results = _write(parts, texts, (*outputs, failures), targets, metrics)
        results["searched"] = searched
        results["files"] = {path.name: sha256_of(path) for path in outputs}
        results["versions"] = versions()
        write_json(manifest, {"options": made_with, "results": results})
    return read_json(manifest)


class Choice(NamedTuple):
    """Of a line: the hypothesis with the best score, and the one that is taken."""

    best: Hypothesis
    taken: Hypothesis


def nearest(beam: List[Hypothesis], reference: str, metric: BLEU) -> Hypothesis:
    """The hypothesis with the highest sentence BLEU; of several, the best-scored.

    One with something wrong is taken only if there is no other.
    """
    candidates = [hypothesis for hypothesis in beam if hypothesis.wrong is None] or beam
    return max(candidates, key=lambda h: metric.sentence_score(h.text, [reference]).score)


def _choose(chunk: Tuple[Path, List[str], Optional[BLEU]]) -> List[Choice]:
    """In a worker: what to take of a chunk of beams with these references, the nearest by a metric
    or the best-scored."""
    path, references, metric = chunk
    beams = read_chunk(path, len(references))
    return [
        Choice(beam[0], nearest(beam, reference, metric) if metric else beam[0])
        for beam, reference in zip(beams, references)
    ]


def _choices(parts: Parts, references: Text, metric: Optional[BLEU]) -> Iterator[Choice]:
    chunks = (
        (parts.path(number), lines, metric)
        for number, lines in references.chunks(references.numbers)
    )
    # sentence BLEU of all beams takes one process hours for millions of lines
    method = "fork" if metric and len(references.numbers) > 1 else "here"
    with Workers(usable_cores(), int, method=method) as workers:
        for choices in workers.map(_choose, chunks):
            yield from choices


def _write(
    parts: Parts,
    texts: Sequence[Text],
    paths: Sequence[Path],
    targets: Targets,
    metrics: Sequence[Metric],
) -> dict:
    """Write both sides of the training text, and the list of failures if there are any."""
    lines, pairs, changed = texts[0].lines, 0, 0
    sample = set(random.Random(SEED).sample(range(lines), min(lines, SAMPLE)))
    *metrics, by_sentence = metrics
    if not targets.interpolate:
        by_sentence = None
    references: List[str] = []
    scored: List[Choice] = []
    failed: dict = {}  # line numbers by kind
    choices = tqdm(
        zip(*texts, _choices(parts, texts[1], by_sentence), strict=True),
        total=lines,
        desc="choose",
        unit=" lines",
        mininterval=1,
        dynamic_ncols=True,
    )
    with ExitStack() as open_files:
        files = []
        for path in paths:
            temporary = open_files.enter_context(whole_file(path))
            files.append(
                open_files.enter_context(open(temporary, "w", encoding="utf-8", newline="\n"))
            )
        print("line", "kind", "source", "output", sep="\t", file=files[2])
        for number, (source, reference, choice) in enumerate(choices, 1):
            if number - 1 in sample:
                references.append(reference)
                scored.append(choice)
            changed += choice.taken != choice.best
            text, wrong = choice.taken.text, choice.taken.wrong
            if wrong is not None:
                failed.setdefault(wrong, []).append(number)
                print(number, wrong, one_line(source), one_line(text), sep="\t", file=files[2])
                if targets.failures == "drop":
                    continue
                if targets.failures == "reference":
                    text = reference
            pairs += 1
            print(source, file=files[0])
            print(text, file=files[1])
        if not pairs:
            kinds = ", ".join(f"{kind} {len(numbers)}" for kind, numbers in failed.items())
            raise UserError(
                f"the teacher failed on every line ({kinds}): nothing is left to train on"
            )
        if targets.keep_original:
            for pair in zip(*texts):
                for line, file in zip(pair, files):
                    print(line, file=file)
    if not failed:
        paths[2].unlink()
    results = {
        "lines": lines,
        "pairs": pairs + (lines if targets.keep_original else 0),
        "original_pairs": lines if targets.keep_original else 0,
        "failures": {kind: len(numbers) for kind, numbers in failed.items()},
        "failures_first_lines": {kind: numbers[:SHOWN] for kind, numbers in failed.items()},
        "scored_lines": len(scored),
        # an output that is not there counts as an empty one
        "teacher": _score(metrics, [choice.best.text for choice in scored], references),
    }
    if targets.interpolate:
        results["interpolated"] = {
            "not_the_best_scored": changed,
            **_score(metrics, [choice.taken.text for choice in scored], references),
        }
    return results


def _languages(options: SearchOptions, source: Path, target: Path) -> List[str]:
    settings, named = options.text_settings(), [language_of(source), language_of(target)]
    languages = [settings.source_lang, settings.target_lang]
    if all(languages):
        if named == languages[::-1] != languages:
            raise UserError(
                f"--source {source} --target {target}: the data is {'-'.join(languages)}, not the "
                "other way round"
            )
        return languages
    if not all(named) or named[0] == named[1]:
        raise UserError(
            f"--source {source} --target {target}: name the files by their languages, as in "
            "train.en and train.de"
        )
    return named


def _metrics(language: str) -> List[Metric]:
    """BLEU and chrF of texts, and BLEU of sentences."""
    try:
        by_sentence = BLEU(trg_lang=language, effective_order=True)
        return [BLEU(trg_lang=language), CHRF(), by_sentence]
    except RuntimeError as error:  # a tokenizer that is not installed
        raise UserError(f"sacreBLEU for {language}: {' '.join(str(error).split())}") from None


def _score(metrics: Sequence[Metric], hypotheses: List[str], references: List[str]) -> dict:
    found = {}
    for name, metric in zip(("bleu", "chrf"), metrics):
        found[name] = round(metric.corpus_score(hypotheses, [references]).score, 2)
        found[f"{name}_signature"] = str(metric.get_signature())
    return found


def _made_before(manifest: Path, outputs: Sequence[Path], options: dict) -> Optional[dict]:
    """What was made before with these options, or None.

    Raises:
        UserError: if results of other options are there, or other files.
    """
    made = read_json(manifest) if manifest.exists() else {}
    if manifest.exists() and not (isinstance(made, dict) and "options" in made):
        raise UserError(f"{manifest} is another program's file: choose another --out or move it")
    results = made.get("results")
    if results:
        check_options(
            f"{manifest}: results", made["options"], options, "choose another place or delete them"
        )
    there = [path for path in outputs if path.exists()]
    for path in there:
        if not made or results and sha256_of(path) != results["files"][path.name]:
            raise UserError(
                f"{path} is there already, and is not what this command made: choose another --out "
                "or move it away"
            )
    return made if results and len(there) == len(outputs) else None


def report(made: dict) -> str:
    """What *made*, from :func:`distill`, says, for the terminal."""
    options, results = made["options"], made["results"]
    searched, lines = results["searched"], results["lines"]
    said = [f"{searched['sentences']} sentences translated in {searched['seconds']:.1f} s"]
    scored = {"the best of the teacher": results["teacher"]}
    if "interpolated" in results:
        scored["nearest in the beam"] = results["interpolated"]
    for name, scores in scored.items():
        said.append(
            f"{name} against the references: BLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f} "
            f"({results['scored_lines']} lines, drawn at random)"
        )
    if "interpolated" in results:
        changed = results["interpolated"]["not_the_best_scored"]
        said.append(f"another hypothesis than the best-scored one: {changed} lines")
    said.append(f"signature: {results['teacher']['bleu_signature']}")
    failed = sum(results["failures"].values())
    said.append(f"failures: {failed} of {lines}" + (":" if failed else ""))
    for kind, count in results["failures"].items():
        first = results["failures_first_lines"][kind]
        numbers = ", ".join(map(str, first)) + (" ..." if count > len(first) else "")
        said.append(f"    {kind}: {count} (line {numbers})")
    if failed:
        said.append(f"    {FATES[options['failures']]}; all are in the file of failures")
    own = results["pairs"] - results["original_pairs"]
    parts = f"{own} with targets of the teacher, {results['original_pairs']} original"
    said.append(f"{', '.join(results['files'])}: {results['pairs']} pairs ({parts})")
    return "\n".join(said)
