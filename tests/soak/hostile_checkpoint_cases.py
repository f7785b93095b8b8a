"""Checkpoints as somebody who means ill, a bad disk or another version would hand them over."""

import copy
import io
import os
import pickle
import random
import zipfile
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Dict, Iterator, NamedTuple

import numpy as np
import torch
from omegaconf import OmegaConf


class Case(NamedTuple):
    name: str  # what is wrong
    content: bytes  # the file
    expected: str = "either"  # or "refused" or "loaded" (exactly), by every way of loading it
    other: frozenset = frozenset()  # ways that cannot tell, and may load something else


# ways of loading, as of hostile_checkpoint_ways.py
AVERAGE = frozenset({"average"})  # of any model, of whose options it knows nothing
LOOKING = AVERAGE | {"plot"}  # at the model alone
OPTIONS_OF_THEIR_OWN = AVERAGE | {"resume", "finetune"}
NOT_THE_MODEL = OPTIONS_OF_THEIR_OWN | LOOKING
ANY = NOT_THE_MODEL | {"generate", "interactive", "hub", "translate"}

_MATRIX = "encoder.layers.1.token_mixing.mixing.weight"
_VECTOR = "decoder.layers.0.feed_forward.post.alpha"
_EMBEDDING = "encoder.embed_tokens.weight"


def saved(state, **how) -> bytes:
    """What ``torch.save`` writes."""
    file = io.BytesIO()
    torch.save(state, file, **how)
    return file.getvalue()


BEFORE_1_6 = {"_use_new_zipfile_serialization": False}


def altered(state: dict, place: str, value) -> dict:
    """A copy with *value* at ``"extra_state/best"``, through dictionaries and namespaces."""
    whole = inner = copy.deepcopy(state)
    *outer, last = place.split("/")
    for name in outer:
        inner = inner[name] if isinstance(inner, dict) else vars(inner)[name]
    (inner if isinstance(inner, dict) else vars(inner)).update({last: value})
    return whole


def repacked(archive: bytes, pickled: bytes) -> bytes:
    """The archive with another ``data.pkl`` and the checksums to go with it."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(out, "w") as new:
        for record in old.infolist():
            content = old.read(record)
            new.writestr(record.filename, pickled if "data.pkl" in record.filename else content)
    return out.getvalue()


def pickled_part(archive: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return file.read(next(n for n in file.namelist() if n.endswith("data.pkl")))


class _Made:
    """Pickled, it asks whoever loads it to call something, and to give the result a state."""

    def __init__(self, *how):
        self.how = how

    def __reduce__(self):
        return self.how


def code(state: dict, marker: Path) -> Iterator[Case]:
    """Unpickled, each would make the file *marker*."""
    command = f"touch {marker}"
    by_shell = _Made(os.system, (command,))
    by_python = _Made(eval, (f"__import__('os').system({command!r})",))
    places = ("args", "cfg/model/dropout", "extra_state/best", "model/surplus")
    for kind, thing in (("a command", by_shell), ("Python", by_python)):
        for place in (*places, "last_optimizer_state/state", "more"):
            changed = altered(state, place, [thing] if place == "more" else thing)
            yield Case(f"{kind} in {place}", saved(changed), "refused")
            yield Case(f"{kind} in {place}, before 1.6", saved(changed, **BEFORE_1_6), "refused")
    for protocol in (0, 2, 4):
        content = pickle.dumps({"model": {}, "cfg": by_shell}, protocol)
        yield Case(f"command in a pickle of protocol {protocol}", content, "refused")
    quoted = f"S'{command}'\n".encode()
    short = b"\x8c" + bytes([len(command)]) + command.encode()
    by_hand = {
        "GLOBAL": b"cos\nsystem\n(" + quoted + b"tR.",
        "INST": b"(" + quoted + b"ios\nsystem\n.",
        "OBJ": b"(cos\nsystem\n" + quoted + b"o.",
        "STACK_GLOBAL": b"\x80\x04\x8c\x02os\x8c\x06system\x93" + short + b"\x85R.",
        "BUILD": b"cargparse\nNamespace\n)R}S'x'\ncos\nsystem\n(" + quoted + b"tRsb.",
    }
    for name, content in by_hand.items():
        yield Case(f"command by {name}", content, "refused")
        yield Case(f"command by {name} in an archive", repacked(saved(state), content), "refused")


def arrays(state: dict) -> Iterator[Case]:
    """NumPy's own functions, called so as to read memory that the file chooses, or claims."""
    rebuild, empty = np.empty(0).__reduce__()[:2]
    pointers = _Made(np.ndarray, ((1,), "O", b"AAAAAAAA"))
    dtype, flags = np.dtype, ("i8", False, True)
    far = (4, "<", None, ("a",), {"a": (np.dtype("i8"), 1 << 40)}, 8, 1, 0)

    def array(shape, kind, raw=b"AAAAAAAA"):
        return _Made(rebuild, empty, (1, shape, kind, False, raw))

    def case(name: str, place: str, thing) -> Case:
        return Case(name, saved(altered(state, place, thing)), "refused")

    for place in ("extra_state/best", "cfg/model/dropout", "model/surplus"):
        yield case(f"pointers in {place}", place, pointers)
    yield case("pointers in args", "args", Namespace(dropout=pointers))
    for name, thing in {
        "an array with a field far away": array((1,), _Made(dtype, flags, far)),
        "a type with a field far away": _Made(dtype, flags, far),
        "an array of pointers by its state": array((1,), np.dtype("O")),
        "an array of records": _Made(np.ndarray, ((1,), [("a", "O")], b"AAAAAAAA")),
        "an array without bytes": _Made(np.ndarray, ((1 << 30,), "i8")),
        "an array that is too long for its bytes": array((1 << 40,), np.dtype("i8")),
        "an array of negative lengths": array((-1, -1), np.dtype("i8")),
        "an array of floats": np.ones(2),
        "an array of 32 bits": np.ones(2, np.int32),
        "an array with its bytes in the other order": np.ones(2, ">i8"),
        "the bytes of an array in a list": array((1,), np.dtype("i8"), [pointers]),
    }.items():
        yield case(name, "extra_state/best", thing)


def evaluated(state: dict, marker: Path) -> Iterator[Case]:
    """Plain data, but an option that one of fairseq's models hands to ``eval``."""
    trap = f"__import__('os').system('touch {marker}') or [(16, 3)]"
    for name, options in {
        "fconv": ("encoder_layers", "decoder_layers", "decoder_attention"),
        "fconv_self_att": ("pretrained", "encoder_layers", "self_attention"),
        "wav2vec2": ("conv_feature_layers",),
    }.items():
        new = copy.deepcopy(state)
        model = new["cfg"]["model"]
        vars(model).update(dict.fromkeys(options, trap), _name=name, arch=name)
        # those that look at the model alone take it for a resmlp_mt with odd options
        yield Case(f"code in the options of {name}", saved(new), "either", LOOKING - AVERAGE)
        del model._name
        old = saved({**new, "args": model, "cfg": None})
        yield Case(f"code in the old options of {name}", old, "either", LOOKING - AVERAGE)


def same(state: dict) -> Iterator[Case]:
    """Other forms of the same checkpoint: all load."""
    loaded = partial(Case, expected="loaded")
    yield loaded("as it is", saved(state))
    yield loaded("in PyTorch's format before 1.6", saved(state, **BEFORE_1_6))
    torch.serialization.set_crc32_options(False)
    try:
        yield loaded("without checksums", saved(state))
    finally:
        torch.serialization.set_crc32_options(True)
    by_hydra = OmegaConf.to_container(OmegaConf.create({**vars(state["cfg"]["model"])}))
    yield loaded("options saved by hydra", saved(altered(state, "cfg/model", by_hydra)))
    counted = saved(altered(state, "extra_state/counts", np.arange(4)))
    yield loaded("with counts of n-grams", counted)
    pickled = pickled_part(counted)
    names = (b"cnumpy.core.multiarray\n", b"cnumpy._core.multiarray\n")  # in NumPy 1 and 2
    here = next(name for name in names if name in pickled)
    for number, name in enumerate(names, 1):
        content = repacked(counted, pickled.replace(here, name))
        yield loaded(f"with counts of n-grams by NumPy {number}", content)


def foreign(state: dict) -> Iterator[Case]:
    """Files that are something else."""
    packed, compressed = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("archive/readme.txt", "no checkpoint")
    with (
        zipfile.ZipFile(io.BytesIO(saved(state))) as old,
        zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for record in old.infolist():
            new.writestr(record.filename, old.read(record))
    for name, content in {
        "an empty file": b"",
        "text": b"H-0\t-0.1\tno checkpoint\n" * 50,
        "another archive": packed.getvalue(),
        "a compressed archive": compressed.getvalue(),
        "zeros": bytes(5000),
        "a list": saved([1, 2]),
        "a number": saved(3),
        "a tensor": saved(torch.zeros(3)),
        "an empty dictionary": saved({}),
        "weights alone": saved(state["model"]),
        "a namespace": saved(Namespace(model=state["model"])),
    }.items():
        yield Case(name, content, "refused")


def damaged(content: bytes, files: int) -> Iterator[Case]:
    """Cut off at random offsets; one random bit flipped; 200 random bytes changed."""
    for seed in range(files):
        offset = random.Random(seed).randrange(len(content))
        yield Case(f"cut off at byte {offset}", content[:offset], "refused")
    for seed in range(2 * files):
        draw, changed = random.Random(seed), bytearray(content)
        offset = draw.randrange(len(content))
        changed[offset] ^= 1 << draw.randrange(8)
        yield Case(f"a bit of byte {offset} flipped", bytes(changed))
    for seed in range(files):
        draw, changed = random.Random(seed), bytearray(content)
        for offset in draw.sample(range(len(content)), 200):
            changed[offset] ^= draw.randrange(1, 256)
        yield Case(f"200 bytes changed, seed {seed}", bytes(changed), "refused")


def mutated(state: dict, files: int) -> Iterator[Case]:
    """Three random bytes of the pickled part changed, with checksums that go with them: anything
    may have been meant, but it must be read as data, and refused with one line."""
    archive = saved(state)
    pickled = pickled_part(archive)
    for seed in range(files):
        draw = random.Random(seed)
        changed = bytearray(pickled)
        for offset in draw.sample(range(len(pickled)), 3):
            changed[offset] = draw.randrange(256)
        yield Case(f"pickle changed, seed {seed}", repacked(archive, bytes(changed)), "either", ANY)


def weights(state: dict) -> Iterator[Case]:
    """Parameters of the wrong shape or kind, missing, surplus, or NaN."""
    of = state["model"]

    def case(name: str, changed: dict, other=frozenset()) -> Case:
        return Case(name, saved({**state, "model": changed}), "refused", other)

    for name, parameter, value in (
        ("a matrix a row short", _MATRIX, of[_MATRIX][:, 1:].clone()),
        ("a vector too long", _VECTOR, torch.ones(17)),
        ("a scalar for a vector", _VECTOR, torch.tensor(1.0)),
        ("an embedding too many", _EMBEDDING, torch.ones(57, 16)),
        ("a surplus key", "surplus", torch.ones(2)),
    ):
        yield case(name, {**of, parameter: value}, AVERAGE)
    for name in (_MATRIX, _EMBEDDING):
        yield case(f"no {name}", {k: v for k, v in of.items() if k != name}, AVERAGE)
    yield case("a key that is a number", {**of, 7: torch.ones(2)})
    for name, value in {
        "a string for a tensor": "1",
        "a list for a tensor": [1.0] * 16,
        "a sparse tensor": torch.ones(16).to_sparse(),
        "a tensor without values": torch.ones(16, device="meta"),
        "a tensor of 16 times the same": torch.ones(1).expand(16),
        "a tensor of 2**40 times the same": torch.ones(1).expand(1 << 40),
    }.items():
        yield case(name, {**of, _VECTOR: value})
    for value in ("nan", "inf", "-inf"):
        for name in (_MATRIX, _VECTOR, _EMBEDDING):
            broken = of[name].clone()
            broken.view(-1)[5] = float(value)
            yield case(f"{value} in {name}", {**of, name: broken})
    half = {name: weight.half() for name, weight in of.items()}
    half[_VECTOR][3] = float("nan")
    yield case("nan in 16 bits", half)
    yield case("no weights", {}, AVERAGE)
    for model in ([1], None, "x"):
        yield case(f"the weights are {model!r}", model)


def optimizers(state: dict) -> Iterator[Case]:
    """The state of the optimizer is NaN or of another shape: the weights are not, and load."""
    sums = state["last_optimizer_state"]["state"][2]["sum"]
    wrong = {value: sums.clone() for value in ("nan", "inf")}
    for value, changed in wrong.items():
        changed.view(-1)[-1] = float(value)
    wrong["a tensor repeated"] = torch.ones(1).expand(16)
    wrong["a tensor of another shape"] = torch.stack([sums, sums])
    for name, value in wrong.items():
        new = copy.deepcopy(state)
        new["last_optimizer_state"]["state"][2]["sum"] = value
        content = saved(new)
        yield Case(f"{name} in the optimizer's state", content, "refused", ANY - {"resume"})


def options(state: dict) -> Iterator[Case]:
    """Options of the model of another version: added, left out, of other types or values."""

    def case(name: str, expected: str, *gone, **values) -> Case:
        kept = {k: v for k, v in vars(state["cfg"]["model"]).items() if k not in gone}
        changed = altered(state, "cfg/model", Namespace(**{**kept, **values}))
        return Case(name, saved(changed), expected, OPTIONS_OF_THEIR_OWN)

    ours = [n for n in vars(state["cfg"]["model"]) if "token_mixing" in n]
    ours += ["folded", "layerscale_init", "normalization"]
    yield case("an unknown option", "loaded", surprise="x", another=[1, {"y": 2}])
    yield case("none of our options", "loaded", *ours)
    yield case("no max_source_positions", "refused", "max_source_positions")
    yield case("no encoder_layers", "refused", "encoder_layers")
    yield case("no name", "either", "_name", "arch")
    for name in ("resmlp_mt_99", "", None, 7, "transformer", "lstm"):
        yield case(f"the architecture {name!r}", "either", _name=name, arch=name)
    wrong = {
        "encoder_layers": ("2", None, [2], 1, 3, -1, 2.5, float("nan"), {"n": 2}),
        "encoder_embed_dim": ("sixteen", 0, 17, None, 1 << 40),
        "decoder_attention_heads": (0, 3, "2"),
        "max_source_positions": (-1, 0, 31, 33, "32", None, 1 << 20),
        "max_target_positions": (31, [32]),
        "token_mixing": ("quantum", "toeplitz", None, 3),
        "token_mixing_heads": (0, 3, 2, "1"),
        "normalization": ("layernorm", "x", None),
        "folded": (True, "yes"),
        "activation_fn": ("nonesuch", 7, None),
        "dropout": ("a", None, -1.0, 7.0),
        "layerscale_init": ("x", None),
        "share_all_embeddings": ("no", None, False),
        "adaptive_softmax_cutoff": ("x", [1], "10,20"),
        "encoder_layers_to_keep": ("0", "x", [0]),
        "encoder_embed_path": ("/nowhere",),
        "quant_noise_pq": (0.5, "x"),
    }
    for option, values in wrong.items():
        for value in values:
            yield case(f"{option} = {value!r}", "either", **{option: value})


def around(state: dict) -> Iterator[Case]:
    """What stands around the model."""

    def case(place: str, value, other=OPTIONS_OF_THEIR_OWN) -> Case:
        changed = altered(state, place, value)
        return Case(f"{place} is {value!r}", saved(changed), "either", other)

    def without(place: str, name: str) -> Case:
        inside = state[place] if place else state
        kept = {k: v for k, v in inside.items() if k != name}
        content = saved({**state, place: kept} if place else kept)
        return Case(f"no {name}", content, "either", OPTIONS_OF_THEIR_OWN)

    for value in (None, {}, [], "x", 3):
        for place in ("cfg", "cfg/model", "cfg/generation"):
            yield case(place, value)
        yield case("cfg/task", value, NOT_THE_MODEL)
    for task in ("nonesuch", "language_modeling", None):
        yield case("cfg/task/_name", task, NOT_THE_MODEL)
    for language in ("zz", 5):
        yield case("cfg/task/source_lang", language, NOT_THE_MODEL)
    yield case("cfg/common/log_file", "${oc.env:HOME}")
    for name in ("extra_state", "optimizer_history", "last_optimizer_state", "task_state"):
        yield without("", name)
        for value in (None, [], "x", [{}], {"a": 1}):
            yield case(name, value)
    for name in ("train_iterator", "val_loss", "metrics"):
        yield without("extra_state", name)
        yield case(f"extra_state/{name}", "x")


def groups(checkpoint: Path, marker: Path, files: int) -> Dict[str, Iterator[Case]]:
    """All cases that are made of a checkpoint, by what is wrong. Code in a case would make the file
    *marker*; so many *files* are damaged at random in each way."""
    state = torch.load(checkpoint, weights_only=True)
    return {
        "same": same(state),
        "code": code(state, marker),
        "arrays": arrays(state),
        "code in options": evaluated(state, marker),
        "another file": foreign(state),
        "weights": weights(state),
        "optimizer": optimizers(state),
        "options": options(state),
        "around the model": around(state),
        "damaged": damaged(checkpoint.read_bytes(), files),
        "pickle changed": mutated(state, files),
    }
