"""A training killed ten times (SIGKILL), in steps, validations and saves at random moments, ends
like one that was left alone, bit for bit."""

from functools import partial

import pytest
from fairseq_programs import PACKAGE, preprocess, training
from interrupting import LAST, PHASES, killed_run, train_through, unlike
from processes import installed
from trained_models import write_corpus

# no multiple of five updates an epoch: most saves are within one, and its place is to be kept
PAIRS, UPDATES, KILLS = 200, 66, 10


@pytest.mark.soak
def test_ten_kills(tmp_path):
    write_corpus(tmp_path, {"train": PAIRS, "valid": 48})
    data = preprocess(tmp_path / "bin", train=tmp_path / "train", valid=tmp_path / "valid")
    # checkpoints of some 5 MB; two are kept: a kill may interrupt the deleting of the older
    options = ("--user-dir", PACKAGE, "--encoder-embed-dim", 64, "--encoder-ffn-embed-dim", 1024)
    options += ("--dropout", 0.1, "--batch-size", 16, "--max-update", UPDATES, "--num-workers", 1)
    options += ("--save-interval-updates", 5, "--keep-interval-updates", 2)
    options += ("--update-epoch-batch-itr", "True")

    def run(folder):
        return partial(installed, "fairseq-train", training(data, folder, *options))

    alone, killed = tmp_path / "alone", tmp_path / "killed"
    seconds = train_through(run(alone), tmp_path / "alone.log")
    aims = [PHASES[-1 - number % len(PHASES)] for number in range(KILLS)]
    kills = killed_run(run(killed), killed, aims, UPDATES, seconds, seed=1)
    assert {phase for phase, _ in kills} == set(PHASES)
    assert unlike(alone / LAST, killed / LAST) == []
