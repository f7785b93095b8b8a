"""What an exported folder is: data that two engines read, checked before they do.

config.json, weights.safetensors, spm.model, source.txt, target.txt, README.md: no program.
"""

import contextlib
import hashlib
import json
import math
import mmap
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import open_file
from resmlp_mt_runtime.pieces import CONTROL, SPECIAL

FORMAT = 5
CONFIG, WEIGHTS, SUBWORDS = "config.json", "weights.safetensors", "spm.model"
DICTIONARIES = ("source.txt", "target.txt")
FILES = (WEIGHTS, SUBWORDS, *DICTIONARIES)  # of which config.json has the digests
BOS, PAD, EOS, UNKNOWN = range(4)
SIDES = ("encoder", "decoder")
EMBEDDINGS = ("encoder.embedding", "decoder.embedding", "decoder.output")  # equal ones are one
LARGEST = 1 << 24  # of any size
LARGEST_ARRAY = 1 << 30  # numbers, which the engine counts in 32 bits
LARGEST_CONFIG = 1 << 20  # bytes
# what an export holds; the page of examples/browser reads the same table
ARRAYS = Path(__file__).with_name("arrays.txt").read_text("utf-8")
# in config.json: two whole numbers, of source and target, and the least that is valid
PAIRS = {"vocabulary": 5, "layers": 1, "channels": 1, "hidden": 1, "mixing_heads": 1}
PAIRS |= {"positions": 2}  # a token and the end
CHOICES = {
    "precision": ("float32", "float16", "int8"),
    "mixing": ("linear", "toeplitz", "gated"),
    "activation": ("relu", "gelu"),
    "normalization": ("affine", "layernorm"),
    "rule": (None, "nfc"),
}
# as in fairseq
SEARCH_OPTIONS = ("beam", "lenpen", "max_len_a", "max_len_b", "no_repeat_ngram_size")


class Export(NamedTuple):
    """The contents of a folder."""

    config: dict[str, Any]
    arrays: dict[str, np.ndarray]  # in the memory of the file
    tokens: list[list[str]]  # of the source, of the target
    subwords: bytes  # SentencePiece's model


def read_export(folder: Path) -> Export:
    """Read a folder that `resmlp-mt export` wrote. Raises a UserError if it is anything else."""
    folder = Path(folder)
    try:
        return _read(folder)
    except OSError as error:
        raise not_an_export(error, folder) from None
    except UserError as error:
        raise UserError(f"{folder}: {error}: export the model again") from None


@contextlib.contextmanager
def _reading(name: str) -> Iterator[None]:
    """A damaged file can raise anything inside a library."""
    try:
        yield
    except (OSError, UserError):
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise UserError(f"{name}: damaged ({reason!r})") from None


def not_an_export(error: OSError, folder: Path) -> UserError:
    """The error of a *folder* with a file that cannot be read."""
    reason = f"{error.filename or folder}: {error.strerror}"
    return UserError(f"{reason}: give a folder of resmlp-mt export")


def _read(folder: Path) -> Export:
    with open_file(folder / CONFIG) as file:
        text = file.read(LARGEST_CONFIG)
    with _reading(CONFIG):
        config = json.loads(text)
        found = config.get("format") if isinstance(config, dict) else None
        if found != FORMAT:
            raise UserError(f"{CONFIG} is of format {found!r:.40}, not {FORMAT}")
        check_config(config)
    data = {}
    for name in FILES:
        with _reading(name):  # which may be empty
            data[name] = _map(folder / name, config["files"].get(name))
    tokens = []
    for name, size in zip(DICTIONARIES, config["vocabulary"]):
        with _reading(name):
            of_side = data[name][:].decode("utf-8").split("\n")[:-1]
        if not len(of_side) == len(set(of_side)) == size or of_side[: len(SPECIAL)] != SPECIAL:
            raise UserError(f"{name} is not a dictionary of {size} tokens")
        if any(map(CONTROL.search, of_side)):  # which a terminal would act on
            raise UserError(f"{name} has control characters")
        tokens.append(of_side)
    with _reading(WEIGHTS):
        arrays = read_arrays(data[WEIGHTS])
        check_arrays(arrays, config)
        if sum(array.nbytes for array in arrays.values()) > len(data[WEIGHTS]):
            raise UserError(f"{WEIGHTS}: arrays overlap")  # engines would copy each of them
    return Export(config, arrays, tokens, data[SUBWORDS][:])


def _map(path: Path, digest: Any) -> mmap.mmap:
    """The bytes of a file that has this digest."""
    with open_file(path) as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != digest:
            raise UserError(f"{path.name} is not the file that {CONFIG} lists")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def read_arrays(data) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file by name, without a copy."""
    types = {"F32": np.float32, "F16": np.float16, "I8": np.int8}
    data = memoryview(data)
    begin = 8 + int.from_bytes(data[:8], "little")
    arrays = {}
    for name, entry in json.loads(bytes(data[8:begin])).items():
        if name == "__metadata__":
            continue
        start, end = entry["data_offsets"]
        part, type_ = data[begin + start : begin + end], types.get(entry["dtype"])
        if type_ and 0 <= start <= end and len(part) == end - start:
            arrays[name] = np.frombuffer(part, type_).reshape(entry["shape"])
        if name not in arrays or list(arrays[name].shape) != entry["shape"]:
            raise UserError(f"{WEIGHTS}: {name!r:.80} does not fit")
    return arrays


def expected_arrays(config: dict) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shape and type of each array of a model, by name."""
    precision, found = config["precision"], {}
    half = np.float32 if precision == "float32" else np.float16
    types = {"vector": np.float32, "matrix": half, "linear": precision, "columns": precision}
    weight = [".weight", *([".scale"] if precision == "int8" else [])]
    parts = {"vector": [""], "matrix": [""], "linear": [*weight, ".bias"], "columns": weight}
    embedded = {name for name, _ in config["embeddings"]}
    for side, of_side in enumerate(SIDES):
        channels, positions = config["channels"][side], config["positions"][side]
        sizes = {
            "C": channels,
            "2C": 2 * channels,
            "F": config["hidden"][side],
            "H": config["mixing_heads"][side],
            "N": positions,
            "2N-1": 2 * positions - 1,
            "T": positions * (positions + 1) // 2,
            "V": config["vocabulary"][side],
            "K": 2 * config["layers"][1] * config["channels"][1],
        }
        for line in re.findall(r"^[^#].*", ARRAYS, re.MULTILINE):
            pattern, letters, kind, models = re.split("  +", line)[:4]
            name = pattern.replace("*", of_side)
            here = {"any", config["mixing"], "untied" if name in embedded else None}
            if not name.startswith(of_side) or here.isdisjoint(models.split(", ")):
                continue
            shape = tuple(sizes[letter] for letter in letters.split())
            whole = shape, np.dtype(types[kind])
            column = shape[-1:], np.dtype(np.float32)  # a bias or scale of each
            for layer in range(config["layers"][side] if ".i." in name else 1):
                for part in parts[kind]:
                    full = name.replace(".i.", f".{layer}.") + part
                    found[full] = whole if part in ("", ".weight") else column
    return found


def check_arrays(arrays: dict[str, np.ndarray], config: dict) -> None:
    """Refuse an array that is missing, unknown, of another shape or type, or that has values which
    no export has and engines would read differently."""
    expected = expected_arrays(config)
    for name in sorted(expected.keys() | arrays.keys()):
        if name not in arrays:
            raise UserError(f"{WEIGHTS} has no {name}")
        if name not in expected:
            raise UserError(f"{WEIGHTS}: unknown array {name!r:.80}")
        (shape, type_), found = expected[name], arrays[name]
        if (found.shape, found.dtype) != (shape, type_):
            is_ = f"{list(found.shape)} of {found.dtype}"
            raise UserError(f"{WEIGHTS}: {name} is {is_}, not {list(shape)} of {type_}")
        if found.size > LARGEST_ARRAY:
            raise UserError(f"{WEIGHTS}: {name} has more than {LARGEST_ARRAY} numbers")
        if found.dtype != np.int8:
            if not np.isfinite(found).all():
                raise UserError(f"{WEIGHTS}: {name} has NaN or infinite values")
        # with AVX2 alone, products of two neighbouring rows are added in 16 bits
        elif np.abs(found[:-1:2].astype(np.int16) + found[1::2]).max(initial=0) > 128:
            raise UserError(f"{WEIGHTS}: {name} has neighbours that sum to more than 128")


def check_config(config: dict) -> None:
    """Refuse values that no export has; Model checks those of "search"."""

    def check(right: bool, name: str) -> None:
        if not right:
            raise UserError(f"{CONFIG}: {name!r} is missing or wrong")

    def is_size(value, least: int = 1) -> bool:
        return type(value) is int and least <= value < LARGEST

    for name, least in PAIRS.items():
        pair = config.get(name)
        check(isinstance(pair, list) and [is_size(x, least) for x in pair] == [True] * 2, name)
    for name, choices in CHOICES.items():
        check(name in config and config[name] in choices, name)
    check(isinstance(config.get("files"), dict), "files")
    names = config.get("languages")
    check(isinstance(names, list) and [type(x) for x in names] == [str] * 2, "languages")
    check(isinstance(config.get("search"), dict), "search")
    check(config["search"].keys() == set(SEARCH_OPTIONS), "search")
    channels, heads = config["channels"], config.get("heads")
    embeddings: Any = config.get("embeddings")
    check(max(config["layers"]) <= 1000, "layers")
    check(is_size(heads) and channels[1] % heads == 0, "heads")
    check(not any(c % h for c, h in zip(channels, config["mixing_heads"])), "mixing_heads")
    check(isinstance(embeddings, list) and len(embeddings) == 2, "embeddings")
    for side, entry in enumerate(embeddings):
        check(isinstance(entry, list) and len(entry) == 2, "embeddings")
        check(entry[0] in EMBEDDINGS[side:], "embeddings")
        check(type(entry[1]) in (int, float) and math.isfinite(entry[1]), "embeddings")
    if embeddings[0][0] != EMBEDDINGS[0]:
        check(channels[0] == channels[1], "embeddings")
        check(config["vocabulary"][0] == config["vocabulary"][1], "embeddings")
