"""runtime.py by itself: no PyTorch, any text, and no folder but a whole one."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

import hostile_lines
import numpy as np
import onnx
import pytest
from exported_models import LINES, change_file, changed_config, changed_weights, saved_model

from resmlp_mt.cli.main import main
from resmlp_mt.export import runtime
from resmlp_mt.export.runtime import FILES, WEIGHTS, ExportedModel, TranslationError

# Python that finds neither PyTorch nor anything of ours, and runs the program that follows
BARE = """
import importlib.abc, runpy, sys
class Bare(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ("torch", "fairseq", "resmlp_mt", "onnx", "regex", "sacremoses"):
            raise ImportError(f"{name} is not there")
sys.meta_path.insert(0, Bare())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An exported folder, written by the command, and the options of its search."""
    folder = tmp_path_factory.mktemp("runtime")
    options = saved_model(folder)
    (folder / "search.json").write_text('{"lenpen": 1.2}')
    (folder / "text").write_text("\n".join(["", *LINES]) + "\n")
    out = io.StringIO()
    with redirect_stdout(out):
        words = ["export", options.paths[0], "--data", options.data, "--out", folder / "out"]
        assert main(list(map(str, [*words, "--verify", folder / "text"]))) == 0
    said = r"0\.\d MB, float32\n4 of 4 sentences are translated as by PyTorch\n"
    assert re.search(said, out.getvalue())
    return folder / "out"


def bare(folder, *words, text=None):
    """The program in a process of its own: exit status, standard output and error."""
    program = [sys.executable, "-I", "-c", BARE, folder / "runtime.py", *words]
    done = subprocess.run(list(map(str, program)), input=text, capture_output=True)
    return done.returncode, done.stdout, done.stderr.decode()


def test_the_search_of_the_folder(made):
    """Its default, unless the caller gives another."""
    assert json.loads((made / "config.json").read_text())["search"] == {**SEARCH, "lenpen": 1.2}
    assert "beam 4, length penalty 1.2" in (made / "README.md").read_text()
    model = ExportedModel(made)
    own, given, other = (list(model.stream(LINES, lenpen=lenpen)) for lenpen in (None, 1.2, 0.1))
    assert own == given != other


def test_without_torch(made, tmp_path):
    """The translations of every line, in order, with a byte order mark, CRLF and blank lines."""
    lines, source, output = [*LINES, "", *hostile_lines.FIXED], tmp_path / "in", tmp_path / "out"
    text = "".join(f"{line}\r\n" for line in lines).encode()
    source.write_bytes(b"\xef\xbb\xbf" + text)
    status, out, err = bare(made, "--input", source, "--output", output, "--beam", 2)
    assert (status, out, err) == (0, b"", "")
    found = output.read_text(encoding="utf-8").split("\n")[:-1]
    assert found == ExportedModel(made).translate(lines, beam=2)
    assert sorted(tmp_path.iterdir()) == [source, output]
    scored = bare(made, "--beam", 2, "--scores", text=text)[1].decode().split("\n")
    expected = ExportedModel(made).stream(lines, beam=2)
    expected = [f"{one[0].score:.4f}\t{one[0].text}" if one else "\t" for one in expected]
    assert scored == [*expected, ""]
    assert bare(made, text=b"")[:2] == (0, b"")


def test_a_filter_answers_at_once(made):
    """What has been read is translated while more input may come."""
    program = [sys.executable, made / "runtime.py", "--threads", "1"]
    lines = ExportedModel(made, 1).translate(["red dog", "", "the cat", "a"])
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for given, expected in (b"red dog\n", lines[:1]), (b"\nthe cat\n", lines[1:3]):
            process.stdin.write(given)
            process.stdin.flush()
            for line in expected:
                assert process.stdout.readline().decode() == f"{line}\n"
        process.stdin.write(b"a")
        process.stdin.close()
        assert process.stdout.read().decode() == f"{lines[3]}\n"
    assert process.returncode == 0


def test_a_finished_batch_is_given_at_once(made):
    """Of lines that are read together, the first ones need not wait for the others."""
    exported = ExportedModel(made, 1)
    lines, engine = (
        sorted([*LINES, ""], key=lambda x: -len(exported.pieces(x))),
        exported.search_engine,
    )
    with mock.patch.object(engine, "search", wraps=engine.search) as search:
        given_after = [search.call_count for _ in exported.stream(lines, max_tokens=1)]
    assert given_after == [1, 2, 3, 4, 4]


def test_a_killed_program_leaves_no_half_of_its_output(made, tmp_path):
    program = [sys.executable, made / "runtime.py", "--output", tmp_path / "out"]
    with subprocess.Popen(program, stdin=subprocess.PIPE) as process:
        while not list(tmp_path.iterdir()) and process.poll() is None:
            time.sleep(0.05)
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text, words, message",
    [
        (b"red\ndog \xff cat\n", "", "text, line 2: invalid UTF-8"),
        (b"red " * 99, "", r"line 1: \d+ tokens, but the model reads 39"),
        (b"red\n", "--beam 0", "beam 0, nbest 1"),
        (b"red\n", "--lenpen nan", "lenpen nan, max_len_a"),
        (b"red\n", "--output no/out", "No such file .*no/out"),
        (b"red\n", "--output pipe", "pipe is not a regular file"),
        (b"red\n", "--output text", "text is the input"),
        (b"", "--input no", "No such file .*no'"),
    ],
)
def test_errors_of_the_program(made, tmp_path, monkeypatch, capsysbinary, text, words, message):
    """One line on standard error, status 1, no output, and nothing is lost."""
    monkeypatch.setattr(runtime, "__file__", str(made / "runtime.py"))
    monkeypatch.setattr(sys, "argv", ["runtime.py", "--input", "text", *words.split()])
    monkeypatch.chdir(tmp_path)
    Path("text").write_bytes(text)
    os.mkfifo("pipe")
    assert runtime.main() == 1
    out, err = capsysbinary.readouterr()
    assert out == b"" and re.fullmatch(rf"runtime\.py: error: .*{message}.*\n", err.decode())
    assert sorted(os.listdir()) == ["pipe", "text"] and Path("pipe").is_fifo()
    assert Path("text").read_bytes() == text


def test_lines_that_are_refused(made, monkeypatch):
    """The number of a long one counts from the beginning of the text."""
    exported, long = ExportedModel(made), " ".join(LINES * 3)
    cut = exported.search([exported.pieces(long)[:39]])[0][0].text
    assert exported.translate([long], truncate=True) == [cut]
    monkeypatch.setattr(runtime, "CHUNK", 2)
    for lines, message in (
        ([*LINES[:1] * 4, long], "line 5: .* tokens.*shorten"),
        ("red dog", "not one string"),
    ):
        with pytest.raises(TranslationError, match=message):
            exported.translate(lines)


def test_scores_that_are_not_finite(made):
    """The line is named. What comes after the end of a sentence does not matter."""
    exported = ExportedModel(made, threads=1, graph=True)
    pieces = exported.pieces(LINES[2])
    sources = [*[pieces[:9]] * 8, pieces[:17]]  # the last one is searched first, and ends first
    expected = exported.search(sources, beam=1)
    *_, later, end = (len(found[0].pieces) for found in expected)
    assert end < later
    search = exported.search_engine
    run_step = search.run_step

    def overflowing(newest, memory, step, count):
        out = run_step(newest, memory, step, count)
        if step >= first_step:
            out["end_scores"][0] = np.nan
        return out

    with mock.patch.object(search, "run_step", overflowing):
        first_step = end + 1
        assert exported.search(sources, beam=1) == expected
        first_step = end
        assert exported.search(sources, beam=1) == [*expected[:-1], []]
        numbered = mock.patch.object(exported, "pieces", sources.__getitem__)
        with numbered, pytest.raises(TranslationError, match="^line 9: .* NaN .* --float16"):
            exported.translate(range(9), beam=1)


def weights_elsewhere(data):
    """A graph that would read another file of the computer."""
    model = onnx.load_from_string(data)
    weights = next(w for w in model.graph.initializer if w.external_data)
    weights.external_data[0].value = "/etc/passwd"
    return model.SerializeToString()


def with_bias(**entry):
    """Another description of one array."""
    return changed_weights(lambda arrays: arrays["decoder.0.query.bias"].update(entry))


SEARCH = {"beam": 4, "lenpen": 1, "max_len_a": 0, "max_len_b": 200}
# config.json lists the files as they are, as whoever means harm would see to
HOSTILE = [
    ("step.onnx", lambda data: data[: len(data) // 2], ""),
    ("encoder.onnx", weights_elsewhere, "refers to other files"),
    ("spm.model", lambda _: b"\0" * 99, ""),
    ("target.txt", lambda data: data[:-9], ""),
    ("source.txt", lambda data: b"the\n" * data.count(b"\n"), ""),
    ("source.txt", lambda data: b"\xff" + data, ""),
    (WEIGHTS, lambda data: data[:-9], ""),
    (WEIGHTS, lambda data: data[:8] + b"[]" + data[10:], ""),
    (WEIGHTS, changed_weights(lambda arrays: arrays.pop("decoder.0.query.bias")), ""),
    (WEIGHTS, with_bias(shape=[-2]), ""),
    (WEIGHTS, with_bias(dtype="F16"), ""),
    (WEIGHTS, with_bias(dtype="O"), ""),
    (WEIGHTS, with_bias(data_offsets=[1 << 40, (1 << 40) + 64]), ""),
    ("config.json", changed_config(format=2), "export the model again"),
    ("config.json", changed_config(positions=[999, 999]), ""),
    ("config.json", changed_config(files={}), ""),
    ("config.json", changed_config(memory=[1, 5]), "damaged"),
    ("config.json", changed_config(embeddings=[["decoder.0.first", 1], ["none", 1]]), ""),
    ("config.json", changed_config(search={**SEARCH, "beam": "x"}), ""),
    ("config.json", changed_config(search={**SEARCH, "lenpen": 99}), ""),
    ("config.json", changed_config(normalisation=[["(", ""]]), ""),
    ("config.json", lambda _: b"[]", ""),
]


@pytest.mark.parametrize("name, change, said", HOSTILE)
def test_hostile_folders(made, tmp_path, name, change, said):
    folder = shutil.copytree(made, tmp_path / "bad")
    listed = (folder / "config.json").read_bytes()
    change_file(folder, name, change)
    assert said in refused(folder)
    if name != "config.json":
        (folder / "config.json").write_bytes(listed)
        assert f"{name} is not the file that config.json lists" in refused(folder)


def test_files_elsewhere(made, tmp_path):
    """A file may be a link, as in the caches of model hubs."""
    assert "No such file" in refused(tmp_path / "nothing")
    folder = shutil.copytree(made, tmp_path / "bad")
    for name in FILES:
        (folder / name).unlink()
        (folder / name).symlink_to(made / name)
    assert ExportedModel(folder).translate(LINES) == ExportedModel(made).translate(LINES)
    (folder / "step.onnx").unlink()
    assert "step.onnx: No such file" in refused(folder)


def refused(folder: Path) -> str:
    """One line that says what is wrong."""
    with pytest.raises(TranslationError) as error:
        ExportedModel(folder, graph=True).translate(["red"])
    message = str(error.value)
    assert str(folder) in message and "\n" not in message and len(message) < 400
    return message


def test_options_of_a_search(made):
    """The limit is that of each sentence. None is ignored because it is mistyped."""
    model, limit = ExportedModel(made), {"max_len_a": 0.6, "max_len_b": 1}
    alone = [model.translate([line], **limit)[0] for line in LINES]
    assert model.translate(LINES, **limit) == alone != model.translate(LINES, max_len_b=1)
    with pytest.raises(TypeError, match="beams"):
        model.translate(["red"], beams=4)
