"""The paired bootstrap: sacreBLEU's own, with any seed."""

import json
import os
import re
import subprocess
import sys

import pytest
from score_text import drop_words, sentences

from resmlp_mt.errors import UserError
from resmlp_mt.score.significance import paired_bootstrap

REFERENCES = sentences(80)
BASELINE, SYSTEM = drop_words(REFERENCES, 3), drop_words(REFERENCES, 1)


def test_is_that_of_sacrebleus_command_line(tmp_path):
    close = drop_words(REFERENCES, 3, seed=9)
    for name, lines in (("ref", REFERENCES), ("base", BASELINE), ("sys", close)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "base", "sys", "-m", "bleu", "chrf"]
    command += ["--paired-bs", "--paired-bs-n", "100", "-w", "4", "-f", "text"]
    environment = {**os.environ, "SACREBLEU_SEED": "7", "PYTHONUTF8": "1"}
    run = subprocess.run(
        command, capture_output=True, encoding="utf-8", check=True, cwd=tmp_path, env=environment
    )
    table = run.stdout[: run.stdout.index("Paired bootstrap")]
    printed = list(map(float, re.findall(r"\d+\.\d{4}", table)))
    result = paired_bootstrap(BASELINE, close, REFERENCES, samples=100, seed=7)
    bleu, chrf = result["bleu"], result["chrf"]
    ours = [
        metric[role + part]
        for role in ("baseline", "system")
        for metric in (bleu, chrf)
        for part in ("", "_mean", "_ci")
    ]
    assert [*ours, bleu["p_value"], chrf["p_value"]] == pytest.approx(printed, abs=1e-4)
    assert 0.02 < bleu["p_value"] < 1 and 0.02 < chrf["p_value"] < 1
    assert bleu["signature"] in run.stdout and chrf["signature"] in run.stdout


def test_seed_and_samples():
    first = paired_bootstrap(BASELINE, SYSTEM, REFERENCES, samples=50, seed=3)
    assert first == json.loads(json.dumps(first))
    assert (first["samples"], first["seed"]) == (50, 3)
    assert first == paired_bootstrap(BASELINE, SYSTEM, REFERENCES, samples=50, seed=3)
    other = paired_bootstrap(BASELINE, SYSTEM, REFERENCES, samples=50, seed=4)
    assert other["bleu"]["system_mean"] != first["bleu"]["system_mean"]
    assert other["bleu"]["system"] == first["bleu"]["system"]


def test_a_large_difference():
    apart = paired_bootstrap(BASELINE, SYSTEM, REFERENCES, samples=99)
    assert apart["bleu"]["p_value"] == apart["chrf"]["p_value"] == 0.01
    assert apart["bleu"]["baseline"] < apart["bleu"]["system"]


@pytest.mark.parametrize("before", [None, "99"])
def test_the_environment_is_as_before(monkeypatch, before):
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    if before:
        monkeypatch.setenv("SACREBLEU_SEED", before)
    paired_bootstrap(["a"], ["a"], ["a"], samples=1, seed=5)
    assert os.environ.get("SACREBLEU_SEED") == before


def test_refusals():
    with pytest.raises(UserError, match="samples 0: must be at least 1"):
        paired_bootstrap(["a"], ["a"], ["a"], samples=0)
    with pytest.raises(UserError, match="seed 0: must be at least 1"):
        paired_bootstrap(["a"], ["a"], ["a"], seed=0)
    for baseline, system in ((["a", "b"], ["a"]), (["a"], ["a", "b"])):
        with pytest.raises(UserError, match="2 hypotheses but 1 references"):
            paired_bootstrap(baseline, system, ["a"])
