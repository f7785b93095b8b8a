"""The scores of references, from the model itself in one unfolded pass."""

import math

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq_programs import generate, lines


@torch.no_grad()
def reference_scores(data, path):
    """Log-probability in base 2 of each target word of the test set, by sentence number."""
    overrides = {"data": str(data)}
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], overrides)
    model.eval()
    task.load_dataset("test")
    test, scores = task.dataset("test"), {}
    for number in range(len(test)):
        sample = test.collater([test[number]])
        output = model(**sample["net_input"])
        log_probabilities = model.get_normalized_probs(output, True, sample)[0]
        target = sample["target"][0]
        chosen = log_probabilities.gather(1, target.unsqueeze(1)).squeeze(1)
        scores[number] = (chosen / math.log(2)).tolist()
    return scores


def printed_scores(out):
    """The P- lines of fairseq-generate: a list of numbers by sentence number."""
    return {
        number: [float(score) for score in found[0][0].split()]
        for number, found in lines(out, "P").items()
    }


def assert_same_scores(some, others, tolerance=1e-3):
    assert some == {n: pytest.approx(values, abs=tolerance) for n, values in others.items()} != {}


def assert_scores_are(data, path):
    """fairseq-generate --score-reference, folded and in batches, prints what the model itself
    says."""
    printed = printed_scores(generate(data, path, "--score-reference"))
    assert_same_scores(printed, reference_scores(data, path))
