"""What holds for every kind of mixing: no token sees the future, and decoding is exact."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from helpers import gap, pad_batch
from torch import Tensor

from resmlp_mt.model.memory import DecodingMemory


def random_tokens(dictionary, *shape: int) -> Tensor:
    """By PyTorch's random numbers, none of them a special symbol."""
    return torch.randint(dictionary.nspecial, len(dictionary), shape)


def at_tokens(model, dictionary, sources, targets, left, left_target) -> Iterator[list[Tensor]]:
    """For each pair: states of both sides, any attention, and logits, without the padding."""
    tokens, prev = pad_batch(sources, dictionary, left), pad_batch(targets, dictionary, left_target)
    encoded = model.encoder(tokens, return_all_hiddens=True)
    logits, extra = model.decoder(prev, encoded)
    own, own_target = (batch.ne(dictionary.pad()) for batch in (tokens, prev))
    for i, (s, t) in enumerate(zip(own, own_target)):
        states = [x[s, i] for x in (*encoded["encoder_states"], encoded["encoder_out"][0])]
        states += [x[t, i] for x in extra["inner_states"]]
        attention = [x[i][t][:, s] for x in extra["attn"] if x is not None]
        yield [*states, *attention, logits[i, t]]


@torch.no_grad()
def assert_causal(model, dictionary, source: Tensor, prev: Tensor, moves: bool = True) -> None:
    """A later token of *prev*, B x T, changes no earlier logit by a bit, but its own if *moves*."""
    logits, _ = model(source, None, prev)
    for position in range(prev.size(1)):
        changed = prev.clone()
        changed[:, position] = 4 + (changed[:, position] - 3) % (len(dictionary) - 4)
        moved, _ = model(source, None, changed)
        assert torch.equal(moved[:, :position], logits[:, :position])
        assert not moves or not torch.equal(moved[:, position], logits[:, position])


class Move(NamedTuple):
    """What beam search does to its R hypotheses after a token."""

    parents: list[int]  # of each hypothesis from now on
    kept: list[int] | None = None  # places of the active sentences that stay active; None: all
    beam: int = 1  # hypotheses per sentence from now on


@torch.no_grad()
def assert_decodes_as_in_one_pass(
    model,
    full,
    dictionary,
    source: Tensor,
    moves: Sequence[Move],
    tolerance: float,
    beam: int = 1,
    own: bool = False,
) -> None:
    """Step-by-step decoding gives the logits and attention of the *full* model's whole pass, after
    every move. *own*: hypotheses are moved as our beam search does, not as fairseq's."""
    beams = torch.arange(len(source)).repeat_interleave(beam)
    outs = [m.encoder.reorder_encoder_out(m.encoder(source), beams) for m in (model, full)]
    state, tokens = {}, torch.full((len(beams), 1), dictionary.eos())
    for move in [*moves, None]:
        expected, extra = full.decoder(tokens, outs[1])
        if own:
            memory = DecodingMemory.of(state)
            features = model.decoder.newest_features(tokens[:, -1], outs[0], state)
            assert gap(model.decoder.output_layer(features), expected[:, -1]) < tolerance
        else:
            logits, step_extra = model.decoder(tokens, outs[0], state)
            assert gap(logits[:, 0], expected[:, -1]) < tolerance
            if extra["attn"][0] is not None:
                newest, expected = step_extra["attn"][0][:, 0], extra["attn"][0][:, -1]
                assert gap(newest, expected) < tolerance
        if move is None:
            return
        rows = torch.tensor(move.parents)
        if own:
            kept = None if move.kept is None else torch.tensor(move.kept)
            memory.follow(rows, kept, move.beam)
        else:
            model.decoder.reorder_incremental_state_scripting(state, rows)
            outs[0] = model.encoder.reorder_encoder_out(outs[0], rows)
        outs[1] = full.encoder.reorder_encoder_out(outs[1], rows)
        tokens = torch.cat([tokens[rows], random_tokens(dictionary, len(rows), 1)], dim=1)
