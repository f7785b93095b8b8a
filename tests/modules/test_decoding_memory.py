"""What decoding remembers, against attention and sums over copies for every hypothesis."""

import pytest
import torch
from fairseq.modules import MultiheadAttention
from helpers import build_model, gap, mixings, pad_batch, random_sentences
from torch.nn import functional as F

from resmlp_mt.inference.folding import fold_
from resmlp_mt.modules import beam_history
from resmlp_mt.modules.beam_history import BeamHistory
from resmlp_mt.modules.source_memory import SourceMemory

SOURCE, SENTENCES, CHANNELS, HEADS = 7, 6, 12, 3
LENGTHS = (7, 2, 5, 7, 1, 4)


class Expanded:
    """A SourceMemory, and beside it which sentence each hypothesis is of; two layers."""

    def __init__(self, padded, beam=1):
        self.states = torch.randn(SOURCE, SENTENCES, CHANNELS)
        self.mask = torch.arange(SOURCE) >= torch.tensor(LENGTHS).unsqueeze(1) if padded else None
        self.sentence = torch.arange(SENTENCES).repeat_interleave(beam)
        self.memory = SourceMemory(self.states, self.mask, self.sentence if beam > 1 else None)
        self.attentions = [
            MultiheadAttention(CHANNELS, HEADS, encoder_decoder_attention=True).eval()
            for _ in range(2)
        ]
        self.projected = []  # shapes of all keys that were computed
        for attention in self.attentions:
            attention.k_proj.register_forward_hook(
                lambda *call: self.projected.append(call[2].shape)
            )

    def reorder(self, order):
        self.memory.reorder(torch.tensor(order))
        self.sentence = self.sentence[order]

    def expected(self, attention, query):
        """Softmax, written out, for one hypothesis after the other."""
        values, weights = [], []
        for q, sentence in zip(query, self.sentence.tolist()):
            length = LENGTHS[sentence] if self.mask is not None else SOURCE
            states = self.states[:length, sentence]
            key, value = attention.k_proj(states), attention.v_proj(states)
            size = CHANNELS // HEADS
            columns = [slice(h * size, (h + 1) * size) for h in range(HEADS)]
            w = [torch.softmax(key[:, c] @ q[c] / size**0.5, dim=0) for c in columns]
            values.append(torch.cat([w[h] @ value[:, c] for h, c in enumerate(columns)]))
            weights.append(torch.stack([torch.cat([x, x.new_zeros(SOURCE - length)]) for x in w]))
        return torch.stack(values), torch.stack(weights, dim=1).unsqueeze(2)

    @torch.no_grad()
    def check(self, layers=(0, 1)):
        for layer in layers:
            query = torch.randn(len(self.sentence), CHANNELS)
            attention = self.attentions[layer]
            values, weights = self.expected(attention, query)
            plain, none = self.memory.attend(layer, attention, query)
            both, found = self.memory.attend(layer, attention, query, need_weights=True)
            assert none is None and found.shape == (HEADS, len(query), 1, SOURCE)
            assert gap(plain, values) < 1e-5 and gap(both, values) < 1e-5
            assert gap(found, weights) < 1e-5


padded_ = pytest.mark.parametrize("padded", [True, False], ids=["padded", "full"])


@padded_
@pytest.mark.parametrize("beam", [1, 4])
def test_beams_that_move(padded, beam):
    """Within their sentence: nothing of the memory changes."""
    case = Expanded(padded, beam)
    case.check()
    sentence = case.memory.sentence
    for _ in range(3):
        places = torch.arange(SENTENCES).unsqueeze(1) * beam
        case.reorder((places + torch.randint(beam, (SENTENCES, beam))).flatten().tolist())
        case.check()
    assert case.memory.stored == SENTENCES and case.memory.sentence is sentence


@padded_
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
def test_random_orders(padded, beam, late):
    """Sentences dropped, repeated and moved, and beams of equal and unequal numbers; *late*: the
    keys and values of a layer are first asked for after that."""
    generator = torch.Generator().manual_seed(beam)
    for round_ in range(12):
        case = Expanded(padded, beam)
        case.check([] if late else [0])
        for _ in range(4):
            rows = len(case.sentence)
            if round_ % 2:  # whole sentences in any order, all with the same number of beams
                kept = case.sentence.unique()
                kept = kept[torch.randperm(len(kept), generator=generator)]
                kept = kept[: max(1, len(kept) - round_ % 3)]
                order = [r for s in kept for r in range(rows) if case.sentence[r] == s]
            else:
                size = (int(torch.randint(1, rows + 3, (1,), generator=generator)),)
                order = torch.randint(rows, size, generator=generator).tolist()
            case.reorder(order)
            case.check([0])
        case.check()


@padded_
@pytest.mark.parametrize("kept", [[0, 1, 2, 3, 5], [1, 2, 4, 5], [4], [5, 0, 2], [0, 2, 3, 4]])
@pytest.mark.parametrize("how", ["reorder", "keep"])
def test_dropped_sentences(padded, kept, how):
    """The memory of dropped sentences is given up once a quarter of it is theirs."""
    beam = 3
    case = Expanded(padded, beam)
    case.check()
    rows = [s * beam + b for s in kept for b in range(beam)]
    if how == "reorder":
        case.reorder(rows)
    else:
        case.memory.keep(torch.tensor(kept))
        case.sentence = case.sentence[rows]
    case.check()
    stored = len(kept) if len(kept) <= 0.75 * SENTENCES else SENTENCES
    assert case.memory.stored == stored
    # and go on from there
    case.reorder([2, 0, 1] + list(range(3, len(rows))))
    case.check()
    if len(kept) > 1:
        case.memory.keep(torch.tensor([len(kept) - 1]))
        case.sentence = case.sentence[-beam:]
        case.check()


@padded_
def test_spread(padded):
    """One row a sentence becomes *beam* rows, and again after sentences are gone."""
    case = Expanded(padded)
    case.check()
    case.memory.spread(4)
    case.sentence = case.sentence.repeat_interleave(4)
    case.check()
    case.memory.keep(torch.tensor([0, 2, 3, 4, 5]))
    case.sentence = torch.tensor([0, 2, 3, 4, 5]).repeat_interleave(4)
    case.memory.spread(2)
    case.sentence = case.sentence[::2]
    case.check()


@padded_
def test_computed_once_a_sentence(padded):
    """Whatever the number of beams, and at however many words."""
    for beam in (1, 5):
        case = Expanded(padded, beam)
        memory_keys = [(SOURCE, SENTENCES, CHANNELS)] * len(case.attentions)
        query = torch.randn(SENTENCES * beam, CHANNELS)
        for _ in range(3):
            for layer, attention in enumerate(case.attentions):
                case.memory.attend(layer, attention, query)
            assert case.projected == memory_keys


def orders(beam, sentences, generator):
    """Beams that move within their sentence, some of which fall together; now and then a sentence
    that is finished."""
    places = torch.arange(sentences)
    if sentences > 2 and torch.rand((), generator=generator) < 0.25:
        places = places[torch.randperm(sentences, generator=generator)[:-1].sort().values]
    picks = torch.randint(beam, (len(places), beam), generator=generator)
    return (places.unsqueeze(1) * beam + picks).flatten()


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("beam, share_from", [(4, 1), (4, 10**9), (1, 1), (3, 40)])
def test_weighted_sum(heads, beam, share_from, monkeypatch):
    """Each hypothesis's own past inputs, collected one by one."""
    monkeypatch.setattr(beam_history, "SHARE_FROM", share_from)
    generator = torch.Generator().manual_seed(heads + beam)
    history, pasts, layers, sentences = BeamHistory(), {}, (0, 1), 5
    rows = sentences * beam
    for length in range(1, 15):
        history.beam = beam
        history.advance(rows, torch.device("cpu"))
        assert len(history) == length
        for layer in layers:
            x = torch.randn(rows, 8, generator=generator)
            weights = torch.randn(heads, length, generator=generator)
            past = pasts.get(layer, x.new_empty(rows, 0, 8))
            pasts[layer] = torch.cat([past, x.unsqueeze(1)], dim=1)
            expected = torch.einsum(
                "ht,rthc->rhc", weights, pasts[layer].view(rows, length, heads, -1)
            ).reshape(rows, 8)
            assert gap(history.weighted_sum(layer, x, weights), expected) < 1e-5
        order = orders(beam, rows // beam, generator)
        history.reorder(order)
        pasts = {layer: past[order] for layer, past in pasts.items()}
        rows = len(order)
    assert rows < sentences * beam


def test_shared_words_are_summed_once(monkeypatch):
    """All beams that come from one hypothesis: its past is one entry, not four."""
    monkeypatch.setattr(beam_history, "SHARE_FROM", 1)
    summed, embedding_bag = [], F.embedding_bag
    monkeypatch.setattr(
        F,
        "embedding_bag",
        lambda rows, *a, **k: summed.append(len(rows)) or embedding_bag(rows, *a, **k),
    )
    history = BeamHistory()
    history.beam = 4
    for step in range(6):
        summed.clear()
        history.advance(8, torch.device("cpu"))
        history.weighted_sum(0, torch.randn(8, 4), torch.randn(1, step + 1))
        assert sum(summed) == 8 + 2 * step  # 8 newest words, and the past of 2 sentences
        history.reorder(torch.tensor([1, 1, 1, 1, 7, 7, 7, 7]))


def test_beams_that_move_copy_no_input():
    history, channels = BeamHistory(), 4096
    for step in range(3):
        history.advance(4, torch.device("cpu"))
        history.weighted_sum(0, torch.randn(4, channels), torch.randn(1, step + 1))
    with torch.profiler.profile(profile_memory=True) as profile:
        history.reorder(torch.tensor([3, 3, 0, 1]))
    made = [event.self_cpu_memory_usage for event in profile.events()]
    assert any(made) and sum(size for size in made if size > 0) < channels


def test_encoder_output_is_left_alone():
    """The very object where beams move within their sentence, and the right rows otherwise."""
    model, dictionary = build_model()
    out = model.encoder(pad_batch(random_sentences(dictionary, (3, 8, 5)), dictionary, left=True))
    first = model.encoder.reorder_encoder_out(out, torch.arange(3).repeat_interleave(2))
    assert first is not out
    for order in ([1, 0, 2, 3, 5, 4], [1, 1, 2, 2, 4, 4], [0, 1, 2, 3, 4, 5]):
        assert model.encoder.reorder_encoder_out(first, torch.tensor(order)) is first
    moved = first
    rows = torch.tensor([0, 0, 1, 1, 2, 2])
    for order in ([2, 3, 0, 1, 4, 5], [5, 4, 0], [1, 1, 2, 0, 0]):
        order = torch.tensor(order)
        moved, rows = model.encoder.reorder_encoder_out(moved, order), rows[order]
        assert torch.equal(moved["encoder_out"][0], out["encoder_out"][0][:, rows])
        assert torch.equal(moved["encoder_padding_mask"][0], out["encoder_padding_mask"][0][rows])
        assert moved["sentence_of_row"].tolist() == rows.tolist()
        assert moved["sentences"]["encoder_out"][0] is out["encoder_out"][0]


@mixings
@pytest.mark.parametrize("folded", [False, True], ids=["unfolded", "folded"])
@torch.no_grad()
def test_decoder_with_shared_words(kind, heads, folded, monkeypatch):
    """Word by word as in a full pass where sums over shared words are always made."""
    monkeypatch.setattr(beam_history, "SHARE_FROM", 1)
    model, dictionary = build_model(token_mixing=kind, token_mixing_heads=heads)
    full, _ = build_model(token_mixing=kind, token_mixing_heads=heads)
    if folded:
        fold_(model)
    beam, generator = 4, torch.Generator().manual_seed(heads)
    source = pad_batch(random_sentences(dictionary, (3, 10, 6, 8)), dictionary, left=True)
    beams = torch.arange(4).repeat_interleave(beam)
    encoder_out = model.encoder.reorder_encoder_out(model.encoder(source), beams)
    full_out = full.encoder.reorder_encoder_out(full.encoder(source), beams)
    tokens, state = torch.full((len(beams), 1), dictionary.eos()), {}
    for _ in range(12):
        logits, _ = model.decoder(tokens, encoder_out, state)
        expected, _ = full.decoder(tokens, full_out)
        assert gap(logits[:, 0], expected[:, -1]) < 2e-4
        order = orders(beam, len(tokens) // beam, generator)
        model.decoder.reorder_incremental_state_scripting(state, order)
        encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
        full_out = full.encoder.reorder_encoder_out(full_out, order)
        words = torch.randint(4, len(dictionary), (len(order), 1), generator=generator)
        tokens = torch.cat([tokens[order], words], dim=1)
