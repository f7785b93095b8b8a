"""The model against the plain one in reference_model.py: states, logits, gradients, decoding."""

import pytest
import torch
from helpers import build_model, gap, pad_batch, random_sentences, shift
from reference_model import decode, encode

from resmlp_mt.decoding.search import ResMLPGenerator
from resmlp_mt.model.folding import fold_

TOLERANCE = 1e-9
HEADS = 4
SOURCES, TARGETS = (3, 9, 1, 6), (5, 2, 11, 7)
ARCHITECTURES = {
    "resmlp_mt_6": {"share_all_embeddings": True},
    "resmlp_mt_12": {"share_all_embeddings": True},
    "resmlp_mt_tiny": {},
    "resmlp_mt_toeplitz_6": {"share_all_embeddings": True},
    "resmlp_mt_gated_6": {"share_all_embeddings": True},
    "resmlp_mt_conv_6": {"share_decoder_input_output_embed": True},
}
architectures = pytest.mark.parametrize("arch", ARCHITECTURES)
sides = pytest.mark.parametrize("left", [True, False], ids=["left", "right"])


class Pair:
    """A model of random parameters, in float64, and its weights for the reference."""

    def __init__(self, arch, **options):
        options = {"encoder_layers": None, "decoder_layers": None, **options}
        model, self.dictionary = build_model(arch, std=0.2, **ARCHITECTURES[arch], **options)
        self.model = model.double()
        leaves = {}  # one for each parameter, whose names may be several
        self.weights = {
            name: leaves.setdefault(id(p), p.detach().clone().requires_grad_())
            for name, p in model.named_parameters(remove_duplicate=False)
        }
        self.positions = "conv" in arch
        self.sources = random_sentences(self.dictionary, SOURCES)
        self.targets = [shift(s) for s in random_sentences(self.dictionary, TARGETS, seed=1)]

    def encode(self, source):
        return encode(self.weights, source, self.positions)

    def decode(self, target, source):
        memory = self.encode(source)[-1]
        return decode(self.weights, target, memory, HEADS, self.positions)

    def run(self, left_source, left_target):
        """What our model computes for the batch, as :func:`encode` and :func:`decode` give it, a
        list with an entry for each sentence; the encoder's final states apart."""
        tokens = pad_batch(self.sources, self.dictionary, left_source)
        prev = pad_batch(self.targets, self.dictionary, left_target)
        encoded = self.model.encoder(tokens, return_all_hiddens=True)
        logits, extra = self.model.decoder(prev, encoded)
        own, own_target = (batch.ne(self.dictionary.pad()) for batch in (tokens, prev))
        encoder_states = [*encoded["encoder_states"], encoded["encoder_out"][0]]
        found = []
        for i, (s, t) in enumerate(zip(own, own_target)):
            states = [state[t, i] for state in extra["inner_states"]]
            decoded = states, extra["attn"][0][i][t][:, s], logits[i, t]
            found.append(([state[s, i] for state in encoder_states], decoded))
        return found


@architectures
@pytest.mark.parametrize("mode", ["training", "evaluation", "folded"])
@sides
@torch.no_grad()
def test_every_state_and_logit(arch, mode, left):
    """Evaluation drops nothing, whatever the dropout was in training."""
    share = 0.0 if mode == "training" else 0.3
    dropout = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), share)
    pair = Pair(arch, **dropout)
    pair.model.train(mode == "training")
    if mode == "folded":
        fold_(pair.model)
    found = pair.run(left, not left)
    for (encoded, decoded), source, target in zip(found, pair.sources, pair.targets, strict=True):
        expected = pair.encode(source)
        if mode == "folded":  # the encoder's final map is in the decoder's keys and values
            encoded, expected = encoded[:-1], expected[:-1]
        states, *others = decoded
        expected_states, *expected_others = pair.decode(target, source)
        results = [*encoded, *states, *others], [*expected, *expected_states, *expected_others]
        for number, (a, b) in enumerate(zip(*results, strict=True)):
            assert gap(a, b) < TOLERANCE, number


@architectures
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_gradients(arch, training):
    """Of every parameter, for a random weighted sum of the logits."""
    pair = Pair(arch)
    pair.model.train(training)
    ours = [decoded[-1] for _, decoded in pair.run(left_source=True, left_target=False)]
    theirs = [pair.decode(t, s)[-1] for t, s in zip(pair.targets, pair.sources)]
    factors = [torch.randn_like(logits) for logits in theirs]
    for results in (ours, theirs):
        sum((logits * f).sum() for logits, f in zip(results, factors, strict=True)).backward()
    gradients = {name: pair.weights[name].grad for name, _ in pair.model.named_parameters()}
    largest = max(gradient.abs().max() for gradient in gradients.values())
    for name, parameter in pair.model.named_parameters():
        expected = gradients[name]
        # a constant added to all keys changes no softmax: its gradient is rounding alone
        size = largest if name.endswith("k_proj.bias") else expected.abs().max()
        assert size > 0, name
        assert (parameter.grad - expected).abs().max() <= TOLERANCE * size, name


@architectures
@pytest.mark.parametrize("folded", [False, True], ids=["unfolded", "folded"])
@pytest.mark.parametrize("within", [True, False], ids=["beams", "any_rows"])
@torch.no_grad()
def test_word_by_word(arch, folded, within):
    """Hypotheses that beam search repeats, drops and moves, within their sentence or anywhere."""
    pair, beam, steps = Pair(arch), 3, 9
    model, dictionary = pair.model, pair.dictionary
    if folded:
        fold_(model)
    memories = [pair.encode(source)[-1] for source in pair.sources]
    of_sentence = torch.arange(len(memories)).repeat_interleave(beam)
    source = pad_batch(pair.sources, dictionary, left=True)
    own, encoder_out = source.ne(dictionary.pad()), model.encoder(source)
    encoder_out = model.encoder.reorder_encoder_out(encoder_out, of_sentence)
    tokens, state = torch.full((len(of_sentence), 1), dictionary.eos()), {}
    for step in range(steps):
        logits, extra = model.decoder(tokens, encoder_out, state)
        for row, (words, sentence) in enumerate(zip(tokens, of_sentence)):
            expected = decode(pair.weights, words, memories[sentence], HEADS, pair.positions)
            attention = extra["attn"][0][row, 0, own[sentence]]
            assert gap(attention, expected[1][-1]) < TOLERANCE, (step, row)
            assert gap(logits[row, 0], expected[2][-1]) < TOLERANCE, (step, row)
        if within:
            kept = torch.arange(len(tokens) // beam)
            kept = kept[kept != 1] if step in (2, 5) else kept  # a sentence is finished
            order = (kept[:, None] * beam + torch.randint(beam, (len(kept), beam))).flatten()
        else:
            order = torch.randint(len(tokens), (len(tokens),))
        model.decoder.reorder_incremental_state_scripting(state, order)
        encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
        words = torch.randint(dictionary.nspecial, len(dictionary), (len(order), 1))
        tokens, of_sentence = torch.cat([tokens[order], words], dim=1), of_sentence[order]


@pytest.mark.parametrize("beam, vocabulary, length_penalty", [(3, 12, 0.6), (40, 90, 0.0)])
@torch.no_grad()
def test_beam_search_scores(beam, vocabulary, length_penalty):
    """Each hypothesis has the log-probabilities that the reference gives its words (the search
    adds them up in float32), and a mean of them by the length penalty. Sums over the past of 40
    beams share what beams have in common."""
    pair = Pair("resmlp_mt_tiny", vocabulary=vocabulary)
    batch = {"src_tokens": pad_batch(pair.sources, pair.dictionary, left=True)}
    batch["src_lengths"] = torch.tensor(SOURCES)
    generator = ResMLPGenerator(
        [pair.model], pair.dictionary, beam_size=beam, max_len_b=8, len_penalty=length_penalty
    )
    found = generator.generate([pair.model], {"net_input": batch})
    assert beam == 40 or len({len(h["tokens"]) for some in found for h in some}) > 2
    for source, hypotheses in zip(pair.sources, found, strict=True):
        assert len(hypotheses) == beam
        for hypothesis in hypotheses:
            words = hypothesis["tokens"]
            logits = pair.decode(words.roll(1), source)[-1]
            expected = logits.log_softmax(dim=1).gather(1, words[:, None]).squeeze(1)
            assert gap(hypothesis["positional_scores"].double(), expected) < 1e-5
            mean = expected.sum() / len(words) ** length_penalty
            assert gap(hypothesis["score"].double(), mean) < 1e-5
