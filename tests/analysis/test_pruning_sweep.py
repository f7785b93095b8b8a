"""BLEU against the share of weights pruned: point by point, each made once."""

import json
import logging
import shlex

import cli
import prune_sweep
import pytest
import torch
from picture_inputs import call, save_model

from resmlp_mt.analysis import pruning_sweep
from resmlp_mt.analysis.pruning import Count, prune_checkpoint, sparsity
from resmlp_mt.errors import UserError
from resmlp_mt.score.sacre import score


@pytest.fixture
def in_process(monkeypatch):
    """fairseq-generate without a process of its own; gives the list of checkpoints translated."""
    made = []

    def run(name, arguments, log, threads=None):
        made.append(cli.weights(arguments[arguments.index("--path") + 1]))
        logging.disable(logging.NOTSET)  # which the script's run_main has set
        said = cli.call(name, *arguments, "--cpu")
        log.write_text(said.out + said.log)

    monkeypatch.setattr(pruning_sweep, "run_program", run)
    return made


@pytest.fixture
def sweep(trained, corpus, tmp_path, in_process):
    """(arguments of the script, its output, checkpoints translated)."""
    # fairseq-generate puts the words together as if they were pieces
    lines = (corpus.text / "test.yy").read_text().splitlines()
    (tmp_path / "ref").write_text("".join(line.replace(" ", "") + "\n" for line in lines))
    out = tmp_path / "sweep.json"
    arguments = [trained.path, trained.data, "--references", tmp_path / "ref", "-o", out]
    return arguments, out, in_process


def test_sweep(trained, sweep, monkeypatch, capsys, tmp_path):
    arguments, out, made = sweep
    options = ["--thresholds", 0.1, 0.4, "--length", 10, "--beam", 2]
    assert call(prune_sweep, monkeypatch, *arguments, *options, "--which", "A", "all") == 0
    result = json.loads(out.read_text())
    names = [(point["which"], point["threshold"]) for point in result["points"]]
    assert names == [("none", 0), ("A", 0.1), ("A", 0.4), ("all", 0.1), ("all", 0.4)]
    assert result["checkpoint"] == str(trained.path) and result["beam"] == 2
    assert "version:" in result["signature"]["bleu"] and result["versions"]["commit"]
    words = shlex.split(result["command"])
    assert words[:2] == ["scripts/prune_sweep.py", str(trained.path)] and "--beam" in words
    # what was translated is the checkpoint pruned so, and the shares are those of its weights
    counts = {t: sparsity(trained.path, t, 10) for t in (0.1, 0.4)}
    for point, weights_used in zip(result["points"], made):
        kinds = {"none": "", "A": "A", "all": "ABC"}[point["which"]]
        total = Count(0, 0)
        for kind in kinds:
            of_kind = sum(counts[point["threshold"]][kind].values(), Count(0, 0))
            assert point["removed_of"][kind] == round(of_kind.share, 4)
            total += of_kind
        assert point["removed"] == (round(total.share, 4) if kinds else 0)
        expected = tmp_path / "expected.pt"
        prune_checkpoint(trained.path, expected, point["threshold"], kinds or (), 10)
        same = cli.weights(expected)
        assert all(torch.equal(value, same[name]) for name, value in weights_used.items())
    assert len({point["chrf"] for point in result["points"]}) > 1
    assert sorted(p.name for p in tmp_path.iterdir() if "sweep" in p.name) == ["sweep.json"]

    # again: nothing is made; with one threshold more, that alone
    made.clear()
    assert call(prune_sweep, monkeypatch, *arguments, *options, "--which", "A", "all") == 0
    assert not made and capsys.readouterr().out.count("done before") == 5
    more = ["--which", "B", "--thresholds", 0.3, "--length", 10, "--beam", 2]
    assert call(prune_sweep, monkeypatch, *arguments, *more) == 0
    assert len(made) == 1 and len(json.loads(out.read_text())["points"]) == 6
    # other options are another result
    capsys.readouterr()
    assert call(prune_sweep, monkeypatch, *arguments, *options, "--beam", 3) == 1
    assert "made with beam = 2, not 3" in capsys.readouterr().err
    assert call(prune_sweep, monkeypatch, *arguments, *options, "--lenpen", "inf") == 1
    assert "--lenpen inf: must be a number" in capsys.readouterr().err


def test_a_points_scores(sweep, monkeypatch, trained):
    arguments, out, _ = sweep
    assert call(prune_sweep, monkeypatch, *arguments, "--which", "B", "--thresholds", 0) == 0
    whole, none_removed = json.loads(out.read_text())["points"]
    log = cli.call(
        *("generate", trained.data, "--path", trained.path, "--beam", 4, "--lenpen", 0.6),
        *("--remove-bpe", "sentencepiece", "--cpu", "--num-workers", 0),
    )
    found = {int(n): text for n, _, text in _detokenized(log.out)}
    references = arguments[3].read_text().splitlines()
    expected = score([found[n] for n in sorted(found)], references)
    for point in (whole, none_removed):
        assert (point["bleu"], point["chrf"]) == (expected["bleu"], expected["chrf"])
    assert whole["chrf"] > 0


def _detokenized(out):
    for line in out.splitlines():
        if line.startswith("D-"):
            number, value, text = line.split("\t")
            yield number[2:], value, text


def test_a_sweep_that_was_stopped_goes_on(sweep, monkeypatch, tmp_path):
    arguments, out, made = sweep
    options = ["--which", "A", "--thresholds", 0.1, 0.2]
    run, count = pruning_sweep.run_program, []

    def stopping(*args, **kwargs):
        count.append(1)
        if len(count) == 2:
            raise KeyboardInterrupt
        run(*args, **kwargs)

    monkeypatch.setattr(pruning_sweep, "run_program", stopping)
    assert call(prune_sweep, monkeypatch, *arguments, *options) == 130
    assert [path.name for path in tmp_path.glob("sweep*")] == ["sweep.json"]
    assert len(json.loads(out.read_text())["points"]) == 1
    assert call(prune_sweep, monkeypatch, *arguments, *options) == 0
    assert len(json.loads(out.read_text())["points"]) == 3 and len(made) == 3


def test_sweep_refuses(sweep, monkeypatch, capsys, tmp_path):
    arguments, out, made = sweep
    checkpoint, data, _, references, _, _ = arguments
    none = save_model(tmp_path / "none.pt", token_mixing="none")
    (tmp_path / "short").write_text("a\n")

    def refused(said, *changed):
        assert call(prune_sweep, monkeypatch, *changed) == 1
        error = capsys.readouterr().err.strip()
        assert said in error and "\n" not in error, error

    more = [data, "--references", references, "-o", out]
    refused("gone.pt: No such file", tmp_path / "gone.pt", *more)
    refused("short is damaged or cut off", tmp_path / "short", *more)
    refused("--token-mixing none", none, *more, "--which", "A")
    refused("threshold 2", *arguments, "--thresholds", 0.1, 2)
    refused("name a file in a folder", *arguments[:-1], tmp_path / "no" / "a.json")
    assert not made and not out.exists()
    short = [checkpoint, data, "--references", tmp_path / "short", "-o", out]
    refused("11 translations but", *short)
    assert not out.exists() and [p.name for p in tmp_path.rglob("*.work/*")] == ["generate.log"]
    out.write_text('{"points": [')
    refused("sweep.json: not a JSON file", *arguments)
    out.write_text('{"scores": 1}')
    refused("is not a result of prune_sweep.py", *arguments)
    assert out.read_text() == '{"scores": 1}'
    with pytest.raises(UserError, match="Z: no matrix"):
        pruning_sweep.Sweep(checkpoint, data, references, tmp_path / "b.json").run(which=["Z"])
