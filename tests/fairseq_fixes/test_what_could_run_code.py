"""fairseq's sources, read: what could run text from a file is guarded, or cannot get such text."""

import ast
import importlib
import re
import shlex
import sys
import time
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import fairseq
import fairseq_cli
import pytest
from command import shell
from fairseq.models.wav2vec.wav2vec2 import Wav2Vec2Config
from fairseq_programs import process, refusal

from resmlp_mt.literal import literal
from resmlp_mt.patching import without_examples
from resmlp_mt.pipeline.train.command import training_command
from resmlp_mt_runtime.errors import UserError

# calls, by the last two names, that run code, start a program or read a format that can
RUN = {"eval", "exec", "compile", "__import__", "importlib.import_module", "os.system", "os.popen"}
RUN |= {f"subprocess.{name}" for name in ("call", "check_call", "check_output", "run", "Popen")}
RUN |= {"pickle.load", "pickle.loads", "yaml.load", "joblib.load", "hub.load", "dill.load"}
OPENED = {"torch.load": "weights_only", "np.load": "allow_pickle", "numpy.load": "allow_pickle"}

# what is left besides eval, and why no file reaches it
HARMLESS = {
    "names of fairseq's own files": {
        *("criterions", "data.audio", "data.encoders", "model_parallel.criterions"),
        *("model_parallel.models", "models", "models.ema", "models.huggingface", "optim"),
        *("optim.lr_scheduler", "scoring", "tasks"),
    },
    "--user-dir of the command line": {"utils"},
    "a module of apex": {"optim.fused_adam"},
    "replaced: see test_a_folder_runs_no_shell": {"data.fasta_dataset"},
    "a program of the environment, with a path of the command line": {"data.plasma_utils"},
    "what other processes of the training and Slurm say": {"distributed.utils"},
    "--post-save-script of the command line, for audio": {"tasks.audio_pretraining"},
    "PyYAML's FullLoader, which makes no objects": {"data.audio.data_cfg"},
    "a vocoder of fairseq's own repository": {"models.speech_to_text.hub_interface"},
}


# what imports a package ``examples``, which any folder may have: the first when it is loaded, the
# others where a model, task or criterion is made
FOREIGN = {"tasks.simultaneous_translation", "tasks.speech_to_speech", "tasks.speech_to_text"}
FOREIGN |= {"criterions.ctc", "speech_generator"}


def calls(path):
    """The names of the dangerous calls in a file."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            name = ".".join(ast.unparse(node.func).split(".")[-2:])
            words = [word.arg for word in node.keywords]
            if (
                name in RUN
                or OPENED.get(name, "") in words
                or name == "np.load"
                and len(node.args) > 2
            ):
                yield name


def test_every_call_is_known():
    """A release of fairseq may add one: guard it, or say in HARMLESS why no file reaches it."""
    evaluating, foreign, others = set(), set(), defaultdict(set)
    for package in (fairseq, fairseq_cli):
        (root,) = map(Path, package.__path__)
        for path in sorted(root.rglob("*.py")):
            name = ".".join(path.relative_to(root.parent).with_suffix("").parts)
            if name.startswith("fairseq.examples"):  # imported by --user-dir alone
                continue
            if re.search(r"^\s*(import|from) examples\.", path.read_text("utf-8"), re.MULTILINE):
                foreign.add(name.removeprefix("fairseq."))
            found = set(calls(path))
            if "eval" in found:
                evaluating.add(name)
            if found - {"eval"}:
                others[name.removeprefix("fairseq.").removesuffix(".__init__")] = found
    known = set().union(*HARMLESS.values())
    assert not {name: others[name] for name in others.keys() - known}, "not in HARMLESS"
    assert not known - others.keys(), "gone from fairseq: take it out of HARMLESS"
    assert foreign == FOREIGN
    assert len(evaluating) > 15
    for name in evaluating:
        assert importlib.import_module(name).eval is literal, name


LITERALS = [
    *("[(512, 3)] * 20", "True", "(0.9, 0.98)", " 1e-4", "-1 + 2 * 3", "10,20", "'a' * 3 + 'b'"),
    *("[1] * 2 + 2 * [3]", '{"name": [1], 2: None}', Wav2Vec2Config.conv_feature_layers),
]
CODE = [
    *("__import__('os').system('true')", "[x for x in (1,)]", "(lambda: 1)()", "open", "f'{1}'"),
    *("1 if True else 2", "2 ** 99999", "a.b", "{**{}}", "'%s' % 1", b"1", "\0", "[1] + (1,)"),
    *("{[]: 1}", "[" * 500 + "]" * 500, "-" * 9000 + "1", "[[[0] * 100000] * 100000] * 1"),
    *("'a' * 1000000000", "b'a' * 1000000000", "[0] * 5000 * 5000"),
    *("[[0] * 9000, [0] * 9000]", "[0] * 9000 + [0] * 9000", "9" * 5000, "[" + "0, " * 9000 + "]"),
]


@pytest.mark.parametrize("text", LITERALS)
def test_literals(text):
    assert literal(text) == eval(text.strip())


@pytest.mark.parametrize("text", CODE, ids=lambda text: f"{text[:30]!r}")
def test_code_and_large_literals(text):
    before = time.process_time()
    with pytest.raises(UserError, match="is refused, which fairseq would run"):
        literal(text)
    assert time.process_time() - before < 1


def test_what_is_no_text():
    with pytest.raises(TypeError):  # as eval does: fairseq relies on it
        literal(True)


def test_nothing_is_imported_from_the_working_directory(tmp_path):
    """By Python in a folder, which says nothing, and by a training on several GPUs."""
    for name in ("examples", "fairseq_cli", "resmlp_mt", "numpy"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(
            f"with open('{tmp_path}/ran', 'a') as file: file.write('{name}')"
        )
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


def test_an_imported_examples_stays(monkeypatch):
    for module in (ModuleType("examples"), None):
        if module is not None:
            monkeypatch.setitem(sys.modules, "examples", module)
        with without_examples(), pytest.raises(ImportError):
            importlib.import_module("examples")
        assert sys.modules.get("examples") is module
        monkeypatch.undo()


def test_overrides_run_no_code(trained, tmp_path):
    words = (trained.data, "--path", trained.path, "--cpu")
    words += ("--model-overrides", f"__import__('os').system('touch {tmp_path}/marker')")
    for name, *more in (("validate", "--task", "translation"), ("generate",)):
        assert "is refused" in refusal(name, *words, *more)
    assert not list(tmp_path.iterdir())


def test_a_folder_runs_no_shell(corpus, tmp_path, monkeypatch):
    """fairseq would hand names of files to a shell; the languages come from such names, too."""
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    language = "x;touch marker;"
    for kind in ("xx", "yy"):
        (tmp_path / f"dict.{kind}.txt").write_bytes((corpus.data / f"dict.{kind}.txt").read_bytes())
    (tmp_path / f"dict.{language}.txt").write_bytes((corpus.data / "dict.xx.txt").read_bytes())
    for side in (language, "yy"):
        for kind in ("fasta", "idx", "bin"):
            (tmp_path / f"valid.{language}-yy.{side}.{kind}").write_text("> a\nw01\n")
    words = (tmp_path, "--arch", "resmlp_mt_6", "--cpu", "--batch-size", 8, "--max-update", 1)
    words += ("--dataset-impl", "fasta")  # a checkpoint may say so
    assert "FASTA is not read" in refusal("train", *words)
    assert not list((tmp_path / "cwd").rglob("marker"))
