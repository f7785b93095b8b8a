"""Write an exported folder: the weights, the subwords and a description, all of it data. Then
compare its translations with those of the model in PyTorch."""

import random
import shlex
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from unicodedata import normalize

import torch
from safetensors.numpy import save

from resmlp_mt import __version__
from resmlp_mt.export.weights import weights_of
from resmlp_mt.model.model import ResMLPModel
from resmlp_mt.model_folder import dictionary_digest
from resmlp_mt.pipeline.score import make_bleu
from resmlp_mt.pipeline.translate.translator import Translator
from resmlp_mt_runtime import Model
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import whole_folder, write_json
from resmlp_mt_runtime.folder import CONFIG, DICTIONARIES, FORMAT, SEARCH_OPTIONS, SUBWORDS, WEIGHTS
from resmlp_mt_runtime.lines import sha256_of
from resmlp_mt_runtime.sentences import Hypothesis, join_parts, split, translate_parts

Texts = Sequence[list[str]]  # a text and, perhaps, its translation, line by line


def export(translator: Translator, out: Path, precision: str, texts: Texts = ()) -> str:
    """Write the model and the search of *translator*, atomically, in the *precision* ``float32``,
    ``float16`` or ``int8``; returns what :func:`verify` says."""
    if out.exists():
        raise UserError(f"{out} already exists: choose another folder")
    if len(translator.models) > 1:
        raise UserError("an ensemble cannot be exported: give one checkpoint")
    model, path = translator.models[0].float(), translator.options.paths[0]
    if not isinstance(model, ResMLPModel):
        raise UserError(f"{path} is a checkpoint of another model: give one of a resmlp_mt model")
    with whole_folder(out) as folder:
        config = write_model(translator, model, folder, precision)
        same = verify(translator, folder, precision, texts)
        card = Path(__file__).with_name("card.md").read_text(encoding="utf-8")
        card = card.format(**config, name=out.name, folder=shlex.quote(out.name), same=same)
        (folder / "README.md").write_text(card, "utf-8", "surrogateescape")
    return same


def write_model(translator: Translator, model, folder: Path, precision: str) -> dict:
    """Write everything but the model card; returns what config.json has."""
    task, settings = translator.task, translator.options.text
    arrays, sizes = weights_of(model, precision)
    (folder / WEIGHTS).write_bytes(save(arrays))
    shutil.copyfile(settings.subword_model, folder / SUBWORDS)
    for name, dictionary in zip(DICTIONARIES, (task.source_dictionary, task.target_dictionary)):
        text = "".join(f"{symbol}\n" for symbol in dictionary.symbols)
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    config = {
        "format": FORMAT,
        "languages": [task.cfg.source_lang, task.cfg.target_lang],
        **sizes,
        "search": {name: getattr(translator.options, name) for name in SEARCH_OPTIONS},
        "rule": settings.rule,
        "made_by": {"resmlp_mt": __version__, "torch": torch.__version__},
        "files": {path.name: sha256_of(path) for path in sorted(folder.iterdir())},
    }
    write_json(folder / CONFIG, config)
    return config


LINES = 200  # of a validation set
# an export is wrong if it scores PyTorch's translations otherwise, by a median relative difference
# of more than this: in float32 (the published models: 2e-7); in int8 (2e-3) and float16 (2e-5)
ROUNDING, OTHER = 1e-4, 0.05


def verify(translator: Translator, folder: Path, precision: str, texts: Texts = ()) -> str:
    """Compare an exported *folder* with the model it was made from, or refuse it; returns a
    sentence that says how many lines of the *texts* or, without them, of the validation set they
    translate the same way. If there is no text, random tokens show whether it is the same model."""
    lines, references = _of_texts(translator, texts) if texts else _validation_set(translator)
    metric = make_bleu(translator.task.cfg.target_lang) if references else None
    dictionary = translator.task.source_dictionary
    known = dictionary.symbols[dictionary.nspecial :]
    compared = lines or [[random.Random(1).choices(known, k=min(9, translator.limit))]]
    sources = [part for parts in compared for part in parts]
    theirs, model = translate(translator, sources), Model(folder)
    _check(model, sources, theirs, precision)
    if not lines:
        said = "Its translations were not compared with PyTorch's"
        return f"{said}: no text (--verify FILE gives one)"
    found_by = [
        join_parts((one.text for one in each), lines)
        for each in (translate(model, sources), theirs)
    ]
    same = sum(map(str.__eq__, *found_by))
    sentence = f"{same} of {len(lines)} lines are translated as in PyTorch"
    if not metric:
        return sentence
    bleu, expected = (metric.corpus_score(text, [references]).score for text in found_by)
    return f"{sentence}; BLEU {bleu:.2f}, in PyTorch {expected:.2f}"


def translate(engine, sources: Sequence[list[str]]) -> list[Hypothesis]:
    """The best translation of each source, given as its pieces, by a Translator or a Model."""
    found = translate_parts(engine, [[source] for source in sources], "compared with PyTorch", 1)
    return [nbest[0] for _, translations in found for nbest in translations]


def _check(model: Model, sources: list, theirs: list[Hypothesis], precision: str) -> None:
    """Refuse a *model* whose scores of PyTorch's translations show that it is another. Those that
    it finds itself may be others after the smallest rounding."""
    ours = model.score_pieces(sources, [one.pieces for one in theirs])
    apart = median(abs(a.score - b.score) / max(1, abs(b.score)) for a, b in zip(ours, theirs))
    exact = precision == "float32"
    if not apart < (ROUNDING if exact else OTHER):
        instead = "report it, with the options of the model" if exact else "float32 may help"
        raise UserError(f"the export differs from PyTorch (scores by {apart:.1e}): {instead}")


def _of_texts(translator: Translator, texts: Texts) -> tuple[list, list[str]]:
    """The parts of the lines that are not blank, and their references."""
    rows = [row for row in zip(*texts, strict=True) if translator.pieces(row[0])]
    if not rows:
        raise UserError("--verify: every line is blank: give another file")
    lines = [split(row[0], translator.pieces, translator.limit)[0] for row in rows]
    return lines, [normalize("NFC", reference) for row in rows for reference in row[1:]]


def _validation_set(translator: Translator) -> tuple[list, list[str]]:
    """Sources as one part each, and references: of the data, or of `resmlp-mt run`."""
    task, data = translator.task, translator.options.data
    languages = task.cfg.source_lang, task.cfg.target_lang
    own = dictionary_digest(data, languages)
    for folder in (data, data.parent / "data" / "data-bin"):
        if dictionary_digest(folder, languages) != own:
            continue  # of another model
        task.cfg.data = str(folder)
        with suppress(FileNotFoundError):
            task.load_dataset("valid")
            pairs = task.dataset("valid")
            some = [i for i in range(min(LINES, len(pairs))) if len(pairs.src[i]) > 1]  # not blank
            sources = [task.source_dictionary.string(pairs.src[i]).split() for i in some]
            target = task.target_dictionary
            references = [target.string(pairs.tgt[i], "sentencepiece") for i in some]
            return [[source[: translator.limit]] for source in sources], references
    return [], []
