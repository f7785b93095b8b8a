"""An exported model beside the one in PyTorch: how far apart they are."""

import random
from pathlib import Path

import numpy as np
import torch

from resmlp_mt.errors import UserError
from resmlp_mt.export import runtime
from resmlp_mt.pipeline.translate.translator import Translator, by_length

STEPS = 10
# share of the largest logit. In float32 a larger difference is more than rounding; in less, one
# beyond the other bound means another model
ROUNDING, OTHER = 1e-3, 0.5
SENTENCES, SEED = 20, 1


def verify(translator: Translator, folder: Path, precision: str, lines: list[str] | None) -> dict:
    """Compare an exported *folder* with the model it was made from, or refuse it.

    *lines* of text; None: sentences of random subwords. Returns the largest difference of words'
    scores in ten ``steps``, and how many of the ``lines`` are the ``same``.
    """
    exported, limit = runtime.ExportedModel(folder), translator.limit
    if lines is None:
        draw, known = random.Random(SEED), exported.source_pieces[len(runtime.SPECIAL) :]
        lengths = [1, min(25, limit)]
        sources = [draw.choices(known, k=draw.randint(*lengths)) for _ in range(SENTENCES)]
    else:
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
    found = exported.search(sources, nbest=1, max_tokens=max_tokens)
    if not all(found):
        raise UserError(
            "the exported model: scores are NaN or infinite: export another checkpoint, or without "
            "--float16 and --int8"
        )
    same = [ours.text == theirs.text for ours, (theirs,) in zip(best, found)]
    apart, largest = compare_steps(translator, exported, sources[0], found[0][0].pieces)
    exact = precision == "float32"
    if not apart < (ROUNDING if exact else OTHER) * max(1, largest):
        instead = "another version of onnxruntime" if exact else "float32"
        raise UserError(
            f"the exported model differs from PyTorch (scores of steps by {apart:.1e}): {instead} "
            "may help"
        )
    return {"steps": apart, "same": sum(same), "lines": len(same)}


@torch.no_grad()
def compare_steps(
    translator: Translator, exported: runtime.ExportedModel, source: list[str], target: list[str]
) -> tuple[float, float]:
    """The largest difference of the words' scores in the first steps, and the largest logit."""
    model, task = translator.models[0], translator.task
    tokens = task.source_dictionary.encode_line(" ".join(source), add_if_not_exist=False)
    words = [runtime.EOS, *(task.target_dictionary.index(piece) for piece in target)]
    words = words[: min(STEPS, exported.config["positions"][1])]
    logits = model(tokens.long()[None], None, torch.tensor([words]))[0][0]
    expected = torch.log_softmax(logits, -1).numpy()
    search, apart = exported.search_engine, 0.0
    memory = search.encode([tokens.tolist()], beam=1)
    for step, word in enumerate(words):
        out = search.run_step(np.full((1, 1), word, np.int32), memory, step, expected.shape[1])
        apart = max(apart, np.abs(out["scores"][0] - expected[step, out["words"][0]]).max())
    return float(apart), float(logits.abs().max())
