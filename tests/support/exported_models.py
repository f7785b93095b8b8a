"""Small models with random weights, and the folder of data that `resmlp-mt export` reads."""

import copy
import hashlib
import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary
from helpers import build_model, model_options

from resmlp_mt.export.folder import export
from resmlp_mt.pipeline.translate.options import SearchOptions
from resmlp_mt.pipeline.translate.translator import Translator
from resmlp_mt.text import TextSettings, train_subwords
from resmlp_mt_runtime import native
from resmlp_mt_runtime.folder import SEARCH_OPTIONS
from resmlp_mt_runtime.pieces import NFC, Subwords

need_library = pytest.mark.skipif(not native.load_library(), reason="the library is not built")
SHARED = {"share_all_embeddings": True, "share_decoder_input_output_embed": True}
POSITIONS = {"max_source_positions": 40, "max_target_positions": 40}
BYTES = ["<0x41>", "<0x42>", "<0x43>"]  # pieces of the dictionary that spell bytes
LINES = [
    "the red dog runs in the park and the cat sits on the old wall",
    "A man, who sings; walks home with 12 green bags - slowly!",
    "women and children swim near a big blue boat in cold water",
    "Why does nobody here know what this word means?",
]


def random_model(data: Path, std: float = 0.3, **options):
    """A model with random weights."""
    dictionary = Dictionary.load(str(data / "dict.en.txt"))
    return build_model(vocabulary=dictionary, std=std, **{**POSITIONS, **options})[0]


def with_model(translator: Translator, model, beam: int = 4, **search) -> Translator:
    """The translator of another *model* and *search*. Loading one from a file takes a second."""
    other = copy.copy(translator)
    other.options = replace(translator.options, beam=beam, nbest=beam, **search)
    generation = Namespace(**{name: getattr(other.options, name) for name in SEARCH_OPTIONS})
    model.prepare_for_inference_(Namespace(generation=generation))
    other.models, other.generator = [model], translator.task.build_generator([model], generation)
    return other


def saved_model(folder: Path, **options) -> SearchOptions:
    """A random model in a folder, with its data beside it; how to search with it."""
    data, path = folder / "data", folder / "model.pt"
    data.mkdir()
    spm = train_subwords(LINES, data / "spm", 90)
    dictionary = Dictionary()
    for piece in [*Subwords(spm).pieces[1:], *BYTES]:
        dictionary.add_symbol(piece)
    for language in ("en", "de"):
        dictionary.save(str(data / f"dict.{language}.txt"))
    TextSettings("en", "de", spm, NFC).save(data)
    model, args = random_model(data, **options), model_options(**{**POSITIONS, **options})
    args.task, args.source_lang, args.target_lang, args.data = "translation", "en", "de", str(data)
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}}
    state = {"args": args, "model": model.state_dict(), "extra_state": {"epoch": 1}}
    torch.save({**state, "optimizer_history": [{**history, "num_updates": 1}]}, path)
    return SearchOptions(paths=(path,), data=data, max_len_b=20, cpu=True)


@pytest.fixture(scope="session")
def plain(tmp_path_factory):
    """A Translator of a random model."""
    return Translator(saved_model(tmp_path_factory.mktemp("plain"), token_mixing_heads=2))


@pytest.fixture(scope="session")
def exported(plain, tmp_path_factory):
    """A folder that ``resmlp-mt export`` wrote, in float32."""
    folder = tmp_path_factory.mktemp("exported") / "out"
    export(plain, folder, "float32")
    return folder


def change_file(folder: Path, name: str, change):
    """Change the bytes of a file in an exported folder, and what config.json lists of it."""
    data = change((folder / name).read_bytes())
    (folder / name).write_bytes(data)
    if name != "config.json":
        config = json.loads((folder / "config.json").read_text())
        config["files"][name] = hashlib.sha256(data).hexdigest()
        (folder / "config.json").write_text(json.dumps(config))


def changed_config(**values):
    return lambda data: json.dumps({**json.loads(data), **values}).encode()


def changed_weights(change):
    """A change of the description of arrays that begins the file of the weights."""

    def changed(data):
        begin = 8 + int.from_bytes(data[:8], "little")
        arrays = json.loads(data[8:begin])
        change(arrays)
        header = json.dumps(arrays).encode()
        header += b" " * (-(8 + len(header)) % 64)
        return len(header).to_bytes(8, "little") + header + data[begin:]

    return changed


def sentences(model):
    """Subwords of many lengths, some bytes, and nothing but unknown words."""
    found = [model.pieces(line) for line in LINES]
    return [*found, found[0][:1], found[1][:7], BYTES[:1] + found[2][3:12], ["?!"] * 3]
