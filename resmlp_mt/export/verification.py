"""An exported model beside the one in PyTorch: do they translate alike?"""

import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

from sacrebleu import corpus_bleu

from resmlp_mt.errors import UserError
from resmlp_mt.pipeline.translate.translator import Translator
from resmlp_mt_runtime import Model

LINES = 200  # of a validation set
# median relative differences of the best scores above which a float32 export, any export is wrong
ROUNDING, OTHER = 1e-3, 0.1


def verify(
    translator: Translator, folder: Path, precision: str, texts: Sequence[list[str]] = ()
) -> str:
    """Compare an exported *folder* with the model it was made from, or refuse it; returns a
    sentence that says how alike they translate.

    *texts*: a text and, perhaps, its translation, line by line; without them the validation set.
    Where there is none, either, a sentence of random tokens shows whether it is the same model, but
    not how well it translates.
    """
    sources, references = _of_texts(translator, texts) if texts else _validation_set(translator)
    dictionary = translator.task.source_dictionary
    known = dictionary.symbols[dictionary.nspecial :]
    compared = sources or [random.Random(1).choices(known, k=min(9, translator.limit))]
    theirs, model = translate(translator, compared), Model(folder)
    ours = translate(model, compared)
    _check(ours, theirs, precision)
    if model.engine != "numpy":
        _check(translate(Model(folder, "numpy"), compared[:9]), theirs[:9], precision)
    if not sources:
        return "No text to compare translations with PyTorch's: --verify FILE gives one"
    found_by = [[nbest[0].text for nbest in each] for each in (ours, theirs)]
    same = sum(map(str.__eq__, *found_by))
    sentence = f"{same} of {len(sources)} sentences are translated as by PyTorch"
    if not references:
        return sentence
    bleu, expected = (corpus_bleu(text, [references]).score for text in found_by)
    return f"{sentence}; BLEU {bleu:.2f}, by PyTorch {expected:.2f}"


def translate(engine, sources: Sequence[list[str]]) -> list[list]:
    """The n best translations of each source by a Translator or a Model."""
    found = {i: nbest for batch in engine.translations(sources) for i, nbest in batch.items()}
    return [found[i] for i in range(len(sources))]


def _check(ours: list[list], theirs: list[list], precision: str) -> None:
    """Refuse hypotheses whose scores show another model."""
    if not all(ours):
        raise UserError(
            "the exported model: scores are NaN or infinite: export another checkpoint, or without "
            "--float16 and --int8"
        )
    scores = [(a[0].score, b[0].score) for a, b in zip(ours, theirs)]
    apart = median(abs(a - b) / max(1, abs(b)) for a, b in scores)
    exact = precision == "float32"
    if not apart < (ROUNDING if exact else OTHER):
        instead = "report it, with the options of the model" if exact else "float32 may help"
        raise UserError(
            f"the exported model differs from PyTorch (scores by {apart:.1e}): {instead}"
        )


def _of_texts(translator: Translator, texts: Sequence[list[str]]) -> tuple[list, list[str]]:
    """Tokens of the lines that are not blank, and their references."""
    rows = [row for row in zip(*texts, strict=True) if translator.pieces(row[0])]
    if not rows:
        raise UserError("--verify: every line is blank: give another file")
    sources = [translator.pieces(row[0])[: translator.limit] for row in rows]
    return sources, [reference for row in rows for reference in row[1:]]


def _validation_set(translator: Translator) -> tuple[list[list[str]], list[str]]:
    """Tokens of sources, and references: of the data, or of `resmlp-mt run`."""
    task, data = translator.task, translator.options.data
    for folder in (data, data.parent / "data" / "data-bin"):
        task.cfg.data = str(folder)
        with suppress(FileNotFoundError):
            task.load_dataset("valid")
            pairs = task.dataset("valid")
            first = [i for i in range(min(LINES, len(pairs))) if len(pairs.src[i]) > 1]  # not blank
            sources = [task.source_dictionary.string(pairs.src[i]).split() for i in first]
            references = [
                task.target_dictionary.string(pairs.tgt[i], "sentencepiece") for i in first
            ]
            return [source[: translator.limit] for source in sources], references
    return [], []
