"""A tiny model learns one batch by heart and says it back."""

import pytest
import torch
from helpers import (
    build_model,
    pad_batch,
    random_sentences,
    shift,
    translate,
)

from resmlp_mt.model.folding import fold_

STEPS, WARM_UP, LEARNING_RATE = 200, 20, 0.1


@pytest.mark.parametrize("kind, heads", [("linear", 1), ("toeplitz", 4), ("conv", 1)])
def test_one_batch(kind, heads):
    model, dictionary = build_model(
        randomize=False,
        token_mixing=kind,
        token_mixing_heads=heads,
        encoder_embed_dim=32,
        encoder_ffn_embed_dim=64,
        share_all_embeddings=True,
    )
    sources = random_sentences(dictionary, range(4, 12), seed=1)
    targets = random_sentences(dictionary, range(11, 3, -1), seed=2)
    source, target = pad_batch(sources, dictionary, left=True), pad_batch(targets, dictionary)
    prev = pad_batch([shift(s) for s in targets], dictionary)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=LEARNING_RATE)
    model.train()
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, (step + 1) / WARM_UP)
        logits, _ = model(source, None, prev)
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), target.flatten(), ignore_index=dictionary.pad()
        )
        if loss < 0.01:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.1
    model.eval()
    for folded in (False, True):
        if folded:
            fold_(model)
        greedy = [hypotheses[0] for hypotheses in translate(model, dictionary, sources, beam=1)]
        assert [g["tokens"].tolist() for g in greedy] == [t.tolist() for t in targets]
