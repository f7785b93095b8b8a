"""The scripts of WMT14, from corpora that are there to BLEU, at a small size."""

import os
from pathlib import Path

from command import ran, shell
from prepare_text import pairs_of, write_pairs

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
SMALL = (
    "--cpu --warmup-updates 2 --save-interval-updates 1 --encoder-layers 1 --decoder-layers 1 "
    "--encoder-embed-dim 16 --decoder-embed-dim 16 --encoder-ffn-embed-dim 16 "
    "--decoder-ffn-embed-dim 16 --max-source-positions 64 --max-target-positions 64"
)


def commands(folder, name):
    """The words of each ``resmlp-mt`` that a script calls, through a shell."""
    program = folder / "bin" / "resmlp-mt"
    for made in (program.parent, folder / "corpora", folder / "out" / "resmlp_mt_tiny"):
        made.mkdir(parents=True, exist_ok=True)
    (folder / "corpora" / "train.en").touch()  # nothing is to be fetched
    program.write_text('#!/bin/sh\nprintf "%s\\t" "$@" && echo\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    variables = {"PATH": path, "OUT": "out", "FROM": "corpora", "ARCH": "resmlp_mt_tiny"}
    command = f"bash '{SCRIPTS / name}' {SMALL}"
    done = shell(command, folder, **variables, VOCAB_SIZE="90", MAX_UPDATE="3")
    return [line.split("\t")[:-1] for line in done.stdout.splitlines()]


def test_from_corpora_to_bleu(tmp_path, monkeypatch):
    """What is printed last are the scores, beside those of Table 5."""
    monkeypatch.chdir(tmp_path)
    # two updates of 32,768 tokens an epoch: the second is no update checkpoint
    for number, (split, count) in enumerate({"train": 1700, "valid": 20, "test": 20}.items()):
        write_pairs(tmp_path / "corpora", split, ("en", "de"), pairs_of(count, number))
    for words in commands(tmp_path, "wmt14_en_de.sh"):
        said = ran(*words)
    run = tmp_path / "out" / "resmlp_mt_tiny"
    assert "compound" in said.out and "BLEU" in said.out
    translated = (run / "test.de").read_text(encoding="utf-8").splitlines()
    assert len(translated) == 20
    assert (run / "averaged.pt").exists()


def test_french_has_the_commands_of_german(tmp_path):
    german, french = (commands(tmp_path, f"wmt14_en_{target}.sh") for target in ("de", "fr"))
    assert [words[0] for words in german] == ["prepare", "train", "average", "translate", "score"]
    names = {"de": "fr", "en-de": "en-fr"}
    for de, fr in zip(german, french, strict=True):
        assert [names.get(word, word.replace("test.de", "test.fr")) for word in de] == fr
