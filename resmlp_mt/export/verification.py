"""An exported model beside the one in PyTorch: do they translate alike?"""

import random
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from fairseq.data.data_utils import load_indexed_dataset
from sacrebleu import corpus_bleu

from resmlp_mt.errors import UserError
from resmlp_mt.export import runtime
from resmlp_mt.pipeline.translate.translator import Translator, by_length

LINES = 200  # of a validation set
# median difference of the best hypotheses' scores, as a share of them: more is not rounding in
# float32, and another model in less
ROUNDING, OTHER = 1e-3, 0.1


def verify(translator: Translator, folder: Path, precision: str, lines: Sequence[list[str]]) -> str:
    """Compare an exported *folder* with the model it was made from, or refuse it; returns a
    sentence that says how alike they are.

    *lines*: a text and, perhaps, its translation, line by line; none: the validation set that is
    beside the model. Where there is none, either, a sentence of random tokens shows whether it is
    the same model, but not how well it translates.
    """
    if lines:
        name, sources = "lines", list(map(translator.pieces, lines[0]))
        filled = [i for i, source in enumerate(sources) if source]
        if not filled:
            raise UserError("--verify: every line is blank: give another file")
        sources = [sources[i] for i in filled]
        references = [[side[i] for i in filled] for side in lines[1:]]
    else:
        name, sources, *references = _validation_set(translator)
    dictionary = translator.task.source_dictionary
    known = dictionary.symbols[dictionary.nspecial :]
    compared = [s[: translator.limit] for s in sources or [random.Random(1).choices(known, k=9)]]
    theirs = _translated(translator, compared)
    ours = runtime.ExportedModel(folder).search(compared)
    first = slice(9)
    by_graph = runtime.ExportedModel(folder, graph=True).search(compared[first])
    for found, expected in (ours, theirs), (by_graph, theirs[first]):
        _check(found, expected, precision)
    if not sources:
        return "No text to compare translations with PyTorch's: --verify FILE gives one"
    texts = [[nbest[0].text for nbest in found] for found in (ours, theirs)]
    same = sum(map(str.__eq__, *texts))
    sentence = f"{same} of {len(sources)} {name} are translated as by PyTorch"
    if not references:
        return sentence
    bleu = [corpus_bleu(text, references).score for text in texts]
    return f"{sentence}; BLEU {bleu[0]:.2f}, by PyTorch {bleu[1]:.2f}"


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
        instead = "another version of onnxruntime" if exact else "float32"
        raise UserError(
            f"the exported model differs from PyTorch (scores by {apart:.1e}): {instead} may help"
        )


def _translated(translator: Translator, sources: list[list[str]]) -> list[list]:
    found: list[list] = [[] for _ in sources]
    for batch in by_length([len(source) for source in sources], translator.options.max_tokens):
        for i, hypotheses in zip(batch, translator.nbest([sources[i] for i in batch])):
            found[i] = hypotheses
    return found


def _validation_set(translator: Translator) -> tuple:
    """A name, sources as tokens, and references: of the data, or of `resmlp-mt run`."""
    task, data = translator.task, translator.options.data
    pair = task.cfg.source_lang, task.cfg.target_lang
    source, target = task.source_dictionary, task.target_dictionary
    for folder in (data, data.parent / "data" / "data-bin"):
        for names in ("-".join(pair), "-".join(pair[::-1])):
            stems = [f"{folder}/valid.{names}.{language}" for language in pair]
            if all(Path(f"{stem}.idx").is_file() for stem in stems):
                sources, targets = map(load_indexed_dataset, stems, (source, target))
                first = range(min(LINES, len(sources), len(targets)))
                return (
                    "validation sentences",
                    [source.string(sources[i]).split() for i in first],
                    [target.string(targets[i], "sentencepiece") for i in first],
                )
    return "", []
