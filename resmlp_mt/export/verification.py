"""An exported model beside the one in PyTorch: how far they are apart."""

import random
from pathlib import Path
from typing import List, Optional

import numpy as np
import torch

from resmlp_mt.errors import UserError
from resmlp_mt.export import runtime
from resmlp_mt.translate.translator import Translator, by_length

STEPS = 10
# share of the largest state, or of the largest logit. Beyond the first, differences of float32 are
# more than rounding. Beyond the other, two models have nothing in common
ROUNDING, OTHER = 1e-3, 0.5
SENTENCES, SEED = 20, 1


def verify(
    translator: Translator, folder: Path, precision: str, lines: Optional[List[str]]
) -> dict:
    """Compare a folder with the model that it was made from.

    Args:
        translator: of PyTorch.
        folder: of the export.
        precision: of the export.
        lines: of text; None: sentences of random subwords.

    Returns:
        ``states``: largest difference of the encoder's states; ``steps``: of the best scores of ten
        decoding steps; ``scores``: of the scores of translations that are the same;
        ``same``, ``lines``: how many translations are.

    Raises:
        UserError: if a model in float32 is not the same but for rounding, one in less has nothing
            in common with it, or the export refuses the search.
    """
    exported = runtime.Translator(folder)
    if lines is None:
        sources = made_up(exported)
    else:
        limit = translator.positions - 1
        sources = [exported.pieces(line)[:limit] for line in lines]
        if sources != [translator.pieces(line)[:limit] for line in lines]:
            raise UserError("the exported text settings split the lines in another way: report it")
        sources = [source for source in sources if source]
        if not sources:
            raise UserError("--verify: the file has no line with a word: give another")
    best: list = [None] * len(sources)
    max_tokens = translator.options.max_tokens
    for batch in by_length(list(map(len, sources)), max_tokens):
        for i, hypotheses in zip(batch, translator.nbest([sources[i] for i in batch])):
            best[i] = hypotheses[0]
    try:
        found = [one[0] for one in exported.search(sources, nbest=1, max_tokens=max_tokens)]
    except runtime.TranslationError as error:
        raise UserError(f"the exported model: {error}") from None
    same = [a.text == b.text for a, b in zip(best, found)]
    gaps = [abs(a.score - b.score) for a, b, s in zip(best, found, same) if s]
    (states, steps), sizes = compare_states(translator, exported, sources[0], found[0].pieces)
    results = {
        "states": states,
        "steps": steps,
        "scores": max(gaps, default=0.0),
        "same": sum(same),
        "lines": len(same),
    }
    tolerance = ROUNDING if precision == "float32" else OTHER
    if not all(gap < tolerance * max(1, size) for gap, size in zip((states, steps), sizes)):
        instead = "another version of onnxruntime" if precision == "float32" else "float32"
        raise UserError(
            f"the exported model differs from PyTorch (states {states:.1e}, steps {steps:.1e}): "
            f"{instead} may help"
        )
    return results


def made_up(exported: runtime.Translator) -> List[List[str]]:
    """Sentences of random subwords."""
    draw, pieces = random.Random(SEED), exported.source_pieces[len(runtime.SPECIAL) :]
    limit = min(25, exported.config["positions"][0] - 1)
    return [draw.choices(pieces, k=draw.randint(1, limit)) for _ in range(SENTENCES)]


@torch.no_grad()
def compare_states(
    translator: Translator, exported: runtime.Translator, source: List[str], target: List[str]
) -> tuple:
    """Largest differences of the encoder's states and of the scores of the first steps, and the
    largest state and logit."""
    model, task = translator.models[0], translator.task
    tokens = task.source_dictionary.encode_line(" ".join(source), add_if_not_exist=False).long()[
        None
    ]
    out = model.encoder(tokens)
    encoded = exported.model.encode(tokens.numpy().astype(np.int32))
    expected_states = out["encoder_out"][0].transpose(0, 1).numpy()
    states = np.abs(encoded.pop("states") - expected_states).max()
    words = [runtime.EOS, *(task.target_dictionary.index(piece) for piece in target)]
    words = torch.tensor([words[: min(STEPS, exported.config["positions"][1])]])
    logits = model.decoder(words, out)[0]
    expected = torch.log_softmax(logits, -1)[0]
    expected[:, runtime.PAD] = -torch.inf
    expected[0, runtime.EOS] = -torch.inf
    memory, apart = runtime.Memory(encoded, exported.config, beam=1), 0.0
    for step, word in enumerate(words[0]):
        one = np.full((1, 1), int(word), np.int32)
        found = exported.model.run_step(one, np.zeros((1, 1), np.float32), memory, step, 2)
        apart = max(apart, np.abs(found["scores"][0] - expected[step].topk(2).values.numpy()).max())
    sizes = (float(np.abs(expected_states).max()), float(logits.abs().max()))
    return (float(states), float(apart)), sizes
