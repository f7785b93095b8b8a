"""Metrics and significance tests of sacreBLEU, with JSON values and signatures as results."""

from typing import Dict, List, Mapping, Optional, Sequence, Union

from sacrebleu.metrics import METRICS
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

from resmlp_mt.errors import UserError
from resmlp_mt.text.bleu import bleu_metric

References = Union[Sequence[str], Sequence[Sequence[str]]]


def score(
    hypotheses: Sequence[str],
    references: References,
    target_lang: Optional[str] = None,
    metrics: Sequence[str] = ("bleu", "chrf"),
    tokenize: Optional[str] = None,
) -> Dict[str, object]:
    """Scores of detokenized text, as the program of sacreBLEU gives them.

    Args:
        hypotheses: one sentence each.
        references: one sentence each, or several such lists.
        metrics: of ``bleu``, ``chrf``, ``ter``.
        target_lang, tokenize: as for :func:`~resmlp_mt.text.bleu.bleu_metric`.

    Returns:
        for each metric its value, rounded to two digits, and ``METRIC_signature``.

    Raises:
        UserError: different numbers of sentences or none, an unknown tokenizer or one whose
            packages are not installed.
    """
    references = reference_lists(hypotheses, references)
    result: Dict[str, object] = {}
    for name, metric in make_metrics(metrics, target_lang, tokenize).items():
        result[name] = round(metric.corpus_score(list(hypotheses), references).score, 2)
        result[f"{name}_signature"] = str(metric.get_signature())
    return result


def paired(
    systems: Mapping[str, Sequence[str]],
    references: References,
    target_lang: Optional[str] = None,
    metrics: Sequence[str] = ("bleu", "chrf"),
    tokenize: Optional[str] = None,
    test: str = "bs",
    samples: Optional[int] = None,
) -> Dict[str, object]:
    """Whether systems differ from the first of them beyond chance.

    The seed is the environment variable ``SACREBLEU_SEED``, or 12345.

    Args:
        systems: hypotheses by name, the baseline first.
        references, target_lang, metrics, tokenize: as for :func:`score`.
        test: ``bs`` for the paired bootstrap (Koehn, 2004), ``ar`` for approximate randomization.
        samples: resamplings or trials. Default: that of sacreBLEU.

    Returns:
        ``test``, ``samples``, ``baseline`` (its name), ``signatures`` by metric, and ``systems``:
        by name and metric ``score``, ``p_value`` (None for the baseline), and for the bootstrap
        ``mean`` over the resamplings and ``ci``, half the width of its 95% interval.

    Raises:
        UserError: what :func:`score` raises; fewer than two systems.
    """
    if len(systems) < 2:
        raise UserError("a paired test compares systems with the first one: give two or more")
    lists = [reference_lists(hypotheses, references) for hypotheses in systems.values()]
    named = [(name, list(hypotheses)) for name, hypotheses in systems.items()]
    made = make_metrics(metrics, target_lang, tokenize)
    try:
        pairs = PairedTest(named, made, lists[0], test_type=test, n_samples=samples or 0)
    except ValueError:
        raise UserError("SACREBLEU_SEED is not a number: set it to one, or to none") from None
    signatures, scores = pairs()
    keys = dict(zip(made, signatures))  # sacreBLEU calls chrf chrF2
    found: Dict[str, Dict[str, dict]] = {}
    for place, name in enumerate(systems):
        parts = {metric: vars(scores[key][place]) for metric, key in keys.items()}
        found[name] = {
            metric: {part: value if value is None else float(value) for part, value in of.items()}
            for metric, of in parts.items()
        }
    return {
        "test": test,
        "samples": pairs.n_samples,
        "baseline": named[0][0],
        "signatures": {metric: str(signatures[key]) for metric, key in keys.items()},
        "systems": found,
    }


def make_metrics(
    names: Sequence[str], target_lang: Optional[str] = None, tokenize: Optional[str] = None
) -> Dict[str, Metric]:
    """The metrics of sacreBLEU by our names."""
    return {
        name: bleu_metric(target_lang, tokenize) if name == "bleu" else METRICS[name.upper()]()
        for name in names
    }


def reference_lists(hypotheses: Sequence[str], references: References) -> List[List[str]]:
    """One list of references, or several, as several.

    Raises:
        UserError: what :func:`check_counts` raises.
    """
    one = not references or isinstance(references[0], str)
    lists = [list(references)] if one else [list(some) for some in references]
    for some in lists:
        check_counts(hypotheses, some)
    return lists


def check_counts(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """
    Raises:
        UserError: if there are no sentences, or not one reference for each hypothesis.
    """
    if len(hypotheses) != len(references):
        raise UserError(
            f"{len(hypotheses)} hypotheses but {len(references)} references: "
            "both need one line a sentence"
        )
    if not hypotheses:
        raise UserError("nothing to score: no hypotheses and no references")
