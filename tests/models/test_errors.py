"""Errors that a user can mend: one line with the numbers, the option and what to do."""

import pytest
import torch
from helpers import POSITIONS, build_model, pad_batch, random_sentences, translate

from resmlp_mt.errors import UserError


def one_line(caught):
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_source_too_long():
    model, dictionary = build_model()
    with pytest.raises(UserError) as caught:
        model.encoder(pad_batch(random_sentences(dictionary, (POSITIONS + 3,)), dictionary))
    message = one_line(caught)
    assert "source sentence of 27 tokens" in message and "24 positions" in message
    assert "--max-source-positions 27" in message


def test_target_too_long():
    model, dictionary = build_model(max_target_positions=11)
    encoder_out = model.encoder(pad_batch(random_sentences(dictionary, (4,)), dictionary))
    with pytest.raises(UserError) as caught:
        model.decoder(torch.full((2, 12), 5), encoder_out)
    message = one_line(caught)
    assert "target sentence of 12 tokens" in message and "11 positions" in message
    assert "--max-target-positions 12" in message


def test_target_too_long_word_by_word():
    model, dictionary = build_model(max_target_positions=3)
    encoder_out = model.encoder(pad_batch(random_sentences(dictionary, (4,)), dictionary))
    state = {}
    for length in (1, 2, 3):
        model.decoder(torch.full((2, length), 5), encoder_out, state)
    with pytest.raises(UserError, match="--max-target-positions 4"):
        model.decoder(torch.full((2, 4), 5), encoder_out, state)


def test_longest_sentences_are_accepted():
    """All positions can be used; fairseq's search stops at the last by itself."""
    model, dictionary = build_model()
    (sentence,) = random_sentences(dictionary, (POSITIONS,))
    assert model.max_positions() == (POSITIONS, POSITIONS)
    best = translate(model, dictionary, [sentence], max_len=1000)[0][0]
    assert len(best["tokens"]) <= POSITIONS


@pytest.mark.parametrize(
    "option, value",
    [
        ("cross_self_attention", True),
        ("base_layers", 1),
        ("char_inputs", True),
        ("encoder_xformers_att_config", "{}"),
        ("decoder_xformers_att_config", "{}"),
    ],
)
def test_options_about_self_attention(option, value):
    with pytest.raises(UserError) as caught:
        build_model(**{option: value})
    assert "--" + option.replace("_", "-") in one_line(caught)


@pytest.mark.parametrize("option", ["max_source_positions", "max_target_positions"])
@pytest.mark.parametrize("value", [0, -5])
def test_no_positions(option, value):
    with pytest.raises(UserError) as caught:
        build_model(**{option: value})
    assert f"--{option.replace('_', '-')} {value}" in one_line(caught)


def test_heads_that_do_not_divide():
    with pytest.raises(UserError) as caught:
        build_model(token_mixing_heads=5)
    assert "--token-mixing-heads 5" in one_line(caught) and "16 channels" in one_line(caught)


def test_full_context_alignment():
    model, dictionary = build_model()
    encoder_out = model.encoder(pad_batch(random_sentences(dictionary, (4,)), dictionary))
    with pytest.raises(ValueError, match="full_context_alignment"):
        model.decoder(torch.full((2, 3), 5), encoder_out, full_context_alignment=True)


def test_is_a_value_error():
    assert issubclass(UserError, ValueError)
