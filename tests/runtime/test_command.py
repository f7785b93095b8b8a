"""``resmlp-translate FOLDER`` does what ``resmlp-mt translate --path FOLDER`` does."""

import gzip

import pytest
from command import resmlp
from exported_models import LINES, saved_model
from fairseq_programs import process

from resmlp_mt.cli import main as cli
from resmlp_mt.export.folder import export
from resmlp_mt.pipeline.translate.translator import Translator
from resmlp_mt_runtime import command

TEXT = [*LINES, "", "x" * 40 + " \N{GRINNING FACE}", " ".join(LINES * 9), "  a\tb \x07 c  "]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    export(Translator(saved_model(folder)), folder / "out", "float32")
    return folder / "out"


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--nbest", 2, "--scores", "--engine", "numpy", "--max-tokens", 50),
        ("--beam", 2, "--lenpen", 2, "--max-len-a", 1, "--max-len-b", 3, "--threads", 1),
        ("--no-repeat-ngram-size", 2),
        ("--beam", 0),
        ("--nbest", 9),
        ("--lenpen", "nan"),
        ("--input", "gone"),
        ("--resume",),
        ("--output", "/nowhere/out"),
    ],
)
def test_both_programs_say_and_write_the_same(made, words):
    stdin = "".join(f"{line}\n" for line in TEXT).encode()
    ours = resmlp("translate", "--path", made, *words, stdin=stdin)
    theirs = resmlp(made, *words, stdin=stdin, program="resmlp-translate")
    assert theirs[:2] == ours[:2] and ours.err
    assert theirs.err.replace("resmlp-translate", "resmlp-mt translate") == ours.err
    assert ours.status or ours.out.count("\n") == len(TEXT) * (2 if "--nbest" in words else 1)


def test_options_reach_the_model(made):
    given = {"engine": "numpy", "threads": 1, "max_tokens": 50, "nbest": 2}
    load, made_from = command.model_of(made, given)
    assert load.keywords == given and load().engine == "numpy"
    assert made_from.keys() == {"model", "nbest"}


def test_files_are_resumed_by_either(made, tmp_path):
    (tmp_path / "in.gz").write_bytes(gzip.compress("\n".join(LINES).encode()))
    files = ("--input", tmp_path / "in.gz", "--output", tmp_path / "out")
    said = resmlp(made, *files, program="resmlp-translate")
    assert said.status == 0 and said.err.endswith(f"{tmp_path / 'out'}: {len(LINES)} lines\n")
    whole = (tmp_path / "out").read_bytes()
    (tmp_path / "out").write_bytes(whole[:20])
    assert resmlp("translate", "--path", made, *files, "--resume").status == 0
    assert (tmp_path / "out").read_bytes() == whole
    (tmp_path / "out").write_bytes(whole[:20])
    assert resmlp(made, *files, "--resume", program="resmlp-translate").status == 0
    assert (tmp_path / "out").read_bytes() == whole
    for name, option in (("beam", ("--beam", 2)), ("scores", ("--scores",))):
        said = resmlp(made, *files, "--resume", *option, program="resmlp-translate")
        assert said.status == 1 and f"is not known to be made from this {name}" in said.err


def test_as_a_module_it_needs_no_pytorch(made, tmp_path):
    (tmp_path / "in").write_text("\n".join(LINES))
    words = ("-m", "resmlp_mt_runtime", made, "--input", tmp_path / "in")
    done = process("-X", "importtime", *words, cwd=tmp_path, path=tmp_path)
    assert done.returncode == 0 and " torch" not in done.stderr and " fairseq" not in done.stderr
    ours = resmlp("translate", "--path", made, "--input", tmp_path / "in")
    assert " sentencepiece" in done.stderr and done.stdout == ours.out


def test_both_help_texts_say_the_same_of_lines_and_options(capsys):
    said = []
    for main, words in ((cli.main, ["translate"]), (command.main, [])):
        with pytest.raises(SystemExit):
            main([*words, "--help"])
        said.append(capsys.readouterr().out)
    ours, theirs = (text[text.index("Only a line feed") :] for text in said)
    paragraph = theirs.partition("\n\n")[0]
    assert ours.startswith(paragraph + "\n\n")
    options = theirs[theirs.index("  --input") :].strip().split("\n  --")
    assert len(options) == 13 and [option for option in options if option not in ours] == []
