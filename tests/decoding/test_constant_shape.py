"""A search whose steps are all alike, as on a GPU: results, operations, compilations."""

import pytest
import torch
from helpers import build_model, forbid_the_end_, pad_batch, random_sentences
from operations import Operations
from test_search import assert_same, batch_of

from resmlp_mt.decoding import candidates, history, hypotheses, search
from resmlp_mt.decoding.hypotheses import Fetched, Hypotheses
from resmlp_mt.decoding.search import ResMLPGenerator
from resmlp_mt.model.folding import fold_
from resmlp_mt.model.mixing_kinds import TOKEN_MIXING

# the others have other numbers of layers, which these tests set
ARCHITECTURES = ("resmlp_mt_6", "resmlp_mt_toeplitz_6", "resmlp_mt_gated_6", "resmlp_mt_conv_6")


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """Steps of constant shape, and passes over memory in one piece."""
    monkeypatch.setattr(history.BeamHistory, "launch_bound", True)
    for module in (candidates, search):
        monkeypatch.setattr(module, "in_chunks", lambda x: False)


def searched(model, dictionary, batch, **options):
    return ResMLPGenerator([model], dictionary, beam_size=4, **options).generate([model], batch)


# without mixing the same words score the same in many orders: which comes first is chance
KINDS = [(kind, 1) for kind in TOKEN_MIXING if kind != "none"] + [("linear", 4)]


@pytest.mark.parametrize("kind, heads", KINDS)
def test_same_results(kind, heads, as_on_a_gpu, monkeypatch):
    """Room for four positions, then eight ...; sentences that end at different steps."""
    model, dictionary = build_model(
        seed=3, token_mixing=kind, token_mixing_heads=heads, token_positional_embeddings=True
    )
    fold_(model)
    batch = batch_of(dictionary, (10, 2, 5, 12, 1, 7, 3, 8))
    monkeypatch.setattr(history, "BUCKET", 4)
    shapes, reorder = set(), history.BeamHistory.reorder

    def watched(self, new_order):
        shapes.add(tuple(self.index.shape))
        reorder(self, new_order)

    monkeypatch.setattr(history.BeamHistory, "reorder", watched)
    found = searched(model, dictionary, batch, max_len_b=20)
    assert {width for _, width in shapes} <= {4, 8, 16, 24} and len(shapes) > 2
    monkeypatch.setattr(history.BeamHistory, "launch_bound", False)
    assert_same(searched(model, dictionary, batch, max_len_b=20), found)


def test_sentences_are_dropped_by_halves(as_on_a_gpu, monkeypatch):
    kept, keep = [], Hypotheses.keep

    def counted(self, sentences):
        kept.append((len(self.left), len(sentences)))
        return keep(self, sentences)

    monkeypatch.setattr(Hypotheses, "keep", counted)
    monkeypatch.setattr(search, "ASK_EVERY", 2)
    model, dictionary = build_model(seed=1, vocabulary=20)
    batch = batch_of(dictionary, (10, 2, 5, 12, 1, 7, 3, 8))
    found = searched(model, dictionary, batch, max_len_b=20)
    assert kept and all(after <= before / 2 for before, after in kept)
    kept.clear()
    monkeypatch.setattr(history.BeamHistory, "launch_bound", False)
    assert_same(searched(model, dictionary, batch, max_len_b=20), found)
    assert any(after > before / 2 for before, after in kept)  # a CPU drops them at once


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


def test_a_wait_in_every_step_is_seen(as_on_a_gpu, monkeypatch):
    add = Hypotheses.add

    def asking(self, normalizers, *candidates):
        bool(normalizers.isnan().any())
        return add(self, normalizers, *candidates)

    monkeypatch.setattr(Hypotheses, "add", asking)
    assert sum(a_step(monkeypatch)[2].values()) >= 9


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


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_one_graph_for_training_and_for_the_encoder(arch):
    model, dictionary = build_model(arch, decoder_layers=1, encoder_layers=1, dropout=0.1)
    source = pad_batch(random_sentences(dictionary, (3, 7, 5)), dictionary, left=True)
    prev = pad_batch(random_sentences(dictionary, (4, 2, 6), 1), dictionary)
    torch._dynamo.reset()
    compiled = torch.compile(model.train(), fullgraph=True, backend="eager")
    loss = compiled(source, None, prev)[0].float().log_softmax(-1).sum()
    loss.backward()
    assert all(p.grad is not None for p in model.parameters())
    model.eval()
    encode = torch.compile(model.encoder, fullgraph=True, backend="eager")
    with torch.no_grad():
        (expected,), (found,) = (f(source)["encoder_out"] for f in (model.encoder, encode))
    torch.testing.assert_close(found, expected)
