"""Sequence-level distillation (Kim and Rush, 2016): a teacher's beam outputs as training targets.

The source side of a training text stays as it is. Its target side is what the teacher makes of it:
the best hypothesis of the beam, or with interpolation (their section 3.3) the one in the beam that
is nearest to the reference. A student is trained on the result like on any parallel text.
"""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from sacrebleu.metrics import BLEU
from tqdm import tqdm

from resmlp_mt.checkpoints.loading import load_checkpoint
from resmlp_mt.errors import UserError
from resmlp_mt.files import check_options, make_folder, read_json, read_own, write_json
from resmlp_mt.processes import Workers, usable_cores
from resmlp_mt.provenance import versions
from resmlp_mt.text.bleu import bleu_metric
from resmlp_mt.text.lines import check_same_lines, language_of, one_line, sha256_of, writing
from resmlp_mt.translate.driver import search
from resmlp_mt.translate.parts import Parts, Text, read_chunk
from resmlp_mt.translate.translator import Hypothesis, SearchOptions, source_language

# what becomes of a line whose hypothesis is not fit to learn from, and how a report says so
FAILURES = {"reference": "replaced by the reference", "drop": "left out"}


def distill(
    options: SearchOptions,
    source: Path,
    target: Path,
    prefix: Path,
    interpolate: bool = False,
    failures: str = "reference",
    beams: Optional[Path] = None,
) -> dict:
    """Make ``PREFIX.SRC`` and ``PREFIX.TGT``, with ``PREFIX.json`` and, where there are failures,
    ``PREFIX.failures.tsv`` beside them. What was made before is not made again.

    Args:
        options: teacher and search; all hypotheses of the beam are kept.
        source, target: training text, plain or ``.gz``. It is translated as it stands there.
        prefix: folder and first part of the names of the files.
        interpolate: take the hypothesis nearest to the reference, by sentence BLEU, in place of
            the best-scored one.
        failures: one of :data:`FAILURES`.
        beams: folder for the hypotheses, default ``PREFIX.beams``. Another prefix with other
            targets may use the same.

    Returns:
        the contents of ``PREFIX.json``.

    Raises:
        UserError: bad input; a place that cannot be written, or holds other files of these names.
    """
    options = replace(options, nbest=options.beam)
    languages = _languages(options, source, target)
    outputs = [Path(f"{prefix}.{language}") for language in languages]
    manifest, failed = Path(f"{prefix}.json"), Path(f"{prefix}.failures.tsv")
    texts = [Text(source), Text(target)]
    check_same_lines(source, texts[0].lines, target, texts[1].lines)
    identity = options.identity()
    made_with = {
        **identity,
        "interpolate": interpolate,
        "failures": failures,
        "corpus": [text.digest for text in texts],
    }
    # before hours of work: its tokenizer may be missing
    metric = bleu_metric(languages[1], effective_order=True) if interpolate else None
    make_folder(manifest.parent)
    made = _made_before(manifest, outputs, made_with)
    if made is not None:
        return made
    with Parts(beams or Path(f"{prefix}.beams"), identity, texts[0]) as parts:
        searched = search(options, parts, "skip")
        write_json(manifest, {"options": made_with})  # what is written from here on is ours
        choices = _choices(parts, texts[1], metric)
        results = {"searched": searched, **_write(texts, choices, outputs, failed, failures)}
        results["files"] = {path.name: sha256_of(path) for path in outputs}
        results["versions"] = versions()
        write_json(manifest, {"options": made_with, "results": results})
    return read_json(manifest)


def nearest(beam: List[Hypothesis], reference: str, metric: BLEU) -> Hypothesis:
    """The hypothesis with the highest sentence BLEU; of several, the best-scored.

    One with something wrong is taken only if there is no other.
    """
    candidates = [hypothesis for hypothesis in beam if hypothesis.wrong is None] or beam
    return max(candidates, key=lambda h: metric.sentence_score(h.text, [reference]).score)


def _choose(chunk: Tuple[Path, List[str], Optional[BLEU]]) -> List[Hypothesis]:
    """In a worker: what to take of a chunk of beams with these references, the nearest by a metric
    or the best-scored."""
    path, references, metric = chunk
    return [
        nearest(beam, reference, metric) if metric else beam[0]
        for beam, reference in zip(read_chunk(path, len(references)), references)
    ]


def _choices(parts: Parts, references: Text, metric: Optional[BLEU]) -> Iterator[Hypothesis]:
    chunks = (
        (parts.path(number), lines, metric)
        for number, lines in references.chunks(references.numbers)
    )
    # sentence BLEU of all beams takes one process hours for millions of lines
    method = "fork" if metric and len(references.numbers) > 1 else "here"
    with Workers(usable_cores(), method=method) as workers:
        for choices in workers.map(_choose, chunks):
            yield from choices


def _write(
    texts: Sequence[Text],
    choices: Iterator[Hypothesis],
    outputs: Sequence[Path],
    failed: Path,
    failures: str,
) -> dict:
    """Write both sides of the training text, and the list of failures if there are any."""
    lines = texts[0].lines
    counts: Dict[str, int] = {}  # failures by kind
    pairs = 0
    rows = zip(*texts, choices, strict=True)
    with ExitStack() as open_files:
        files = [open_files.enter_context(writing(path)) for path in (*outputs, failed)]
        print("line", "kind", "source", "output", sep="\t", file=files[2])
        bar = tqdm(rows, "choose", lines, unit=" lines", mininterval=1, dynamic_ncols=True)
        for number, (source, reference, (text, _, wrong)) in enumerate(bar, 1):
            if wrong is not None:
                counts[wrong] = counts.get(wrong, 0) + 1
                print(number, wrong, one_line(source), one_line(text), sep="\t", file=files[2])
                if failures == "drop":
                    continue
                text = reference
            pairs += 1
            print(source, file=files[0])
            print(text, file=files[1])
        if not pairs:
            raise UserError(
                f"the teacher failed on every line ({_listed(counts)}): nothing is left to train on"
            )
    if not counts:
        failed.unlink()
    return {"lines": lines, "pairs": pairs, "failures": counts}


def _languages(options: SearchOptions, source: Path, target: Path) -> List[str]:
    settings, named = options.text_settings(), [language_of(source), language_of(target)]
    reads = source_language(load_checkpoint(options.paths[0], mapped=True))
    settings = settings.reading(reads) if reads else settings
    languages = [settings.source_lang, settings.target_lang]
    if Path(source).exists() and Path(target).exists() and Path(source).samefile(target):
        raise UserError(f"--source {source} --target {target}: one file: give both sides")
    if all(languages):
        if named == languages[::-1] != languages:
            raise UserError(
                f"--source {source} --target {target}: the model is {'-'.join(languages)}, not the "
                "other way round"
            )
        return languages
    if not all(named) or named[0] == named[1]:
        raise UserError(
            f"--source {source} --target {target}: name the files by their languages, as in "
            "train.en and train.de"
        )
    if reads == named[1]:
        raise UserError(
            f"--source {source} --target {target}: the model translates from {reads}, not the "
            "other way round"
        )
    return named


def _made_before(manifest: Path, outputs: Sequence[Path], options: dict) -> Optional[dict]:
    """What was made before with these options, or None.

    Raises:
        UserError: if results of other options are there, or other files.
    """
    made = read_own(manifest, "options")
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


def _listed(failures: Dict[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in failures.items())


def report(made: dict) -> str:
    """What *made*, from :func:`distill`, says, for the terminal."""
    options, results = made["options"], made["results"]
    searched, failures = results["searched"], results["failures"]
    said = [f"{searched['sentences']} sentences translated in {searched['seconds']:.1f} s"]
    said.append(f"failures: {sum(failures.values())} of {results['lines']} lines")
    if failures:
        fate = FAILURES[options["failures"]]
        said.append(f"    {_listed(failures)}: {fate}, and all are in the file of failures")
    said.append(f"{', '.join(results['files'])}: {results['pairs']} pairs")
    return "\n".join(said)
