"""Whether one system is better than another beyond chance: sacreBLEU's paired bootstrap."""

import os
from contextlib import contextmanager
from typing import Sequence

from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from resmlp_mt.errors import UserError
from resmlp_mt.score.scoring import check_counts


def paired_bootstrap(
    baseline: Sequence[str],
    system: Sequence[str],
    references: Sequence[str],
    samples: int = 1000,
    seed: int = 12345,
) -> dict:
    """Compare two systems' translations of the same sentences (Koehn, 2004).

    Sentences are drawn with replacement *samples* times, the same ones for both systems.

    Args:
        baseline, system, references: a sentence each, detokenized.
        samples: resamples of the test set.
        seed: of the drawing. sacreBLEU takes 0 for "no seed".

    Returns:
        JSON values: ``samples``, ``seed`` and for each of ``bleu`` and ``chrf`` the scores
        ``baseline`` and ``system``, each one's mean over the resamples (``_mean``) and half the
        width of its 95% interval around that (``_ci``), ``p_value``, and ``signature``.

    Raises:
        UserError: if the numbers of sentences differ or are 0, or *samples* or *seed* is below 1.
    """
    check_counts(baseline, references)
    check_counts(system, references)
    for name, value in (("samples", samples), ("seed", seed)):
        if value < 1:
            raise UserError(f"paired bootstrap with {name} {value}: must be at least 1")
    with _sacrebleu_seed(seed):
        test = PairedTest(
            [("baseline", list(baseline)), ("system", list(system))],
            {"BLEU": BLEU(), "chrF": CHRF()},
            [list(references)],
            test_type="bs",
            n_samples=samples,
        )
        signatures, scores = test()
    result = {"samples": samples, "seed": seed}
    for key, name in (("bleu", "BLEU"), ("chrf", "chrF2")):
        of_baseline, of_system = scores[name]
        result[key] = {
            "baseline": float(of_baseline.score),
            "system": float(of_system.score),
            "baseline_mean": float(of_baseline.mean),
            "baseline_ci": float(of_baseline.ci),
            "system_mean": float(of_system.mean),
            "system_ci": float(of_system.ci),
            "p_value": float(of_system.p_value),
            "signature": str(signatures[name]),
        }
    return result


@contextmanager
def _sacrebleu_seed(seed: int):
    """sacreBLEU takes its seed from the environment and from nowhere else."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SACREBLEU_SEED"]
        else:
            os.environ["SACREBLEU_SEED"] = before
