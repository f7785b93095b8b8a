"""The model against the plain one in reference_model.py: states, logits, gradients, decoding."""

import fairseq.modules
import pytest
import torch
from helpers import build_model, gap, pad_batch, random_sentences, shift
from reference_model import decode, encode

from resmlp_mt.inference.folding import fold_
from resmlp_mt.inference.generator import ResMLPGenerator

TOLERANCE = 1e-9
HEADS = 4
SOURCES, TARGETS = (3, 9, 1, 6), (5, 2, 11, 7)
ARCHITECTURES = {
    "resmlp_mt_6": {"share_all_embeddings": True},
    "resmlp_mt_12": {"share_all_embeddings": True},
    "resmlp_mt_tiny": {},
    "resmlp_mt_toeplitz_6": {"share_all_embeddings": True},
    "resmlp_mt_conv_6": {"share_decoder_input_output_embed": True},
}
architectures = pytest.mark.parametrize("arch", ARCHITECTURES)
folded_ = pytest.mark.parametrize("folded", [False, True], ids=["unfolded", "folded"])
sides = pytest.mark.parametrize("left", [True, False], ids=["left", "right"])


@pytest.fixture(autouse=True)
def exact_gelu(monkeypatch):
    """fairseq's computes in float32 whatever it is given."""
    monkeypatch.setattr(fairseq.modules, "gelu", torch.nn.functional.gelu)


class Pair:
    """A model of random parameters, in float64, and its weights for the reference.

    Args:
        arch: the architecture, of which only the sizes are changed.
        options: further options of the model.
    """

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
        """What our model computes for the batch: a list of states for each sentence and side."""
        tokens = pad_batch(self.sources, self.dictionary, left_source)
        prev = pad_batch(self.targets, self.dictionary, left_target)
        encoded = self.model.encoder(tokens, return_all_hiddens=True)
        logits, extra = self.model.decoder(prev, encoded)
        states = [*encoded["encoder_states"], encoded["encoder_out"][0]]
        decoded = [*extra["inner_states"], logits.transpose(0, 1)]
        return self.split(states, tokens), self.split(decoded, prev)

    def split(self, states, tokens):
        """T x B x C states to T x C ones for each sentence, without the padding."""
        real = tokens.ne(self.dictionary.pad())
        return [[state[real[i], i] for state in states] for i in range(len(tokens))]


def assert_close(found, expected):
    assert len(found) == len(expected)
    for number, (a, b) in enumerate(zip(found, expected)):
        assert gap(a, b) < TOLERANCE, number


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
    encoded, decoded = pair.run(left, not left)
    for i, (source, target) in enumerate(zip(pair.sources, pair.targets)):
        expected = pair.encode(source)
        # a folded model has its final map in the decoder's keys and values
        assert_close(encoded[i][:-1], expected[:-1])
        assert mode == "folded" or gap(encoded[i][-1], expected[-1]) < TOLERANCE
        assert_close(decoded[i], pair.decode(target, source))


@architectures
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_gradients(arch, training):
    """Of every parameter, for a random weighted sum of the logits."""
    pair = Pair(arch)
    pair.model.train(training)
    ours = pair.run(left_source=True, left_target=False)[1]
    theirs = [pair.decode(t, s) for t, s in zip(pair.targets, pair.sources)]
    factors = [torch.randn_like(states[-1]) for states in theirs]
    for results in (ours, theirs):
        sum((states[-1] * f).sum() for states, f in zip(results, factors)).backward()
    gradients = {name: pair.weights[name].grad for name, _ in pair.model.named_parameters()}
    largest = max(gradient.abs().max() for gradient in gradients.values())
    for name, parameter in pair.model.named_parameters():
        expected = gradients[name]
        # a constant added to all keys changes no softmax: its gradient is rounding alone
        size = largest if name.endswith("k_proj.bias") else expected.abs().max()
        assert size > 0, name
        assert (parameter.grad - expected).abs().max() <= TOLERANCE * size, name


@architectures
@folded_
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
    encoder_out = model.encoder(pad_batch(pair.sources, dictionary, left=True))
    encoder_out = model.encoder.reorder_encoder_out(encoder_out, of_sentence)
    tokens, state = torch.full((len(of_sentence), 1), dictionary.eos()), {}
    for step in range(steps):
        logits, _ = model.decoder(tokens, encoder_out, state)
        for row, (words, sentence) in enumerate(zip(tokens, of_sentence)):
            states = decode(pair.weights, words, memories[sentence], HEADS, pair.positions)
            assert gap(logits[row, 0], states[-1][-1]) < TOLERANCE, (step, row)
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


@folded_
@pytest.mark.parametrize("length_penalty", [0.0, 0.6])
@torch.no_grad()
def test_beam_search_scores(folded, length_penalty):
    """Each hypothesis has the log-probabilities that the reference gives its words (the search
    adds them up in float32), and a mean of them by the length penalty."""
    pair = Pair("resmlp_mt_tiny", vocabulary=12)
    if folded:
        fold_(pair.model)
    batch = {"src_tokens": pad_batch(pair.sources, pair.dictionary, left=True)}
    batch["src_lengths"] = torch.tensor(SOURCES)
    generator = ResMLPGenerator(
        [pair.model], pair.dictionary, beam_size=3, max_len_b=8, len_penalty=length_penalty
    )
    found = generator.generate([pair.model], {"net_input": batch})
    assert len({len(h["tokens"]) for some in found for h in some}) > 2
    for source, hypotheses in zip(pair.sources, found, strict=True):
        assert len(hypotheses) == 3
        for hypothesis in hypotheses:
            words = hypothesis["tokens"]
            logits = pair.decode(words.roll(1), source)[-1]
            expected = logits.log_softmax(dim=1).gather(1, words[:, None]).squeeze(1)
            assert gap(hypothesis["positional_scores"].double(), expected) < 1e-5
            mean = expected.sum() / len(words) ** length_penalty
            assert gap(hypothesis["score"].double(), mean) < 1e-5
