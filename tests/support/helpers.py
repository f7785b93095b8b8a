"""Small models, sentences and comparisons for the tests."""

from argparse import Namespace
from functools import partial
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.data.data_utils import collate_tokens
from fairseq.models import ARCH_CONFIG_REGISTRY
from torch.nn import functional as F

from resmlp_mt import ResMLPModel
from resmlp_mt.model.mixing import TOKEN_MIXING

# every --token-mixing, with more than one head where it has them
HEADED = ("linear", "toeplitz", "gated")
MIXINGS = [(kind, 1) for kind in TOKEN_MIXING]
MIXINGS += [(kind, 4) for kind in HEADED]
POSITIONS = 24
SMALL = dict(encoder_embed_dim=16, encoder_ffn_embed_dim=24, decoder_attention_heads=4)
SMALL |= dict(encoder_layers=2, decoder_layers=2, dropout=0.0)
SMALL |= dict(max_source_positions=POSITIONS, max_target_positions=POSITIONS)


def model_options(arch="resmlp_mt_6", **options):
    """All options of a model: *options*, else those of SMALL, else those of *arch*, as for None."""
    options = {k: v for k, v in {**SMALL, **options}.items() if v is not None}
    ARCH_CONFIG_REGISTRY[arch](args := Namespace(arch=arch, **options))
    return args


@torch.no_grad()
def build_model(arch="resmlp_mt_6", seed=0, randomize=True, vocabulary=50, std=0.3, **options):
    """A model in evaluation mode and its dictionary, which is *vocabulary* or has so many types.
    Vectors are drawn around their first values, matrices around 0; for *options* see above."""
    torch.manual_seed(seed)
    dictionary = vocabulary if isinstance(vocabulary, Dictionary) else Dictionary()
    if dictionary is not vocabulary:
        for number in range(vocabulary - len(dictionary)):
            dictionary.add_symbol(f"w{number}")
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model = ResMLPModel.build_model(model_options(arch, **options), task)
    for parameter in model.parameters() if randomize else ():
        noise = torch.randn_like(parameter) * std
        parameter.copy_(parameter + noise if parameter.dim() == 1 else noise)
    return model.eval(), dictionary


def save_model(path, **options):
    """A checkpoint of a model with random weights; returns its path."""
    model, _ = build_model(**options)
    values = Namespace(arch="resmlp_mt_6", **{**SMALL, **options})
    torch.save({"cfg": {"model": values}, "model": model.state_dict()}, path)
    return path


def change(module, how, function):
    """Make a module give *function* of its result, or of its first input, as other code may."""
    if how == "class":  # as of LoRA: its weight is not all that it computes with
        own = {"forward": lambda self, *args: function(super(type(self), self).forward(*args))}
        module.__class__ = type("Own", (type(module),), own)
    elif how == "hook":
        module.register_forward_hook(lambda module, inputs, output: function(output))
    elif how == "pre-hook":  # by which PyTorch prunes
        module.register_forward_pre_hook(lambda _, inputs: (function(inputs[0]), *inputs[1:]))
    else:
        forward = module.forward
        module.forward = lambda *args: function(forward(*args))


def random_sentences(dictionary, lengths, seed=0):
    """One sentence for each length, end of sentence included."""
    types = dictionary.nspecial, len(dictionary)
    draw = partial(torch.randint, *types, generator=torch.Generator().manual_seed(seed))
    return [F.pad(draw((length - 1,)), (0, 1), value=dictionary.eos()) for length in lengths]


def pad_batch(sentences, dictionary, left=False):
    """B x T, padded on one side."""
    return collate_tokens(sentences, dictionary.pad(), left_pad=left)


def inputs(dictionary):
    """What a model is called with: sources, no lengths, targets; both are padded."""
    source = pad_batch(random_sentences(dictionary, (3, 11, 6)), dictionary, left=True)
    return source, None, pad_batch(random_sentences(dictionary, (9, 4, 6), seed=1), dictionary)


def gap(a, b):
    """Largest difference, relative to the largest value of *b* where that is above 1."""
    assert a.shape == b.shape
    assert torch.isfinite(a).all() and torch.isfinite(b).all()
    return ((a - b).abs().max() / b.abs().max().clamp(min=1)).item()


def at_tokens(model, dictionary, sources, targets, left, left_target):
    """For each pair: states of both sides, any attention, and logits, without the padding."""
    tokens, prev = pad_batch(sources, dictionary, left), pad_batch(targets, dictionary, left_target)
    encoded = model.encoder(tokens, return_all_hiddens=True)
    logits, extra = model.decoder(prev, encoded)
    own, own_target = (batch.ne(dictionary.pad()) for batch in (tokens, prev))
    for i, (s, t) in enumerate(zip(own, own_target)):
        states = [x[s, i] for x in (*encoded["encoder_states"], encoded["encoder_out"][0])]
        states += [x[t, i] for x in extra["inner_states"]]
        # fairseq's losses of alignments view it
        attention = [x.view(-1).view(x.shape)[i][t][:, s] for x in extra["attn"] if x is not None]
        yield [*states, *attention, logits[i, t]]
