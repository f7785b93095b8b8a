"""The folder of an exported model: two graphs, subwords, a description and the runtime."""

import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, List, Optional

from resmlp_mt.errors import UserError
from resmlp_mt.export import runtime
from resmlp_mt.export.card import card
from resmlp_mt.export.graphs import encoder_graph, step_graph
from resmlp_mt.export.mixing import folded_copy, window_of
from resmlp_mt.export.normalisation import substitutions
from resmlp_mt.export.shortlist import read_pairs, shortlist
from resmlp_mt.export.verification import verify
from resmlp_mt.model.model import ResMLPModel
from resmlp_mt.provenance import versions
from resmlp_mt.text.lines import sha256_of
from resmlp_mt.translate.options import SearchOptions
from resmlp_mt.translate.translator import Translator


def export(
    options: SearchOptions,
    out: Path,
    precision: str,
    lines: Optional[List[str]],
    training: Optional[Path] = None,
) -> dict:
    """Write a model as a folder that needs neither fairseq nor PyTorch, whole or not at all.

    Args:
        options: the checkpoint, its data, and the search that the folder has by default.
        out: the folder, which must not be there.
        precision: ``float32``, ``float16`` or ``int8``.
        lines: text to compare translations of, None: made-up sentences.
        training: folder of binary data to make a shortlist of; None: no shortlist.

    Returns:
        what :func:`resmlp_mt.export.verification.verify` finds.

    Raises:
        UserError: a model that cannot be exported; a folder that is there or cannot be written;
            results that are not those of PyTorch.
    """
    if out.exists() or not out.absolute().parent.is_dir():
        raise UserError(f"{out}: name a folder that is not there, in one that is")
    if len(options.paths) > 1:
        raise UserError("--path: an ensemble cannot be exported: give one checkpoint")
    translator = Translator(options)
    return export_model(translator, out, precision, lines, training)


def export_model(
    translator: Translator,
    out: Path,
    precision: str,
    lines: Optional[List[str]],
    training: Optional[Path] = None,
) -> dict:
    """:func:`export` of a model that is loaded."""
    check_model(translator.models[0], translator.options.paths[0])
    model = folded_copy(translator.models[0].float())
    with whole_folder(out) as folder:
        if training is not None:
            text = shortlist(*read_pairs(translator.task, training), *_symbols(translator.task))
            (folder / runtime.SHORTLIST).write_text(text, encoding="utf-8", newline="\n")
        write_model(translator, model, folder, precision)
        found = verify(translator, folder, precision, lines)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        (folder / "README.md").write_text(card(config, found, out.name), encoding="utf-8")
    return found


def check_model(model, path: Path) -> None:
    """
    Raises:
        UserError: if a model has no form in ONNX here.
    """
    if not isinstance(model, ResMLPModel):
        raise UserError(f"{path} is a checkpoint of another model: give one of a resmlp_mt model")
    if model.decoder.adaptive_softmax is not None:
        raise UserError(f"{path}: --adaptive-softmax-cutoff: adaptive softmax cannot be exported")
    if any(layer.cross_attention is None for layer in model.decoder.layers):
        raise UserError(f"{path}: --no-cross-attention: a model without it cannot be exported")


def write_model(translator: Translator, model, folder: Path, precision: str) -> None:
    """Everything but the shortlist, which the graphs serve if it is there, and the model card."""
    task = translator.task
    settings = translator.options.text_settings().reading(task.cfg.source_lang)
    languages = [task.cfg.source_lang, task.cfg.target_lang]
    rules = substitutions(settings.source_lang)
    attn = model.decoder.layers[0].cross_attention.attn
    sizes = {
        "format": runtime.FORMAT,
        "precision": precision,
        "languages": languages,
        "positions": [translator.positions, translator.generator.max_len],
        "vocabulary": [len(task.source_dictionary), len(task.target_dictionary)],
        "layers": [len(model.encoder.layers), len(model.decoder.layers)],
        "channels": [model.encoder.embed_tokens.embedding_dim, model.decoder.embed_dim],
        "heads": attn.num_heads,
        "window": window_of(model),
    }
    metadata = {"config": json.dumps(sizes)}
    listed = (folder / runtime.SHORTLIST).exists()
    step, states = step_graph(model, precision, metadata, listed)
    (folder / "step.onnx").write_bytes(step)
    (folder / "encoder.onnx").write_bytes(encoder_graph(model, precision, metadata, listed))
    shutil.copyfile(settings.subword_model, folder / "spm.model")
    for name, symbols in zip(("source.txt", "target.txt"), _symbols(task)):
        text = "".join(f"{symbol}\n" for symbol in symbols)
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    shutil.copyfile(runtime.__file__, folder / "runtime.py")
    searched = ("beam", "lenpen", "max_len_a", "max_len_b")
    config = {
        **sizes,
        "states": states,
        "search": {name: getattr(translator.options, name) for name in searched},
        "normalisation": rules if settings.normalise else [],
        "made_by": versions(),
        "files": {
            path.name: {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
            for path in sorted(folder.iterdir())
        },
    }
    text = json.dumps(config, indent=1) + "\n"  # in ASCII: a rule may have half a character pair
    (folder / "config.json").write_text(text, encoding="utf-8")


def _symbols(task) -> tuple:
    return task.source_dictionary.symbols, task.target_dictionary.symbols


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A folder to fill, which takes its name once the block has ended well.

    Raises:
        UserError: if it cannot be written.
    """
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.absolute().parent))
    except OSError as error:
        raise UserError(f"{out}: {error.strerror}: choose a folder that can be written") from None
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        os.rename(temporary, out)
    except OSError as error:
        inside = str(error.filename or out).startswith((str(temporary), str(out)))
        name = out if inside else error.filename
        raise UserError(f"{name}: {error.strerror or error}: nothing was exported") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
