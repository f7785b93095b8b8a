"""Write an exported folder: the weights, the subwords and a description, all of it data."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.numpy import save

from resmlp_mt import __version__
from resmlp_mt.errors import UserError
from resmlp_mt.export.verification import verify
from resmlp_mt.export.weights import weights_of
from resmlp_mt.model.model import ResMLPModel
from resmlp_mt.pipeline.translate.translator import Translator
from resmlp_mt_runtime.files import whole_folder
from resmlp_mt_runtime.folder import (
    CONFIG,
    DICTIONARIES,
    FORMAT,
    SEARCH,
    SUBWORDS,
    WEIGHTS,
    check_arrays,
    check_config,
)
from resmlp_mt_runtime.lines import sha256_of


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
    arrays, sizes = weights_of(model, precision)
    config = {
        "format": FORMAT,
        "languages": [task.cfg.source_lang, task.cfg.target_lang],
        **sizes,
        "search": {name: getattr(translator.options, name) for name in SEARCH},
        "rule": settings.rule,
        "normalise": settings.normalise,
        "made_by": {"resmlp_mt": __version__, "torch": torch.__version__},
        "files": {},
    }
    check_config(config)
    check_arrays(arrays, config)
    (folder / WEIGHTS).write_bytes(save(arrays))
    shutil.copyfile(settings.subword_model, folder / SUBWORDS)
    for name, dictionary in zip(DICTIONARIES, (task.source_dictionary, task.target_dictionary)):
        text = "".join(f"{symbol}\n" for symbol in dictionary.symbols)
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    config["files"] = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
    text = json.dumps(config, indent=1, ensure_ascii=False) + "\n"
    (folder / CONFIG).write_text(text, encoding="utf-8")
    return config
