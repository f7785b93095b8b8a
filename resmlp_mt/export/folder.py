"""The folder of an exported model: two graphs, weights, subwords, a description, the runtime."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import regex
import torch
from sacremoses import MosesPunctNormalizer

from resmlp_mt import __version__
from resmlp_mt.errors import UserError
from resmlp_mt.export import runtime
from resmlp_mt.export.graphs import exported
from resmlp_mt.export.verification import verify
from resmlp_mt.files import whole_folder
from resmlp_mt.model.model import ResMLPModel
from resmlp_mt.pipeline.translate.translator import Translator
from resmlp_mt.text.lines import sha256_of, without_region


def export(
    translator: Translator, out: Path, precision: str, texts: Sequence[list[str]] = ()
) -> str:
    """Write the model and the search of *translator*, atomically; returns what :func:`verify` says,
    perhaps of *texts*.

    *precision* is ``float32``, ``float16`` or ``int8``.
    """
    if out.exists():
        raise UserError(f"{out} already exists: choose another folder")
    if len(translator.models) > 1:
        raise UserError("--path: an ensemble cannot be exported: give one checkpoint")
    model, path = translator.models[0].float(), translator.options.paths[0]
    if not isinstance(model, ResMLPModel):
        raise UserError(f"{path} is a checkpoint of another model: give one of a resmlp_mt model")
    with whole_folder(out) as folder:
        config = write_model(translator, model, folder, precision)
        same = verify(translator, folder, precision, texts)
        card = Path(__file__).with_name("card.md").read_text(encoding="utf-8")
        card = card.format(**config, name=out.name, same=same)
        (folder / "README.md").write_text(card, encoding="utf-8")
    return same


def write_model(translator: Translator, model, folder: Path, precision: str) -> dict:
    """Write everything but the model card; returns what config.json has."""
    task, settings = translator.task, translator.settings
    files, sizes = exported(model, precision)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    shutil.copyfile(settings.subword_model, folder / "spm.model")
    for side, dictionary in ("source", task.source_dictionary), ("target", task.target_dictionary):
        text = "".join(f"{symbol}\n" for symbol in dictionary.symbols)
        (folder / f"{side}.txt").write_text(text, encoding="utf-8", newline="\n")
    shutil.copyfile(runtime.__file__, folder / "runtime.py")
    searched = ("beam", "lenpen", "max_len_a", "max_len_b")
    config = {
        "format": runtime.FORMAT,
        "precision": precision,
        "languages": [task.cfg.source_lang, task.cfg.target_lang],
        "positions": [translator.positions, translator.generator.max_len],
        **sizes,
        "search": {name: getattr(translator.options, name) for name in searched},
        "rule": settings.rule,
        "normalisation": substitutions(settings.source_lang) if settings.normalise else [],
        "made_by": {"resmlp_mt": __version__, "torch": torch.__version__},
        "files": {
            path.name: {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
            for path in sorted(folder.iterdir())
        },
    }
    text = json.dumps(config, indent=1) + "\n"  # in ASCII: a rule may have half a character pair
    (folder / "config.json").write_text(text, encoding="utf-8")
    return config


def _characters(pattern: str) -> str:
    """The characters that match *pattern*, as ranges for a class in brackets."""
    characters = "".join(map(chr, range(0x110000)))
    runs = regex.findall(f"(?V1)(?:{pattern})+", characters)
    return "".join(run if len(run) < 3 else f"{run[0]}-{run[-1]}" for run in runs)


def substitutions(language: str) -> list[tuple[str, str]]:
    """:class:`resmlp_mt.text.normalise.Normaliser` as pairs of a regular expression and a
    replacement, which need no library. They leave white space as it is."""
    other_letters = _characters(r"[[\p{L}\p{M}]--\p{Latin}]")
    not_spelling = rf"(?!(?<=[{other_letters}])[\u200c\u200d])"
    return [
        (not_spelling + "[" + _characters(r"\p{Cf}") + "]", ""),
        (not_spelling + "[" + _characters(r"\p{C}") + "]", " "),
        (r"^\s+|\s+$", ""),
        *MosesPunctNormalizer(without_region(language)).substitutions,
    ]
