"""The runtime by itself: from Python, without PyTorch, and as ``resmlp-translate``."""

import gzip
import os
import pickle
import re
import shutil
import subprocess
import sys
from functools import partial
from unittest import mock

import numpy as np
import pytest
from command import resmlp
from exported_models import LINES, need_library

from resmlp_mt_runtime import Model, UserError, command, model

# Python that finds nothing but what the runtime says that it needs
BARE = """
import importlib.abc, socket, sys
ALLOWED = {"resmlp_mt_runtime", "numpy", "sentencepiece", *sys.stdlib_module_names}
class Bare(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0].lstrip("_") not in {n.lstrip("_") for n in ALLOWED}:
            raise ImportError(f"{name} is not there")
sys.meta_path.insert(0, Bare())
def no_socket(event, args):
    assert not event.startswith("socket."), event
sys.addaudithook(no_socket)
import runpy
runpy.run_module("resmlp_mt_runtime", run_name="__main__")
"""


def test_without_torch(exported, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home)}
    given = {"input": "\n".join(LINES), "text": True, "env": environment, "cwd": tmp_path}
    done = subprocess.run([sys.executable, "-c", BARE, exported], capture_output=True, **given)
    assert done.stdout.splitlines() == Model(exported).translate(LINES), done.stderr
    assert not list(home.iterdir()) and list(tmp_path.iterdir()) == [home]


def test_the_search_of_the_folder_of_the_model_and_of_the_call(exported):
    """That of the call comes before that of the model, and this before the folder's."""
    plain, other = Model(exported), Model(exported, lenpen=-2.0, beam=8)
    asked = plain.translate(LINES, lenpen=np.float64(-2), beam=np.int32(8))
    assert other.translate(LINES) == asked != plain.translate(LINES)
    assert pickle.loads(pickle.dumps(other)).translate(LINES) == asked
    assert other.translate(LINES, **plain.config["search"]) == plain.translate(LINES)


def test_the_limit_is_that_of_each_sentence(exported):
    limit, ours = {"max_len_a": 0.6, "max_len_b": 1}, Model(exported)
    alone = [ours.translate([line], **limit)[0] for line in LINES]
    assert ours.translate(LINES, **limit) == alone != ours.translate(LINES, max_len_b=1)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"beams": 4}, "beams is not an option: give beam, nbest"),
        ({"name": 1}, "name is not an option: give beam, nbest"),
        ({"beam": 0}, "beam 0: give a whole number from 1 to 47"),
        ({"beam": 48}, "beam 48"),
        ({"beam": 2.0}, "beam 2.0"),
        ({"nbest": 5}, "nbest 5: give a whole number from 1 to 4, the beam"),
        ({"lenpen": float("nan")}, "lenpen nan: give a number from -10 to 10"),
        ({"max_len_a": -1}, "max_len_a -1"),
        ({"max_len_b": 0}, "max_len_b 0"),
        ({"max_len_b": True}, "max_len_b True"),
        ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size -1"),
        ({"max_tokens": 0}, "max_tokens 0"),
    ],
)
def test_options_out_of_range(exported, options, message):
    ours = Model(exported)
    for call in (lambda: Model(exported, **options), lambda: ours.translate(["red"], **options)):
        with pytest.raises(UserError, match=re.escape(message)) as error:
            call()
        assert "\n" not in str(error.value)


def test_prefixes_and_scores(exported, monkeypatch):
    """Of text; test_engines.py has those of pieces."""
    ours = Model(exported)
    monkeypatch.setattr(model, "CHUNK", 3)  # of four lines
    prefixes = ["a red dog", "", "old men", "the wall"]
    found = ours.translate(LINES, prefixes=prefixes)
    assert [text.startswith(prefix) for text, prefix in zip(found, prefixes)] == [True] * 4
    assert found[1] == ours.translate(LINES, prefixes=None)[1]
    right, wrong = (ours.score(LINES, some) for some in (found, found[::-1]))
    assert sum(s.score for s in wrong) < sum(s.score for s in right)
    # 5 ** np.int64(-1) is an error
    assert ours.score(LINES, found, lenpen=np.int64(-1)) == ours.score(LINES, found, lenpen=-1)
    for sources, targets, message in (
        (["red"], [], "1 sources, but 0 translations"),
        (["red", " "], ["red", "dog"], "line 2: the source is blank"),
        (["red"], ["red " * 60], "line 1: the translation has more than 39 tokens"),
        (["red " * 60], ["red"], "line 1: the source has more than 39 tokens"),
        ("red", "dog", "pass a list of lines, not one string"),
        (["red", "\ud83d"], ["red"], r"line 2 is not Unicode text: half of a surr.* \('\\ud83d'\)"),
    ):
        with pytest.raises(UserError, match=message):
            ours.score(sources, targets)
    with pytest.raises(UserError, match="half of a surrogate pair"):
        ours.pieces("\ud83d")


def test_a_line_with_a_prefix_is_translated_as_one(exported):
    """Else what its later parts say would come twice, or without it."""
    ours = Model(exported)
    line = "a red wall. " * 3
    assert len(ours.pieces(line)) < ours.limit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("resmlp_mt_runtime.sentences.BOUND", 12)
        parts, found = ours.stream([line, line], nbest=2), ours.stream([line] * 2, ["the wall", ""])
        first, second = [next(found)[0], next(found)[0]], [next(parts), next(parts)[0]]
    whole = ours.translations([ours.pieces(line)], [ours.pieces("the wall")])
    assert first[0].text == next(whole)[0][0].text and first[1].text == second[1].text
    found = ours.translate([line * 9, "red"], prefixes=["the wall", "the"])  # longer than the limit
    assert found[0].startswith("the wall") and found[0].count("the wall") < 2
    assert found[1] == ours.translate(["red"], prefixes=["the"])[0]
    with pytest.raises(UserError, match="a source has [0-9]+ tokens: shorten it to 39"):
        next(ours.translations([ours.pieces(line * 9)]))
    for call in (
        lambda: next(ours.translations("red")),
        lambda: next(ours.translations([["▁red"]], ["the"])),
        lambda: ours.score_pieces(["red"], [["▁the"]]),
    ):
        with pytest.raises(UserError, match="give the pieces of each line, .* not text"):
            call()
    for end in ("<pad>", "</s>"):
        with pytest.raises(UserError, match="a prefix has <pad> or </s>: leave it out"):
            next(ours.translations([["▁red"]], [["▁the", end]]))
    with pytest.raises(UserError, match="1 prefixes: give 2, one for each source"):
        next(ours.translations([["▁red"]] * 2, [["▁the"]]))
    for lines, prefixes, message in (
        (["red"], ["abcd"], "a prefix has 4 tokens: shorten it to 2"),
        (["red"], "the", "pass a list of lines, not one string"),
        (["red"], ["the", "the"], "prefixes: give one for each line, or none"),
        (["red", "red"], ["the"], "prefixes: give one for each line, or none"),
        ("red", [], "pass a list of lines, not one string"),
        (["red", None], [], "line 2 is not a string: None"),
    ):
        with pytest.raises(UserError, match=message):
            ours.translate(lines, prefixes=prefixes, max_len_b=2)
    blank, strange = ours.translate(["", "red"], prefixes=["the wall", "\N{GRINNING FACE} the"])
    assert blank == "" and strange.startswith("\N{GRINNING FACE} the")


@pytest.mark.parametrize("engine", [None, "numpy"])
def test_a_loaded_model_no_longer_needs_its_files(exported, tmp_path, engine):
    """A newer export may be copied over them, even while they are read."""
    folder, read = shutil.copytree(exported, tmp_path / "exported"), model.read_export

    def read_and_replace(folder):
        export = read(folder)
        (folder / "spm.model").write_bytes(b"another")
        return export

    with mock.patch.object(model, "read_export", read_and_replace):
        ours = Model(folder, engine)
    expected, weights = Model(exported, engine).translate(LINES), folder / "weights.safetensors"
    with open(weights, "r+b") as file:
        file.write(bytes(weights.stat().st_size))
    assert ours.translate(LINES) == expected


@need_library
def test_a_model_is_freed_but_not_when_the_process_ends(exported):
    """A server ends while its threads, which are daemons, translate."""
    code = """if True:
        import sys
        from resmlp_mt_runtime import Model, model
        library = model.load_library()
        library.resmlp_free = lambda address: print("freed")
        model.load_library = lambda: library
        first, second = Model(sys.argv[1]), Model(sys.argv[1])
        del first
    """
    done = subprocess.run([sys.executable, "-c", code, exported], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "freed\n", "")


def test_the_engine_and_its_threads_can_be_asked_for(exported, monkeypatch):
    assert Model(exported, "numpy").engine == "numpy"
    with pytest.raises(UserError, match="engine 'graph': give native or numpy"):
        Model(exported, "graph")
    for threads in (0, -1, 1 << 40, "2", 1.5):
        with pytest.raises(UserError, match=f"threads {threads!r}: give a whole number from 1 to "):
            Model(exported, threads=threads)
    monkeypatch.setattr(model, "load_library", lambda: None)
    assert Model(exported).engine == "numpy"
    with pytest.raises(UserError, match="engine native: not built: install"):
        Model(exported, "native")


@need_library
@pytest.mark.parametrize(
    "quota, threads",
    [("max 100000", 3), ("150000 100000", 2), ("5000 100000", 1), ("900000 100000", 3), (None, 3)],
)
def test_as_many_threads_as_the_process_has_cpus(exported, monkeypatch, tmp_path, quota, threads):
    """By the CPUs of its mask, and by the quota of its container."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1, 5, 7})
    monkeypatch.setattr(model, "QUOTA", tmp_path / "cpu.max")
    if quota:
        model.QUOTA.write_text(f"{quota}\n")
    ours = Model(exported)
    assert ours.engine == "native" and ours._engine._threads == threads


def test_a_lack_of_memory_says_what_to_lower(exported, monkeypatch):
    ours = Model(exported)
    monkeypatch.setattr(ours._engine, "search", mock.Mock(side_effect=MemoryError))
    with pytest.raises(UserError, match="out of memory or of threads: lower max_tokens or thr"):
        ours.translate(["red"])
    monkeypatch.setattr(model, "NumpyEngine", mock.Mock(side_effect=MemoryError))
    with pytest.raises(UserError, match="out of memory: close other programs, or export with"):
        Model(exported, "numpy")


TEXT = [*LINES, "", "x" * 40 + " \N{GRINNING FACE}", " ".join(LINES * 9), "  a\tb \x07 c  "]


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--nbest", 2, "--scores", "--engine", "numpy", "--max-tokens", 50),
        ("--beam", 2, "--lenpen", 2, "--max-len-a", 1, "--max-len-b", 3, "--threads", 1),
        ("--no-repeat-ngram-size", 2),
        ("--beam", 0),
        ("--nbest", 9),
        ("--input", "gone"),
    ],
)
def test_both_programs_say_and_write_the_same(exported, words):
    stdin = "".join(f"{line}\n" for line in TEXT).encode()
    ours = resmlp("translate", "--path", exported, *words, stdin=stdin)
    theirs = resmlp(exported, *words, stdin=stdin, program="resmlp-translate")
    assert theirs[:2] == ours[:2] and ours.err
    assert theirs.err.replace("resmlp-translate", "resmlp-mt translate") == ours.err
    assert ours.status or ours.out.count("\n") == len(TEXT) * (2 if "--nbest" in words else 1)


def test_a_file_of_the_export_is_not_overwritten(exported):
    for path in exported.iterdir():
        if path.name != "README.md":
            wrong = f"error: {path} is an input: choose another file to write\n"
            output = ("--output", path)
            assert resmlp(exported, *output, program="resmlp-translate").err.endswith(wrong)
            assert resmlp("translate", "--path", exported, *output).err.endswith(wrong)


def test_options_reach_the_model(exported):
    given = {"engine": "numpy", "threads": 1, "max_tokens": 50, "nbest": 2, "beam": 3}
    load, made_from, _ = command.model_of(exported, {**given, "lenpen": None})
    assert load.keywords == given and load().engine == "numpy"
    assert made_from.keys() == {"model", "nbest", "beam"}


def test_files_are_resumed_by_either(exported, tmp_path):
    (tmp_path / "in.gz").write_bytes(gzip.compress("\n".join(LINES).encode()))
    files = ("--input", tmp_path / "in.gz", "--output", tmp_path / "out")
    ours = partial(resmlp, "translate", "--path")
    theirs = partial(resmlp, program="resmlp-translate")
    said = theirs(exported, *files)
    assert said.status == 0 and said.err.endswith(f"{tmp_path / 'out'}: {len(LINES)} lines\n")
    whole = (tmp_path / "out").read_bytes()
    for program in (ours, theirs):
        (tmp_path / "out").write_bytes(whole[:20])
        assert program(exported, *files, "--resume").status == 0
        assert (tmp_path / "out").read_bytes() == whole
    for name, option in (("beam", ("--beam", 3)), ("scores", ("--scores",))):
        said = theirs(exported, *files, "--resume", *option)
        assert said.status == 1 and f"is not known to be made with the same {name}" in said.err
    (tmp_path / "out").unlink()  # in.gz as `in`, which is also the name of the output
    assert theirs(exported, "--input", tmp_path / "in", "--output", tmp_path / "in").status == 0
    assert (tmp_path / "in").read_bytes() == whole
