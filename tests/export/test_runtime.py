"""runtime.py by itself: no PyTorch, any text, and no folder but a whole one."""

import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import hostile_lines
import numpy as np
import pytest
from exported_models import LINES, damaged, write_checkpoint, write_data

from resmlp_mt.cli.main import main
from resmlp_mt.export import runtime
from resmlp_mt.export.runtime import ExportedModel, TranslationError

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
    options = write_checkpoint(write_data(folder / "data"), folder / "model.pt")
    (folder / "lines").write_text("\n".join(LINES) + "\n")
    out = io.StringIO()
    with redirect_stdout(out):
        words = [options.paths[0], "--data", options.data, "--out", folder / "out"]
        search = ["--beam", "3", "--lenpen", "1.2"]
        assert main(["export", *map(str, words), *search, "--verify", str(folder / "lines")]) == 0
    assert re.search(r"out: 0\.\d MB, float32\n.*4 of 4 translations are the same", out.getvalue())
    return folder / "out"


def bare(folder, *words, text=None):
    """The program in a process of its own: exit status, standard output and error."""
    program = [sys.executable, "-I", "-c", BARE, folder / "runtime.py", *words]
    done = subprocess.run(list(map(str, program)), input=text, capture_output=True)
    return done.returncode, done.stdout, done.stderr.decode()


def test_the_search_of_the_folder(made):
    """Its default, unless the caller gives another."""
    config = json.loads((made / "config.json").read_text())
    assert config["search"] == {"beam": 3, "lenpen": 1.2, "max_len_a": 0, "max_len_b": 200}
    assert "beam 3, length penalty 1.2" in (made / "README.md").read_text()
    given, own = ExportedModel(made).translate(LINES, beam=3, lenpen=1.2), ExportedModel(made)
    assert own.translate(LINES) == given
    scores = [[h.score for h in hs] for hs in own.stream(LINES, lenpen=0.1)]
    assert scores != [[h.score for h in hs] for hs in own.stream(LINES)]


def test_without_torch(made, tmp_path):
    """The translations of every line, in order, with a byte order mark, CRLF and blank lines."""
    lines = [*LINES, "", *hostile_lines.FIXED]
    text = "".join(f"{line}\r\n" for line in lines).encode()
    (tmp_path / "in").write_bytes(b"\xef\xbb\xbf" + text)
    words = ("--max-len-b", 10, "--beam", 2, "--nbest", 2)
    status, out, err = bare(made, "--input", tmp_path / "in", "--output", tmp_path / "out", *words)
    assert (status, out) == (0, b"") and "Traceback" not in err
    assert f"{len(lines)} of {len(lines)} lines" in err
    found = (tmp_path / "out").read_text(encoding="utf-8").split("\n")[:-1]
    expected = ExportedModel(made).translate(lines, max_len_b=10, beam=2, nbest=2)
    flat = [text for one in expected for text in one + [""] * (2 - len(one))]
    assert found == flat and len(found) == 2 * len(lines)
    assert not list(tmp_path.glob("*.tmp"))
    (tmp_path / "in.gz").write_bytes(gzip.compress(text))
    for given, source in ((b"", tmp_path / "in.gz"), (text, "-")):
        _, out, _ = bare(made, "--input", source, "--output", "-", *words, text=given)
        assert out == (tmp_path / "out").read_bytes()
    (tmp_path / "in.gz").write_bytes(gzip.compress(text)[:-9])
    status, _, err = bare(made, "--input", tmp_path / "in.gz")
    assert status == 1 and err.endswith("in.gz: cut off or damaged: copy it again\n")


@pytest.mark.parametrize(
    "text, words, message",
    [
        (b"red\n" + b"dog \xff cat\n", (), r"standard input, line 2: invalid UTF-8 \(byte 5"),
        (b"", (), "standard input: empty file"),
        (b"red " * 99, (), r"sentence 1: \d+ pieces, but the model takes 39"),
        (b"red\n", ("--beam", 0), "beam 0, nbest 1"),
        (b"red\n", ("--max-len-b", -1), "max_len_b -1: give a lenpen"),
        (b"red\n", ("--lenpen", 300), "lenpen 300.0, max_len_a"),
        (b"red\n", ("--lenpen", "nan"), "lenpen nan"),
        (b"red\n", ("--output", "/nowhere/out"), "/nowhere/out"),
    ],
)
def test_errors_of_the_program(made, monkeypatch, capsysbinary, text, words, message):
    """One line on standard error, status 1, no output."""
    monkeypatch.setattr(runtime, "__file__", str(made / "runtime.py"))
    monkeypatch.setattr(sys, "argv", ["runtime.py", *map(str, words)])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert runtime.main() == 1
    out, err = capsysbinary.readouterr()
    assert out == b"" and re.fullmatch(rf"runtime\.py: error: .*{message}.*\n", err.decode())


def test_the_line_that_is_too_long(made, monkeypatch):
    """Its number counts from the beginning of the text."""
    monkeypatch.setattr(runtime, "CHUNK", 2)
    with pytest.raises(TranslationError, match="sentence 5: .* pieces"):
        ExportedModel(made).translate([*LINES[:1] * 4, "red " * 99])


def test_scores_that_are_not_finite(made, monkeypatch):
    """The sentence is named. What comes after its end is not looked at."""
    exported = ExportedModel(made, threads=1)
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

    monkeypatch.setattr(search, "run_step", overflowing)
    first_step = end + 1
    assert exported.search(sources, beam=1) == expected
    first_step = end
    with pytest.raises(TranslationError, match="^sentence 109: .* NaN .* --float16"):
        exported.search(sources, beam=1, first=101)


def test_outputs_that_would_be_lost(made, tmp_path, monkeypatch, capsys):
    """Not the input is written over, nor what is no file."""
    source = tmp_path / "in"
    source.write_text("red\n")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(runtime, "__file__", str(made / "runtime.py"))
    for output, said in (
        ("in", "in is the input"),
        ("pipe", "pipe is no regular file"),
        (".", "is no regular file"),
        ("no/out", "no/out has no folder"),
    ):
        words = ["runtime.py", "--input", str(source), "--output", str(tmp_path / output)]
        monkeypatch.setattr(sys, "argv", words)
        assert runtime.main() == 1
        assert said in capsys.readouterr().err
    assert source.read_text() == "red\n" and (tmp_path / "pipe").is_fifo()


def test_closed_streams(made, tmp_path):
    """Messages do not go to standard output where standard error is closed."""
    (tmp_path / "in").write_text("red\n")
    program = [sys.executable, str(made / "runtime.py"), "--input", str(tmp_path / "in")]

    def closing(stream, *words):
        command = ["bash", "-c", f'"$@" {stream}', "bash", *words]
        return subprocess.run(command, capture_output=True, text=True)

    assert closing("2>&-", *program).stdout == f"{ExportedModel(made).translate(['red'])[0]}\n"
    for stream, name, words in (("<&-", "input", program[:2]), (">&-", "output", program)):
        done = closing(stream, *words)
        assert done.returncode == 1 and f"standard {name} is closed" in done.stderr


def test_one_str_is_no_list_of_lines(made):
    with pytest.raises(TranslationError, match="one str"):
        ExportedModel(made).translate("red dog")


def test_truncate(made):
    exported = ExportedModel(made)
    long = " ".join(LINES * 3)
    with pytest.raises(TranslationError, match="shorten"):
        exported.translate([long])
    cut = exported.search([exported.pieces(long)[:39]])[0][0].text
    assert exported.translate([long], truncate=True) == [cut]


def checked_again(folder, name):
    """Make config.json list a changed file as it is now, as whoever means harm would."""
    import hashlib

    config = json.loads((folder / "config.json").read_text())
    data = (folder / name).read_bytes()
    config["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "config.json").write_text(json.dumps(config))


def changed_config(**values):
    def change(data):
        return json.dumps({**json.loads(data), **values}).encode()

    return change


def elsewhere(file):
    place = {"file": file, "type": "float32", "offsets": [10**9], "channels": 16, "scale": 1.0}
    return {"source": place, "target": place}


DAMAGE = {
    "graph cut off": ("step.onnx", lambda data: data[: len(data) // 2]),
    "flipped bit": ("encoder.onnx", lambda data: data[:999] + bytes([data[999] ^ 1]) + data[1000:]),
    "other runtime's format": ("config.json", changed_config(format=99)),
    "other sizes": ("config.json", changed_config(positions=[999, 999])),
    "other vocabulary": ("config.json", changed_config(vocabulary=[5, 5])),
    "no files": ("config.json", changed_config(files={})),
    "a list for files": ("config.json", changed_config(files=[])),
    "memory of another shape": ("config.json", changed_config(memory=[1, 5])),
    "embeddings elsewhere": ("config.json", changed_config(embeddings=elsewhere("../target.txt"))),
    "embeddings past the end": ("config.json", changed_config(embeddings=elsewhere("step.onnx"))),
    "a word for a beam": ("config.json", changed_config(search={"beam": "4"})),
    "a rule that is none": ("config.json", changed_config(normalisation=[["(", ""]])),
    "not JSON": ("config.json", lambda data: data[:-9]),
    "a list": ("config.json", lambda data: b"[]"),
    "subwords cut off": ("spm.model", lambda data: data[:99]),
}
# with a config.json that lists what is there
MEANT = {
    "graph cut off": ("step.onnx", lambda data: data[: len(data) // 2]),
    "no graph": ("encoder.onnx", lambda data: b"\x00" * 99),
    "no subwords": ("spm.model", lambda data: b"\x00" * 99),
    "fewer words": ("target.txt", lambda data: data[:-9]),
    "words twice": ("source.txt", lambda data: b"the\n" * data.count(b"\n")),
    "not text": ("source.txt", lambda data: b"\xff" + data),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_folders(made, tmp_path, what):
    name, change = DAMAGE[what]
    refused(damaged(made, tmp_path / "bad", name, change))


@pytest.mark.parametrize("what", MEANT)
def test_folders_that_mean_harm(made, tmp_path, what):
    name, change = MEANT[what]
    folder = damaged(made, tmp_path / "bad", name, change)
    checked_again(folder, name)
    refused(folder)


def test_weights_elsewhere(made, tmp_path):
    """A graph that would read another file of the computer is not loaded."""
    import onnx

    folder = tmp_path / "bad"
    shutil.copytree(made, folder)
    model = onnx.load(folder / "encoder.onnx")
    weights = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    (tmp_path / "secret").write_bytes(weights.raw_data)
    weights.ClearField("raw_data")
    weights.data_location = onnx.TensorProto.EXTERNAL
    weights.external_data.add(key="location", value=str(tmp_path / "secret"))
    (folder / "encoder.onnx").write_bytes(model.SerializeToString())
    checked_again(folder, "encoder.onnx")
    assert "refers to other files" in refused(folder)


def test_path_out_of_the_folder(made, tmp_path):
    """Only the folder's own files are opened, whatever config.json calls them."""
    folder = tmp_path / "bad"
    shutil.copytree(made, folder)
    (tmp_path / "encoder.onnx").write_bytes((folder / "encoder.onnx").read_bytes())
    (folder / "encoder.onnx").unlink()
    config = json.loads((folder / "config.json").read_text())
    config["files"]["../encoder.onnx"] = config["files"].pop("encoder.onnx")
    (folder / "config.json").write_text(json.dumps(config))
    refused(folder)


def test_links(made, tmp_path):
    """A file of the folder may be a link inside it, but not to another folder."""
    folder = tmp_path / "bad"
    shutil.copytree(made, folder)
    (folder / "step.onnx").rename(folder / "other.onnx")
    (folder / "step.onnx").symlink_to("other.onnx")
    assert ExportedModel(folder).translate(LINES) == ExportedModel(made).translate(LINES)
    (folder / "step.onnx").unlink()
    (folder / "step.onnx").symlink_to(made / "step.onnx")
    assert "link to another folder" in refused(folder)


def refused(folder: Path) -> str:
    """One line that says what is wrong."""
    with pytest.raises(TranslationError) as error:
        ExportedModel(folder).translate(LINES)
    message = str(error.value)
    assert message and "\n" not in message and len(message) < 400
    return message


def test_not_there(tmp_path):
    refused(tmp_path / "nothing")
