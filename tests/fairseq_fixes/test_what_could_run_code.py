"""fairseq's sources, read: what could run text from a file is guarded, or cannot get such text."""

import importlib
import re
import shlex
import shutil
from pathlib import Path

import fairseq
import fairseq_cli
import pytest
from command import shell
from fairseq.models.wav2vec.wav2vec2 import Wav2Vec2Config
from fairseq_programs import process, refusal

from resmlp_mt.literal import literal
from resmlp_mt.pipeline.train.command import training_command
from resmlp_mt_runtime.errors import UserError


def test_every_call_is_known():
    evaluating = []
    for package in (fairseq, fairseq_cli):
        (root,) = map(Path, package.__path__)
        for path in root.rglob("*.py"):
            name = ".".join(path.relative_to(root.parent).with_suffix("").parts)
            calls = re.search(r"(?<![.\w])eval\(", path.read_text("utf-8"))
            if calls and "fairseq.examples" not in name:  # which --user-dir alone imports
                evaluating.append(name)
    assert len(evaluating) > 15
    for name in evaluating:
        module = importlib.import_module(name)
        assert vars(module).get("eval") is literal, name


LITERALS = ["[(512, 3)] * 20", "True", " 1e-4", "-1 + 2 * 3", "10,20", "'a' * 3 + 'b'"]
LITERALS += ["[1] * 2 + 2 * [3]", '{"name": [1], 2: None}', Wav2Vec2Config.conv_feature_layers]
CODE = ["__import__('os').system('true')", "[x for x in (1,)]", "(lambda: 1)()", "open", "f'{1}'"]
CODE += ["1 if True else 2", "2 ** 99999", "a.b", "{**{}}", "'%s' % 1", b"1", "\0", "[1] + (1,)"]
CODE += ["{[]: 1}", "[" * 500 + "]" * 500, "-" * 9000 + "1", "[[[0] * 100000] * 100000] * 1"]
CODE += ["'a' * 1000000000", "b'a' * 1000000000", "[0] * 5000 * 5000", "9" * 5000]
CODE += ["[[0] * 9000, [0] * 9000]", "[0] * 9000 + [0] * 9000", "[" + "0, " * 9000 + "]"]


@pytest.mark.parametrize("text", LITERALS)
def test_literals(text):
    assert literal(text) == eval(text.strip())
    with pytest.raises(TypeError):  # as eval does: fairseq relies on it
        literal(True)


@pytest.mark.parametrize("text", CODE, ids=lambda text: f"{text[:30]!r}")
def test_code_and_large_literals(text):
    with pytest.raises(UserError, match="is refused, because fairseq would run it"):
        literal(text)


def test_nothing_is_imported_from_the_working_directory(tmp_path):
    """By Python in a folder, which says nothing, and by a training on several GPUs."""
    for name in ("examples", "fairseq_cli", "resmlp_mt", "numpy"):
        (tmp_path / name).mkdir()
        code = f"with open('{tmp_path}/ran', 'a') as file: file.write('{name}')"
        (tmp_path / name / "__init__.py").write_text(code)
    command = training_command(Path("gone"), {"--cpu": [], "--arch": ["resmlp_mt_tiny"]}, 2)
    done = shell(shlex.join({"2": "1"}.get(word, word) for word in command), tmp_path)
    assert "fairseq-train: error: " in done.stderr and not (tmp_path / "ran").exists()
    for name in ("fairseq_cli", "resmlp_mt", "numpy"):
        (tmp_path / name / "__init__.py").unlink()
        (tmp_path / name).rmdir()
    code = "from resmlp_mt import ResMLPModel; import examples, logging; print(logging.root)"
    done = process("-W", "default", "-c", code, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("<RootLogger root (WARNING)>\n", "")
    assert (tmp_path / "ran").read_text() == "examples"
    (tmp_path / "ran").unlink()
    for words in ("train gone --out run", "plot gone.pt -o a.png"):
        done = process("-m", "resmlp_mt", *words.split(), cwd=tmp_path)
        assert "error: gone" in done.stderr and not (tmp_path / "ran").exists()


def test_a_folder_runs_no_shell(corpus, tmp_path, monkeypatch):
    """fairseq would hand names of files to a shell; the languages come from such names, too."""
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    language = "x;touch marker;"
    for name in ("xx", "yy", language):  # which share one
        shutil.copy(corpus.data / "dict.xx.txt", tmp_path / f"dict.{name}.txt")
    for side in (language, "yy"):
        for kind in ("fasta", "idx", "bin"):
            (tmp_path / f"valid.{language}-yy.{side}.{kind}").write_text("> a\nw01\n")
    words = (tmp_path, "--arch", "resmlp_mt_6", "--cpu", "--batch-size", 8, "--max-update", 1)
    words += ("--dataset-impl", "fasta")  # a checkpoint may say so
    assert "FASTA is not supported" in refusal("train", *words)
    assert not list((tmp_path / "cwd").rglob("marker"))
