"""Sequence-level distillation (Kim and Rush, 2016): a teacher's beam outputs as training targets.

The source side of a training text stays as it is. Its target side is what the teacher makes of it:
the best hypothesis of the beam, or with interpolation (their section 3.3) the one in the beam that
is nearest to the reference. A student is trained on the result like on any parallel text.
"""

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

from sacrebleu.metrics import BLEU

from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json, write_json
from resmlp_mt.provenance import versions
from resmlp_mt.score.sacre import score
from resmlp_mt.text.lines import (
    language_of,
    one_line,
    read_parallel,
    sha256_of,
    write_lines,
)
from resmlp_mt.translate.beams import Beams, check_same, digest, read_manifest
from resmlp_mt.translate.search import Search
from resmlp_mt.translate.teacher import Hypothesis

# what becomes of a line whose hypothesis is not fit to learn from
FAILURES = ("reference", "drop", "keep")
SHOWN = 5  # line numbers in the report of each kind of failure


@dataclass(frozen=True)
class Targets:
    """How targets are made of hypotheses.

    Attributes:
        interpolate: take the hypothesis nearest to the reference, by sentence BLEU, in place of
            the best-scored one.
        keep_original: add the original pairs behind the teacher's.
        failures: one of :data:`FAILURES`.
    """

    interpolate: bool = False
    keep_original: bool = False
    failures: str = FAILURES[0]


class Failure(NamedTuple):
    """A line (from 1), what is wrong, its source, and what the teacher made of it."""

    line: int
    kind: str
    source: str
    output: str


def distill(
    search: Search,
    source: Path,
    target: Path,
    prefix: Path,
    targets: Targets,
    beams: Optional[Path] = None,
    processes: int = 1,
) -> dict:
    """Make ``PREFIX.SRC`` and ``PREFIX.TGT``, with ``PREFIX.json`` and, where there are failures,
    ``PREFIX.failures.tsv`` beside them; what was made before is not made again.

    Args:
        search: teacher and options.
        source, target: training text, plain or ``.gz``.
        prefix: folder and first part of the files' names.
        targets: how targets are made.
        beams: folder for the hypotheses, default ``PREFIX.beams``; another prefix with other
            *targets* may use the same.
        processes: that translate.

    Returns:
        the contents of ``PREFIX.json``.

    Raises:
        UserError: bad input; a place that cannot be written, or holds other files of these names.
    """
    pairs = read_parallel(source, target)
    identity = search.identity()
    languages = identity["languages"]
    _check_direction(source, target, languages)
    sides = [list(side) for side in zip(*pairs)]
    options = {**identity, **asdict(targets), "corpus": [digest(side) for side in sides]}
    outputs = [Path(f"{prefix}.{language}") for language in languages]
    manifest = Path(f"{prefix}.json")
    made = _made_before(manifest, outputs, options)
    if made is not None:
        return made
    hypotheses = Beams(beams or Path(f"{prefix}.beams"), search, identity, sides[0])
    hypotheses.complete(processes)

    best, chosen = [], []
    for beam, reference in zip(hypotheses, sides[1]):
        best.append(beam[0])
        chosen.append(nearest(beam, reference) if targets.interpolate else beam[0])
    texts, failures = training_pairs(pairs, chosen, targets)
    write_json(manifest, {"options": options})  # what is half written from here on is ours
    _write_failures(Path(f"{prefix}.failures.tsv"), failures)
    for path, lines in zip(outputs, zip(*texts)):
        write_lines(path, lines)
    results = {
        "lines": len(pairs),
        "pairs": len(texts),
        "original_pairs": len(pairs) if targets.keep_original else 0,
        **_count(failures),
        "teacher": {
            "files": [str(path) for path in search.checkpoints],
            # an output that is not there counts as an empty one
            **score([hypothesis.text for hypothesis in best], sides[1]),
        },
        "files": {path.name: sha256_of(path) for path in outputs},
        "cost": hypotheses.cost(),
        "versions": versions(),
    }
    if targets.interpolate:
        results["interpolated"] = {
            "not_the_best_scored": sum(a != b for a, b in zip(best, chosen)),
            "by": str(_sentence_bleu().get_signature()),
            **score([hypothesis.text for hypothesis in chosen], sides[1]),
        }
    write_json(manifest, {"options": options, "results": results})
    return read_json(manifest)


def nearest(beam: List[Hypothesis], reference: str) -> Hypothesis:
    """The hypothesis with the highest sentence BLEU (smoothed); of several, the best-scored.

    One with something wrong is taken only if there is no other.
    """
    candidates = [hypothesis for hypothesis in beam if hypothesis.wrong is None] or beam
    metric = _sentence_bleu()
    return max(candidates, key=lambda h: metric.sentence_score(h.text, [reference]).score)


def _sentence_bleu() -> BLEU:
    metric = BLEU(effective_order=True)
    metric.sentence_score("a", ["a"])  # it has no signature before it has scored something
    return metric


def training_pairs(
    pairs: List[Tuple[str, str]], chosen: List[Hypothesis], targets: Targets
) -> Tuple[List[Tuple[str, str]], List[Failure]]:
    """
    Args:
        pairs: the original text.
        chosen: a hypothesis for each pair.

    Returns:
        the pairs to train on, and what failed.

    Raises:
        UserError: if nothing is left.
    """
    texts, failures = [], []
    for number, ((source, reference), hypothesis) in enumerate(zip(pairs, chosen), 1):
        text = hypothesis.text
        if hypothesis.wrong is not None:
            failures.append(Failure(number, hypothesis.wrong, source, text))
            if targets.failures == "drop":
                continue
            if targets.failures == "reference":
                text = reference
        texts.append((source, text))
    if not texts:
        kinds = ", ".join(f"{kind} {n}" for kind, n in Counter(f.kind for f in failures).items())
        raise UserError(f"the teacher failed on every line ({kinds}): nothing is left to train on")
    return texts + (list(pairs) if targets.keep_original else []), failures


def _check_direction(source: Path, target: Path, languages: List[str]) -> None:
    named = [language_of(path) for path in (source, target)]
    if named != languages and named == languages[::-1]:
        raise UserError(
            f"--source {source} --target {target}: the teacher translates {'-'.join(languages)}, "
            "not the other way round"
        )


def _made_before(manifest: Path, outputs: List[Path], options: dict) -> Optional[dict]:
    """What was made before with these options, or None; then the place can be written.

    Raises:
        UserError: if the place cannot be written, or has results of other options or other files.
    """
    made = read_manifest(manifest) if manifest.exists() else None
    results = made and made.get("results")
    if results:
        check_same(manifest, made["options"], options)
    there = [path for path in outputs if path.exists()]
    for path in there:
        if made is None or results and sha256_of(path) != results["files"][path.name]:
            raise UserError(
                f"{path} is there already, and not as this script made it: choose another "
                "--output-prefix or move it away"
            )
    if results and there == outputs:
        return made
    try:
        manifest.parent.mkdir(parents=True, exist_ok=True)
        trial = Path(f"{manifest}.partial")
        trial.touch()
        trial.unlink()
    except OSError as error:
        raise UserError(
            f"{manifest.parent}: {error.strerror}: choose a folder that can be written"
        ) from None
    return None


def _count(failures: List[Failure]) -> dict:
    lines: Dict[str, List[int]] = {}
    for failure in failures:
        lines.setdefault(failure.kind, []).append(failure.line)
    return {
        "failures": {kind: len(numbers) for kind, numbers in lines.items()},
        "failures_first_lines": {kind: numbers[:SHOWN] for kind, numbers in lines.items()},
    }


def _write_failures(path: Path, failures: List[Failure]) -> None:
    if not failures:
        path.unlink(missing_ok=True)  # of a run with other options
        return
    rows = [(str(f.line), f.kind, one_line(f.source), one_line(f.output)) for f in failures]
    write_lines(path, ("\t".join(row) for row in [("line", "kind", "source", "output"), *rows]))
