"""The scripts of WMT14, from corpora that are there to BLEU, at a small size."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from prepare_text import pairs_of, write_layout

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
SMALL = (
    "--cpu --warmup-updates 2 --save-interval-updates 1 --encoder-layers 1 --decoder-layers 1 "
    "--encoder-embed-dim 16 --decoder-embed-dim 16 --encoder-ffn-embed-dim 16 "
    "--decoder-ffn-embed-dim 16 --max-source-positions 64 --max-target-positions 64"
)


@pytest.fixture
def script(tmp_path):
    """Run one of them, with a shell script as the program ``resmlp-mt``."""

    def run(name, program):
        path = tmp_path / "bin" / "resmlp-mt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{program}\n")
        path.chmod(0o755)
        environment = {
            **os.environ,
            "PATH": f"{path.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(SCRIPTS.parent),
            **{"OUT": "out", "FROM": "corpora", "ARCH": "resmlp_mt_tiny", "OMP_NUM_THREADS": "1"},
            **{"VOCAB_SIZE": "90", "MAX_UPDATE": "15"},
        }
        command = ["bash", SCRIPTS / name, *SMALL.split()]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_from_corpora_to_bleu(script, tmp_path):
    """What it prints last are the scores, beside those of Table 5."""
    # three updates of 32,768 tokens an epoch: the last of an epoch is no update checkpoint
    parts = {"one": pairs_of(1500, 1), "two": pairs_of(1000, 2)}
    write_layout(tmp_path / "corpora", ("eng", "deu"), parts)
    said = script("wmt14_en_de.sh", f'exec "{sys.executable}" -m resmlp_mt "$@"')
    run = tmp_path / "out" / "resmlp_mt_tiny"
    scores = json.loads((run / "scores.json").read_text())
    (found,) = scores["systems"].values()
    assert f"{found['compound_split_bleu']:.2f}" in said and "Table 5 of the paper" in said
    translated = (run / "test.de").read_text(encoding="utf-8").splitlines()
    assert len(translated) == scores["sentences"] == 20
    assert (run / "averaged.pt").exists()


def test_french_has_the_commands_of_german(script):
    german, french = (
        script(f"wmt14_en_{target}.sh", 'printf "%s " "$@"; echo') for target in ("de", "fr")
    )
    assert german.count("\n") == 5
    for de, fr in (("wmt14-en-de", "wmt14-en-fr"), (" en-de ", " en-fr "), ("test.de", "test.fr")):
        assert de in german
        german = german.replace(de, fr)
    assert french == german
