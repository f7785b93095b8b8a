"""BLEU against the share of weights pruned: point by point, each made once."""

import json
import shlex

import cli
import pytest
import torch
from command import refused, resmlp
from picture_inputs import save_model

from resmlp_mt.analysis import pruning_sweep
from resmlp_mt.analysis.pruning import Count, prune_checkpoint, sparsity
from resmlp_mt.score.sacre import score


@pytest.fixture
def sweep(world, tmp_path, monkeypatch):
    """(words of the command, its output, weights of the checkpoints that were translated)."""
    translated, translate = [], pruning_sweep.translate

    def watched(search, *arguments):
        (path,) = search.paths
        translated.append(cli.weights(path))
        return translate(search, *arguments)

    monkeypatch.setattr(pruning_sweep, "translate", watched)
    out = tmp_path / "sweep.json"
    words = ["prune", world.checkpoint, "--sweep", "--data", world.data, "--cpu"]
    words += ["--spm", world.spm, "--source", world.text / "test.xx"]
    words += ["--references", world.text / "test.yy", "-o", out]
    return words, out, translated


def test_sweep(world, sweep, monkeypatch, tmp_path):
    words, out, made = sweep
    words += ["--threshold", 0.1, 0.4, "--length", 10, "--beam", 2]
    command = [*words, "--which", "A", "all"]
    monkeypatch.setattr("sys.argv", ["resmlp-mt", *map(str, command)])
    assert resmlp(*command).status == 0
    result = json.loads(out.read_text())
    names = [(point["which"], point["threshold"]) for point in result["points"]]
    assert names == [("none", 0), ("A", 0.1), ("A", 0.4), ("all", 0.1), ("all", 0.4)]
    assert result["checkpoint"] == str(world.checkpoint) and result["beam"] == 2
    assert "version:" in result["signature"]["bleu"]
    assert shlex.split(result["command"])[:3] == ["resmlp-mt", "prune", str(world.checkpoint)]
    # what was translated is the checkpoint pruned so, and the shares are those of its weights
    counts = {t: sparsity(world.checkpoint, t, 10).counts for t in (0.1, 0.4)}
    for point, weights_used in zip(result["points"], made):
        kinds = {"none": "", "A": "A", "all": "ABC"}[point["which"]]
        total = Count(0, 0)
        for kind in kinds:
            of_kind = sum(counts[point["threshold"]][kind].values(), Count(0, 0))
            assert point["removed_of"][kind] == round(of_kind.share, 4)
            total += of_kind
        assert point["removed"] == (round(total.share, 4) if kinds else 0)
        expected = tmp_path / "expected.pt"
        prune_checkpoint(world.checkpoint, expected, point["threshold"], kinds or (), 10)
        same = cli.weights(expected)
        assert all(torch.equal(value, same[name]) for name, value in weights_used.items())
    assert len({point["chrf"] for point in result["points"]}) > 1
    assert [path.name for path in tmp_path.glob("sweep*")] == ["sweep.json"]

    # again: nothing is made; with one threshold more, that alone
    made.clear()
    status, printed, _ = resmlp(*command)
    assert status == 0 and not made and printed.count("done before") == 5
    assert resmlp(*words, "--which", "B", "--threshold", 0.3).status == 0
    assert len(made) == 1 and len(json.loads(out.read_text())["points"]) == 6
    # other options are another result
    refused("sweep.json holds points made with beam = 2, not 3", *command, "--beam", 3)


def test_the_scores_of_a_point(world, sweep, tmp_path):
    words, out, _ = sweep
    assert resmlp(*words, "--which", "B", "--threshold", 0).status == 0
    whole, none_removed = json.loads(out.read_text())["points"]
    files = ["--input", world.text / "test.xx", "--output", tmp_path / "hyp", "--cpu"]
    models = ["--path", world.checkpoint, "--data", world.data, "--spm", world.spm]
    assert resmlp("translate", *models, *files).status == 0
    translations, references = (
        path.read_text(encoding="utf-8").splitlines()
        for path in (tmp_path / "hyp", world.text / "test.yy")
    )
    expected = score(translations, references)
    for point in (whole, none_removed):
        assert (point["bleu"], point["chrf"]) == (expected["bleu"], expected["chrf"])
    assert whole["chrf"] > 0


def test_a_sweep_that_was_stopped_resumes(sweep, monkeypatch, tmp_path):
    words, out, made = sweep
    words += ["--which", "A", "--threshold", 0.1, 0.2]
    translate, count = pruning_sweep.translate, []

    def stopping(*args, **kwargs):
        count.append(1)
        if len(count) == 2:
            raise KeyboardInterrupt
        translate(*args, **kwargs)

    monkeypatch.setattr(pruning_sweep, "translate", stopping)
    assert resmlp(*words).status == 130
    assert [path.name for path in tmp_path.glob("sweep*")] == ["sweep.json"]
    assert len(json.loads(out.read_text())["points"]) == 1
    assert resmlp(*words).status == 0
    assert len(json.loads(out.read_text())["points"]) == 3 and len(made) == 3


def test_sweep_refuses(sweep, tmp_path):
    words, out, made = sweep
    none = save_model(tmp_path / "none.pt", token_mixing="none")
    (tmp_path / "short").write_text("a\n")
    rest = words[2:]
    refused("gone.pt: No such file", "prune", tmp_path / "gone.pt", *rest)
    refused("short is damaged", "prune", tmp_path / "short", *rest)
    refused("--token-mixing none", "prune", none, *rest, "--which", "A")
    refused("threshold 2", *words, "--threshold", 0.1, 2)
    refused("--lenpen: must be a number", *words, "--lenpen", "nan")
    refused("--beam: must be at least 1", *words, "--beam", 0)
    refused("short has 1 lines but", *words, "--source", tmp_path / "short")
    refused("no folder", *words, "-o", tmp_path / "no" / "a.json")
    assert not made and not out.exists()
    out.write_text('{"points": [')
    refused("sweep.json: not a JSON file", *words)
    out.write_text('{"scores": 1}')
    refused("is not a result of resmlp-mt prune --sweep", *words)
    assert out.read_text() == '{"scores": 1}'
