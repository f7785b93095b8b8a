"""fairseq's command-line programs, called in this process (fast) or as processes of their own."""

import contextlib
import copy
import importlib
import io
import json
import logging
import re
import shlex
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from command import shell, standard_input
from fairseq.logging import metrics
from torch.utils._pytree import keystr, tree_leaves_with_path

from resmlp_mt.fairseq_fixes import trainings
from resmlp_mt.fairseq_fixes.messages import in_one_line
from resmlp_mt.patching import logging_as_before

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "resmlp_mt"
# the sizes of a model on every command line
SMALL = (
    "--encoder-layers 2 --decoder-layers 2 --decoder-attention-heads 2 "
    "--encoder-embed-dim 16 --decoder-embed-dim 16 "
    "--encoder-ffn-embed-dim 32 --decoder-ffn-embed-dim 32"
)
RECIPE = (
    *("--arch", "resmlp_mt_6", *SMALL.split()),
    *("--max-source-positions", 32, "--max-target-positions", 32),
    *("--optimizer", "adagrad", "--lr", 0.05, "--lr-scheduler", "fixed", "--warmup-updates", 5),
    *("--dropout", 0, "--num-workers", 0, "--cpu"),
    *("--log-format", "json", "--log-interval", 1, "--no-epoch-checkpoints"),
)

LAST = "checkpoint_last.pt"
CRITERION = ("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 0.1)


@contextlib.contextmanager
def own_handlers(stream):
    """Signals and logging as in a fresh process that logs to *stream*; afterwards as before."""
    root = logging.getLogger()
    signals = {number: signal.getsignal(number) for number in (*trainings.SIGNALS, signal.SIGCHLD)}
    with logging_as_before(logging.NOTSET):
        root.handlers[:] = [logging.StreamHandler(stream)]
        root.handlers[0].setFormatter(logging.Formatter("| %(levelname)s | %(name)s | %(message)s"))
        root.setLevel(logging.INFO)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
        try:
            yield
        finally:
            for number, handler in signals.items():
                signal.signal(number, handler)


def call(name, *arguments, stdin=b"", log=None):
    """Call ``fairseq-NAME``; gives its ``out`` and ``log`` (in *log* after an exception, too)."""
    module = importlib.import_module(f"fairseq_cli.{name}")
    out, log = io.StringIO(), log or io.StringIO()
    metrics.reset()
    torch.manual_seed(0)
    if name not in ("preprocess", "score") and "--user-dir" not in arguments:
        arguments = (*arguments, "--user-dir", PACKAGE)
    with (
        mock.patch.object(sys, "argv", [f"fairseq-{name}", *map(str, arguments)]),
        standard_input(stdin),
        contextlib.redirect_stdout(out),
        own_handlers(log),
    ):
        module.cli_main()
    return SimpleNamespace(out=out.getvalue(), log=log.getvalue())


def refusal(name, *arguments, stdin=b""):
    """The one line on standard error with which ``fairseq-NAME`` refuses this command line."""
    with pytest.raises(Exception) as caught:
        call(name, *arguments, stdin=stdin)
    line = in_one_line(caught.value)
    assert line is not None, repr(caught.value)
    return " ".join(line.split())


def process(*command, cwd=ROOT, path=ROOT):
    """Run Python with *command* in a process of its own; *path* is its PYTHONPATH."""
    words = shlex.join(["python", *map(str, command)])
    return shell(words, cwd, PYTHONPATH=str(path), PYTHONWARNINGS="ignore")


def preprocess(destdir, **prefs):
    """Binary data with one dictionary in *destdir*; *prefs* are ``train``, ``valid``, ``test``."""
    options = [word for split, pref in prefs.items() for word in (f"--{split}pref", pref)]
    options += ["--joined-dictionary", "--destdir", destdir, "--workers", 1]
    call("preprocess", "--source-lang", "xx", "--target-lang", "yy", *options)
    return destdir


def training(data, save_dir, *options, criterion=CRITERION):
    """The words that follow ``fairseq-train`` for a small model."""
    return (data, "--save-dir", save_dir, *RECIPE, *criterion, *options)


def train(data, save_dir, *options, log=None):
    """Train a small model; returns what :func:`call` does."""
    return call("train", *training(data, save_dir, *options), log=log)


def generate(data, path, *options):
    """Translate the test set with beam 4; returns the output."""
    options = ("--path", path, "--beam", 4, "--cpu", "--num-workers", 0, *options)
    return call("generate", data, *options).out


def values(log, name):
    """A number from each record that has it: ``loss`` of updates, ``valid_loss`` of validations."""
    records = re.findall(r"\{\"epoch\".*\}$", log, flags=re.MULTILINE)
    found = [json.loads(record).get(name) for record in records]
    return [float(value) for value in found if value is not None]


def load(path):
    """A whole checkpoint."""
    return torch.load(path, map_location="cpu", weights_only=True)


def altered(state: dict, **values) -> dict:
    """A copy with ``cfg__model__dropout=0.1``, say, through dictionaries and namespaces."""
    whole = copy.deepcopy(state)
    for place, value in values.items():
        *outer, last = place.split("__")
        inner = whole
        for name in outer:
            inner = inner[name] if isinstance(inner, dict) else vars(inner)[name]
        (inner if isinstance(inner, dict) else vars(inner))[last] = value
    return whole


def lines(out, kind):
    """fairseq-generate's lines of *kind*, split at tabs, by the sentence's number."""
    found = {}
    for line in out.splitlines():
        if match := re.match(rf"{kind}-(\d+)\t(.*)", line):
            found.setdefault(int(match[1]), []).append(match[2].split("\t"))
    return found


def hypotheses(out):
    """``{number: [(score in base 2, words)]}`` of fairseq-generate or fairseq-interactive."""
    found = lines(out, "H").items()
    return {n: [(float(score), text.split()) for score, text in some] for n, some in found}


def unlike(one, other) -> list[str]:
    """The values of two checkpoints that differ, but for the clock's and the number of starts."""
    kept = []
    for state in map(load, (one, other)):
        own, extra = ("model", "last_optimizer_state"), ("train_iterator", "val_loss", "best")
        kept.append({name: state[name] for name in own})
        kept[-1] |= {name: state["extra_state"][name] for name in extra}
        kept[-1]["history"] = state["optimizer_history"][-1]  # one entry for each start
    return differing(*kept)


def differing(one, other) -> list[str]:
    """The places where nested values differ, bit for bit."""
    leaves = map(tree_leaves_with_path, (one, other))
    some, others = ({keystr(place): value for place, value in each} for each in leaves)
    names = sorted(some.keys() | others.keys())
    return [name for name in names if not _equal(some.get(name), others.get(name))]


def _equal(one, other) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return type(one) is type(other) and one == other
