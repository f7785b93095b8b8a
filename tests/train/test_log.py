"""The log of fairseq-train, without a training."""

import pytest

from resmlp_mt.train.log import TrainingBar, read_curve

LOG = """
2026-01-01 00:00:00 | INFO | train_inner | {"epoch": 1, "loss": "7.5", "num_updates": "2"}
2026-01-01 00:00:01 | INFO | valid | {"epoch": 1, "valid_loss": "6.25", "valid_num_updates": "2"}
"""


def test_a_criterion_without_label_smoothing(tmp_path, capsys):
    """The loss of --criterion cross_entropy is the nll."""
    log = tmp_path / "train.log"
    log.write_text(LOG)
    assert read_curve(log) == {"train": [(2, 7.5)], "valid": [(2, 6.25)]}
    with TrainingBar(2) as bar:
        for line in LOG.splitlines():
            bar.show(line)
    assert "validation nll 6.250 bits a token" in capsys.readouterr().out


_, TRAIN, VALID = LOG.split("\n")[:3]


@pytest.mark.parametrize(
    "line",
    [
        TRAIN + TRAIN,
        VALID + TRAIN,
        TRAIN[:-20] + "}",
        TRAIN.replace('"num_updates": "2"', '"num_updates": "2 of 3"'),
        VALID.replace("valid_num_updates", "updates"),
        VALID.replace("valid_loss", "loss"),
    ],
    ids=range(6),
)
def test_a_line_that_two_processes_wrote(tmp_path, capsys, line):
    """It is no record: neither the bar nor a curve ends by it."""
    with TrainingBar(2) as bar:
        bar.show(line)
        assert bar.n == 0
        bar.show(VALID)
        assert bar.n == 2
    assert capsys.readouterr().out.count("validation nll") == 1
    log = tmp_path / "train.log"
    log.write_text(f"{line}\n{LOG}")
    assert read_curve(log) == {"train": [(2, 7.5)], "valid": [(2, 6.25)]}
