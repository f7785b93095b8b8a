"""The runtime by itself: from Python, in an environment of its own, without PyTorch."""

import os
import re
import subprocess
import sys
import threading

import pytest
from exported_models import LINES, saved_model

from resmlp_mt.export.folder import export
from resmlp_mt.pipeline.translate.translator import Translator
from resmlp_mt_runtime import Model, UserError, model, native

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
from resmlp_mt_runtime import Model
print(Model(sys.argv[1]).translate(sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    export(Translator(saved_model(folder)), folder / "out", "float32")
    return folder / "out"


def test_without_torch(made, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home)}
    program = [sys.executable, "-c", BARE, made, *LINES]
    done = subprocess.run(program, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert (done.stdout, done.stderr) == (f"{Model(made).translate(LINES)}\n", "")
    assert not list(home.iterdir()) and list(tmp_path.iterdir()) == [home]


def test_the_search_of_the_folder_of_the_model_and_of_the_call(made):
    """Each goes before the one before it."""
    plain, other = Model(made), Model(made, lenpen=-2.0, beam=8)
    asked = plain.translate(LINES, lenpen=-2.0, beam=8)
    assert other.translate(LINES) == asked != plain.translate(LINES)
    assert other.translate(LINES, **plain.config["search"]) == plain.translate(LINES)


def test_the_limit_is_that_of_each_sentence(made):
    limit, exported = {"max_len_a": 0.6, "max_len_b": 1}, Model(made)
    alone = [exported.translate([line], **limit)[0] for line in LINES]
    assert exported.translate(LINES, **limit) == alone != exported.translate(LINES, max_len_b=1)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"beams": 4}, "beams is no option: give beam, nbest"),
        ({"beam": 0}, "beam 0: give a whole number from 1 to 47"),
        ({"beam": 48}, "beam 48"),
        ({"beam": 2.0}, "beam 2.0"),
        ({"nbest": 5}, "nbest 5: give a whole number from 1 to 4"),
        ({"lenpen": float("nan")}, "lenpen nan: give a number from -10 to 10"),
        ({"max_len_a": -1}, "max_len_a -1"),
        ({"max_len_b": 0}, "max_len_b 0"),
        ({"max_len_b": True}, "max_len_b True"),
        ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size -1"),
        ({"max_tokens": 0}, "max_tokens 0"),
    ],
)
def test_options_out_of_range(made, options, message):
    for call in (lambda: Model(made, **options), lambda: Model(made).translate(["red"], **options)):
        with pytest.raises(UserError, match=re.escape(message)) as error:
            call()
        assert "\n" not in str(error.value)


def test_prefixes(made):
    exported = Model(made)
    prefixes = ["a red dog", "", "old men", "the wall"]
    found = exported.translate(LINES, prefixes=prefixes)
    assert [text.startswith(prefix) for text, prefix in zip(found, prefixes)] == [True] * 4
    assert found != exported.translate(LINES) and found[1] == exported.translate(LINES)[1]
    with pytest.raises(UserError, match="a prefix has 4 tokens, a translation at most 2"):
        exported.translate(["red"], prefixes=["abcd"], max_len_b=2)


def test_scores(made):
    """A line of its own tokens has the score with which it was found."""
    exported = Model(made)
    found = [nbest[0] for nbest in exported.stream(LINES)]
    texts = [one.text for one in found]
    scores = exported.score(LINES, texts)
    assert len({score.score for score in scores}) == 4
    for one, score in zip(found, scores):
        if one.pieces == score.pieces:
            assert score.score == pytest.approx(one.score, abs=1e-4)
    worse = exported.score(LINES, texts[::-1])
    assert sum(s.score for s in worse) < sum(s.score for s in scores)
    for sources, targets, message in (
        (["red"], [], "1 sources, but 0 translations"),
        (["red", " "], ["red", "dog"], "line 2: the source is blank"),
        (["red"], ["red " * 60], "line 1: the translation has more than 39 tokens"),
    ):
        with pytest.raises(UserError, match=message):
            exported.score(sources, targets)


def test_the_engine_can_be_asked_for(made, monkeypatch):
    assert Model(made, "numpy").engine == "numpy"
    with pytest.raises(UserError, match="engine 'graph': give native or numpy"):
        Model(made, "graph")
    monkeypatch.setattr(model, "load_library", lambda: None)
    assert Model(made).engine == "numpy"
    with pytest.raises(UserError, match="engine native: the library is not built here"):
        Model(made, "native")


@pytest.mark.skipif(native.load_library() is None, reason="the library is not built")
def test_threads_stay_on_the_cpus_of_the_process(made):
    """As many as it has, and nowhere else."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        exported, seen = Model(made), set()
        assert exported.engine == "native" and model.count_cpus() == 1
        work = threading.Thread(target=lambda: exported.translate(LINES * 50, max_tokens=40_000))
        work.start()
        while work.is_alive():
            for task in os.listdir("/proc/self/task"):
                try:
                    seen.add((task, frozenset(os.sched_getaffinity(int(task)))))
                except ProcessLookupError:
                    continue
        assert {cpus for _, cpus in seen} <= {frozenset(before), frozenset({min(before)})}
    finally:
        os.sched_setaffinity(0, before)
