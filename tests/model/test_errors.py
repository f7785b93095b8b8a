"""Errors that a user can mend: one line with the numbers, the option and what to do."""

from types import SimpleNamespace

import pytest
import torch
from helpers import POSITIONS, build_model, model_options, pad_batch, random_sentences, translate

from resmlp_mt import ResMLPModel
from resmlp_mt.checkpoints import synthetic_dictionary
from resmlp_mt.errors import UserError
from resmlp_mt.model.config import GONE_KINDS

NOT_OURS = (
    *("cross_self_attention", "char_inputs", "adaptive_input"),
    *("encoder_normalize_before", "decoder_normalize_before"),
)


@pytest.mark.parametrize(
    "options, said",
    [
        *(({name: True}, "--" + name.replace("_", "-")) for name in NOT_OURS),
        ({"base_layers": 1}, "--base-layers"),
        ({"encoder_xformers_att_config": "{}"}, "--encoder-xformers-att-config"),
        ({"decoder_xformers_att_config": "{}"}, "--decoder-xformers-att-config"),
        ({"token_mixing": "none-such"}, "--token-mixing none-such: choose one of linear"),
        ({"normalization": "batchnorm"}, "--normalization batchnorm: choose one of affine"),
        ({"token_mixing_heads": 5}, "--token-mixing-heads 5 does not divide the 16 channels"),
        ({"token_mixing_heads": 2.0}, "--token-mixing-heads 2.0"),
        ({"token_mixing_heads": 0}, "--token-mixing-heads 0"),
        ({"token_mixing": "none", "token_mixing_heads": 4}, "--token-mixing-heads 4"),
        ({"token_mixing": "conv", "token_mixing_heads": 4}, "--token-mixing-heads 4"),
        ({"token_mixing": "conv", "token_mixing_kernel_size": 4}, "--token-mixing-kernel-size 4"),
        ({"token_mixing": "conv", "token_mixing_kernel_size": -1}, "--token-mixing-kernel-size -1"),
        *(({"token_mixing": kind}, f"{kind}: gone from this version: r") for kind in GONE_KINDS),
        ({"folded": True}, "folded True: gone from this version: resmlp_mt 0.2.0 still"),
        ({"token_mixing_reach": 3}, "token_mixing_reach 3: gone from this version"),
        ({"inference_precision": "int8"}, "inference_precision int8: gone from this version"),
        ({"max_source_positions": 0}, "--max-source-positions 0"),
        ({"max_target_positions": -5}, "--max-target-positions -5"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_refused_options(options, said):
    with pytest.raises(UserError) as caught:
        build_model(**options)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_two_dictionaries_that_fairseq_would_merge():
    one, other = synthetic_dictionary(50), synthetic_dictionary(51)
    args = model_options(merge_src_tgt_embed=True, share_all_embeddings=False)
    task = SimpleNamespace(source_dictionary=one, target_dictionary=one)
    assert ResMLPModel.build_model(args, task)
    task.target_dictionary = other
    with pytest.raises(UserError, match="--merge-src-tgt-embed: fairseq takes another"):
        ResMLPModel.build_model(args, task)


def test_too_long():
    """In one pass, word by word, and padded as by --required-seq-len-multiple."""
    model, dictionary = build_model(max_source_positions=4, max_target_positions=3)
    (words,) = random_sentences(dictionary, (4,))
    fits, state = model.encoder(words[None]), {}
    padded = torch.nn.functional.pad(words[None], (0, 8), value=dictionary.pad())
    for length in (1, 2, 3):
        model.decoder(torch.full((1, length), 5), fits, state)
    encode, decode = model.encoder, model.decoder
    for run, batch, more, said in (
        (encode, torch.full((1, 7), 5), (), "a source sentence of 7 tokens .* the 4 pos"),
        (decode, torch.full((1, 5), 5), (fits,), "a target sentence of 5 tokens .*the 3"),
        (decode, torch.full((1, 4), 5), (fits, state), ".*--max-target-positions 4 or"),
        (encode, padded, (), "source sentences are padded to 12 .* 4 positions: lower --r"),
        (decode, padded[:, 2:], (fits,), "target sentences are padded to 10 tokens"),
    ):
        with pytest.raises(UserError, match=f"^{said}[^\\n]*$"):
            run(batch, *more)


def test_longest_sentences_are_accepted():
    """All positions can be used; fairseq's search stops at the last by itself."""
    model, dictionary = build_model()
    (sentence,) = random_sentences(dictionary, (POSITIONS,))
    assert model.max_positions() == (POSITIONS, POSITIONS)
    best = translate(model, dictionary, [sentence], max_len=1000)[0][0]
    assert len(best["tokens"]) <= POSITIONS


def test_words_out_of_turn():
    """Decoding takes exactly one new word a step; a triangular A sees no future one."""
    model, dictionary = build_model()
    encoder_out = model.encoder(pad_batch(random_sentences(dictionary, (4,)), dictionary))
    prev = torch.randint(4, len(dictionary), (1, 4))
    state: dict = {}
    with pytest.raises(ValueError, match="one word at a time"):
        model.decoder(prev[:, :2], encoder_out, state)
    model.decoder(prev[:, :1], encoder_out, state)
    with pytest.raises(ValueError, match="holds 1 words, .* has 2 before the newest"):
        model.decoder(prev[:, :3], encoder_out, state)
    with pytest.raises(ValueError, match="full_context_alignment"):
        model.decoder(prev, encoder_out, full_context_alignment=True)
