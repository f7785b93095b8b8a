"""What a search asks of a GPU: launches a step, waits, transfers; and that it runs on one."""

import pytest
from helpers import build_model, forbid_the_end_
from operations import Operations
from test_search import batch_of

from resmlp_mt.decoding import candidates, history, hypotheses, search
from resmlp_mt.decoding.hypotheses import Fetched, Hypotheses
from resmlp_mt.decoding.search import ResMLPGenerator
from resmlp_mt.model.folding import fold_


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    monkeypatch.setattr(history.BeamHistory, "launch_bound", True)
    for module in (candidates, search):
        monkeypatch.setattr(module, "in_chunks", lambda x: False)


def searched(model, dictionary, batch, **options):
    return ResMLPGenerator([model], dictionary, beam_size=4, **options).generate([model], batch)


def operations_of(words: int, kind: str = "linear") -> Operations:
    """Those of a search of that many words by the six layers of the paper."""
    model, dictionary = build_model(
        "resmlp_mt_6", decoder_layers=6, vocabulary=1500, std=0.1, token_mixing=kind
    )
    fold_(model)
    forbid_the_end_(model, dictionary)
    batch = batch_of(dictionary, (10, 2, 5, 12))
    with Operations() as counted:
        searched(model, dictionary, batch, max_len_b=words)
    return counted


def a_step(monkeypatch, kind: str = "linear"):
    """All operations that PyTorch dispatches in 8 steps of a search by six layers: those that
    compute or copy, views and waits. The host puts the results together after the steps."""
    monkeypatch.setattr(Hypotheses, "fetch", lambda self: FETCHED)
    few, many = (operations_of(words, kind) for words in (12, 20))
    return many.work - few.work, many.views - few.views, many.waits - few.waits


class FETCHED:
    """In place of what a search has found."""

    @staticmethod
    def not_finite():
        return []

    @staticmethod
    def results(length_penalty):
        return []


@pytest.mark.parametrize("kind", ["linear", "toeplitz"])
def test_operations_of_a_step(kind, as_on_a_gpu, monkeypatch):
    work, views, waits = a_step(monkeypatch, kind)
    assert sum(waits.values()) == 1, waits  # in 8 steps
    assert sum(work.values()) / 8 <= 113, work  # each is a launch
    assert sum(views.values()) / 8 <= 60, views


def test_results_by_one_transfer(as_on_a_gpu, monkeypatch):
    """The operations that a device sees when 256 hypotheses are put together: no views."""
    counted, fetch = [], Hypotheses.fetch

    def watched(self):
        with monkeypatch.context() as patched, Operations() as operations:
            patched.setattr(hypotheses, "Fetched", lambda *kept: kept)
            kept = fetch(self)
        counted.append(operations.work + operations.waits)
        return Fetched(*kept)

    monkeypatch.setattr(Hypotheses, "fetch", watched)
    model, dictionary = build_model()
    found = searched(model, dictionary, batch_of(dictionary, (5,) * 64), max_len_b=6)
    assert sum(map(len, found)) == 256
    assert sum(counted[0].values()) <= 20, counted
