"""What a ResMLP in evaluation mode holds to, whatever its options, within a *tolerance*."""

from typing import Dict, List, NamedTuple, Optional, Sequence

import torch
from fairseq import checkpoint_utils
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from helpers import gap, pad_batch, shift
from torch import Tensor

from resmlp_mt.decoding.memory import DecodingMemory
from resmlp_mt.model.affine import Affine
from resmlp_mt.model.folding import fold_


def random_words(dictionary, *shape: int) -> Tensor:
    """By PyTorch's random numbers, none of them a special symbol."""
    return torch.randint(dictionary.nspecial, len(dictionary), shape)


@torch.no_grad()
def assert_encoder_ignores_padding(
    model, dictionary, sentences: Sequence[Tensor], left: bool, tolerance: float, vectors=None
) -> None:
    """Every entry of the encoder's output is the same alone and in a batch that is padded on one
    side. *vectors* (B x T x C) stand for the embeddings of the batch."""
    tokens = pad_batch(sentences, dictionary, left)
    batch = model.encoder(tokens, return_all_hiddens=True, token_embeddings=vectors)
    assert torch.equal(batch["encoder_padding_mask"][0], tokens.eq(dictionary.pad()))
    assert batch["src_lengths"][0].flatten().tolist() == [len(s) for s in sentences]
    for i, sentence in enumerate(sentences):
        real = tokens[i].ne(dictionary.pad())
        own = None if vectors is None else vectors[i : i + 1, real]
        alone = model.encoder(sentence[None], return_all_hiddens=True, token_embeddings=own)
        assert gap(batch["encoder_out"][0][real, i], alone["encoder_out"][0][:, 0]) < tolerance
        embedded = batch["encoder_embedding"][0][i, real]
        assert gap(embedded, alone["encoder_embedding"][0][0]) < tolerance
        states = batch["encoder_states"], alone["encoder_states"]
        assert len(states[0]) == len(states[1]) == 1 + len(model.encoder.layers)
        for a, b in zip(*states):
            assert gap(a[real, i], b[:, 0]) < tolerance


@torch.no_grad()
def assert_decoder_ignores_padding(
    model, dictionary, sources: Sequence[Tensor], targets: Sequence[Tensor], tolerance: float
) -> None:
    """Features, layer by layer, and attention at the positions of the words that were given are the
    same for either padding side and alone."""
    encoder_out = model.encoder(pad_batch(sources, dictionary, left=True))
    targets = [shift(target) for target in targets]
    results = []
    for left in (True, False):
        prev = pad_batch(targets, dictionary, left)
        features, extra = model.decoder(prev, encoder_out, features_only=True)
        real = prev.ne(dictionary.pad())
        states = [state.transpose(0, 1)[real] for state in extra["inner_states"]]
        attention = [a[real] for a in extra["attn"] if a is not None]
        results.append(([features[real], *states], attention))
    for on_left, on_right in zip(results[0][0], results[1][0], strict=True):
        assert gap(on_left, on_right) < tolerance
    for on_left, on_right in zip(results[0][1], results[1][1], strict=True):
        assert gap(on_left, on_right) < tolerance
    first = 0
    for i, target in enumerate(targets):
        own = model.encoder.reorder_encoder_out(encoder_out, torch.tensor([i]))
        alone, _ = model.decoder(target[None], own, features_only=True)
        assert gap(results[0][0][0][first : first + len(target)], alone[0]) < tolerance
        first += len(target)


@torch.no_grad()
def assert_causal(model, dictionary, source: Tensor, prev: Tensor, moves: bool = True) -> None:
    """A later word of *prev* (B x T) moves no earlier logit by a single bit; the word itself moves
    its own if *moves*."""
    logits, _ = model(source, None, prev)
    for position in range(prev.size(1)):
        changed = prev.clone()
        changed[:, position] = 4 + (changed[:, position] - 3) % (len(dictionary) - 4)
        moved, _ = model(source, None, changed)
        assert torch.equal(moved[:, :position], logits[:, :position])
        assert not moves or not torch.equal(moved[:, position], logits[:, position])


class Move(NamedTuple):
    """What beam search makes of its R hypotheses after a word."""

    rows: List[int]  # for each hypothesis from now on, the row that it continues
    kept: Optional[List[int]] = None  # the sentences that are left; None: all
    beam: Optional[int] = None  # of each sentence from now on; None: rows move in any way


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
    """Word-by-word decoding gives the logits and attention of the *full* model's whole pass, after
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
        rows = torch.tensor(move.rows)
        if own:
            kept = None if move.kept is None else torch.tensor(move.kept)
            memory.follow(rows, kept, move.beam)
        else:
            model.decoder.reorder_incremental_state_scripting(state, rows)
            outs[0] = model.encoder.reorder_encoder_out(outs[0], rows)
        outs[1] = full.encoder.reorder_encoder_out(outs[1], rows)
        tokens = torch.cat([tokens[rows], random_words(dictionary, len(rows), 1)], dim=1)


@torch.no_grad()
def folded_affine_names(model) -> List[str]:
    """The affine maps that are left in the folded layers of a model, by their names."""
    layers = [*model.encoder.running_layers(), *model.decoder.running_layers()]
    assert layers[0] is not model.encoder.layers[0]
    named = torch.nn.ModuleList(layers).named_modules()
    return [name for name, module in named if isinstance(module, Affine)]


@torch.no_grad()
def assert_folding_changes_nothing(
    model, sources: Sequence[Tensor], prev: Tensor, tolerance: float
) -> None:
    """Fold *model*; the logits of each batch of *sources* after it are those before it."""
    before = [model(source, None, prev)[0] for source in sources]
    fold_(model)
    for source, logits in zip(sources, before):
        assert gap(model(source, None, prev)[0], logits) < tolerance


@torch.no_grad()
def assert_loads_as_saved(model, dictionary, args, source, prev, path) -> None:
    """fairseq's checkpoint of a model, loaded, has its weights and logits, bit for bit."""
    history = {"optimizer_name": "Adagrad", "lr_scheduler_state": {}, "num_updates": 0}
    state = {
        "cfg": {"model": args},
        "model": model.state_dict(),
        "optimizer_history": [history],
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    checkpoint_utils.torch_persistent_save(state, str(path))
    task = TranslationTask(TranslationConfig(), dictionary, dictionary)
    ((loaded,), _, _) = checkpoint_utils.load_model_ensemble_and_task([str(path)], task=task)
    assert _differing(loaded.state_dict(), model.state_dict()) == []
    loaded = loaded.to(next(model.parameters()).dtype).eval()
    assert torch.equal(loaded(source, None, prev)[0], model(source, None, prev)[0])


def _differing(some: Dict[str, Tensor], others: Dict[str, Tensor]) -> List[str]:
    """Names whose values differ; float64 holds all values of the narrower types."""
    assert some.keys() == others.keys()
    return [name for name in some if not torch.equal(some[name].double(), others[name].double())]
