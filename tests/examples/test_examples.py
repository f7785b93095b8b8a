"""The quickstart, the notebook and WMT14, at tiny sizes; a Python that make_env.sh refuses."""

import hashlib
import json
import re
import sys
import tarfile
from pathlib import Path

import grammar
import run
from command import ran, shell
from fairseq_programs import ROOT, SMALL
from prepare_text import write_corpus
from processes import Forked

SCRIPTS = ROOT / "scripts"
OPTIONS = "--cpu --warmup-updates 2 --save-interval-updates 1 "
OPTIONS += f"{SMALL} --max-source-positions 64 --max-target-positions 64"


def commands(folder, pair):
    """The words of each ``resmlp-mt`` that the script calls, through a shell."""
    program = folder / "bin" / "resmlp-mt"
    for made in (program.parent, folder / "out" / "text", folder / "out" / "resmlp_mt_tiny"):
        made.mkdir(parents=True, exist_ok=True)
    (folder / "out" / "text" / f"test.{pair[3:]}").touch()  # nothing is to be fetched
    program.write_text('#!/bin/sh\nprintf "%s\\t" "$@" && echo\n')
    program.chmod(0o755)
    variables = {"OUT": "out", "ARCH": "resmlp_mt_tiny"}
    command = f"bash '{SCRIPTS / 'wmt14.sh'}' {pair} {OPTIONS}"
    done = shell(command, folder, program.parent, **variables, VOCAB_SIZE="346", MAX_UPDATE="3")
    return [line.split("\t")[:-1] for line in done.stdout.splitlines()]


def test_from_corpora_to_bleu(tmp_path, monkeypatch, trained_here):
    """What is printed last are the scores, beside those of Table 5."""
    monkeypatch.chdir(tmp_path)
    # two updates of 32,768 tokens an epoch: the second is no update checkpoint
    write_corpus(tmp_path / "out" / "text", ("en", "de"), train=1700, valid=20, test=20)
    for words in commands(tmp_path, "en-de"):
        said = ran(*words)
    made = tmp_path / "out" / "resmlp_mt_tiny"
    assert "\ncompound-split BLEU " in said.out
    assert len((made / "test.de").read_text("utf-8").splitlines()) == 20
    assert (made / "averaged.pt").exists()


def test_french_has_the_commands_of_german(tmp_path):
    german, french = (commands(tmp_path, pair) for pair in ("en-de", "en-fr"))
    assert [words[0] for words in german] == ["prepare", "train", "average", "translate", "score"]
    names = {"de": "fr", "en-de": "en-fr"}
    for de, fr in zip(german, french, strict=True):
        assert [names.get(word, word.replace("test.de", "test.fr")) for word in de] == fr


def test_a_pair_must_be_named(tmp_path):
    done = shell(f"bash '{SCRIPTS / 'wmt14.sh'}' en-xx", tmp_path)
    assert done.returncode == 2 and "scripts/wmt14.sh en-de " in done.stderr


SEGMENTS = '<doc>\n<seg id="1">A “test”.</seg>\n<seg id="2"> Two. </seg>\n</doc>\n'
MEMBERS = {
    "training-parallel-europarl-v7.tgz": ("training/europarl-v7.de-en.{}", "europarl\r“{}”\n"),
    "training-parallel-commoncrawl.tgz": ("commoncrawl.de-en.{}", "crawl {}\n"),
    "training-parallel-nc-v9.tgz": ("training/news-commentary-v9.de-en.{}", "news {}\n"),
    "dev.tgz": ("dev/newstest2013.{}", "2013 {}\n"),
}


def write_mirror(home, made):
    """A folder of small archives, and the script *made*, which knows their checksums."""
    script = (SCRIPTS / "wmt14_text.sh").read_text(encoding="utf-8")
    home.mkdir()
    for archive, (name, line) in MEMBERS.items():
        files = {name.format(language): line.format(language) for language in ("en", "de")}
        if archive == "dev.tgz":
            files["dev/newstest2014-deen-ref.en.sgm"] = SEGMENTS
            files["dev/newstest2014-deen-src.de.sgm"] = SEGMENTS.replace("test", "Test")
        with tarfile.open(home / archive, "w:gz") as packed:
            for path, text in files.items():
                made.write_text(text, encoding="utf-8")
                packed.add(made, path)
        digest = hashlib.sha256((home / archive).read_bytes()).hexdigest()
        script = re.sub(rf"({re.escape(archive)} \S+) [0-9a-f]{{64}}", rf"\1 {digest}", script)
    made.write_text(script, encoding="utf-8")


def test_the_text_of_wmt14(tmp_path):
    command, out, mirror = "bash text.sh en-de out", tmp_path / "out", tmp_path / "mirror"
    write_mirror(mirror, tmp_path / "text.sh")
    done = shell(command, tmp_path, MIRROR="file:///nowhere")
    first = "out/archives/training-parallel-europarl-v7.tgz"
    assert done.returncode == 1 and f"put it at {first} by hand" in done.stderr
    assert done.stderr.count("\n") == 1 and not list(out.glob("train*"))
    (tmp_path / first).write_bytes((mirror / Path(first).name).read_bytes())
    done = shell(command, tmp_path, MIRROR=mirror.as_uri())
    assert done.returncode == 0, done.stderr
    assert (out / "train.de").read_text() == 'europarl"de"\ncrawl de\nnews de\n'
    assert (out / "valid.en").read_text() == "2013 en\n"
    assert (out / "test.en").read_text() == 'A "test."\nTwo.\n'
    assert (out / "test.de").read_text() == "A “Test”.\nTwo.\n"  # a reference stays
    (tmp_path / first).write_bytes(b"?")
    done = shell(command, tmp_path, MIRROR=mirror.as_uri())
    assert done.returncode == 1 and f"{first} is damaged: delete it" in done.stderr


def test_why_a_python_is_refused(tmp_path):
    """One that does not start says so itself, as a shim of pyenv does."""
    for name, body in (("broken", "echo 'broken: no version' >&2; exit 127"), ("old", "echo 3.9")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    for python, said in (
        ("./broken", "./broken does not start: broken: no version"),
        ("./old", "./old is Python 3.9, not 3.1"),
        ("./gone", "./gone: there is no such program"),
    ):
        done = shell(f"bash '{SCRIPTS / 'make_env.sh'}' env {python}", tmp_path)
        assert done.returncode == 1 and f"error: {said}" in done.stderr
        assert not (tmp_path / "env").exists()


def test_the_quickstart(tmp_path, monkeypatch, trained_here):
    words = f"run.py --sentences 400 --vocab-size 500 --max-update 4 --out {tmp_path}"
    monkeypatch.setattr(sys, "argv", words.split())
    monkeypatch.setattr(run, "HELD_OUT", 20)
    Forked(lambda: sys.exit(run.run_main(run.main)), tmp_path / "log").ends_well()
    said = (tmp_path / "log").read_text(encoding="utf-8")
    shown = ["Die Brücke wurde vor", "BLEU ", "(reference: ", "before_and_after.png"]
    places = [said.index(text) for text in shown]
    assert places == sorted(places)
    assert not re.search("DEBUG|INFO|Warning|fairseq-train", said)
    assert (tmp_path / "before_and_after.png").read_bytes().startswith(b"\x89PNG")


def test_the_notebook(monkeypatch, capsys):
    monkeypatch.chdir(ROOT / "examples")
    notebook = json.loads(Path("tour.ipynb").read_text(encoding="utf-8"))
    names: dict = {}
    for cell in [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]:
        exec(re.sub(r"(?m)^Show\(", "shown = Show(", "".join(cell["source"])), names)
        streams = [out["text"] for out in cell["outputs"] if out["output_type"] == "stream"]
        assert capsys.readouterr().out == "".join(sum(streams, []))
    assert re.match('<img alt="[^"]+" src="data:image/png;base64,', names["shown"]._repr_html_())


def test_each_sentence_stands_once():
    corpus = grammar.generate(1, {"test": 500, "train": 3000})
    assert corpus == grammar.generate(1, {"test": 500, "train": 3000})
    pairs = corpus["test"] + corpus["train"]
    assert len({en for en, _ in pairs}) == len({de for _, de in pairs}) == len(pairs) == 3500
