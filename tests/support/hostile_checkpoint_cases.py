"""Good checkpoints with one change, as an attacker, a bad disk or another version may make it."""

import copy
import io
import os
import pickle
import random
import re
import zipfile
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from omegaconf import OmegaConf


class Case(NamedTuple):
    name: str  # what is wrong
    content: bytes  # the file
    expected: str = "refused"  # or "loaded" (exactly) or "either", by every way of loading it
    other: frozenset = frozenset()  # ways that cannot tell, and may load something else


class Good(NamedTuple):
    """A good checkpoint, and what is to be made of it."""

    content: bytes
    state: dict
    marker: Path  # a file that code in a case would make
    files: int  # damaged at random in each way


# ways of loading, as in test_hostile_checkpoints.py
AVERAGE = frozenset({"average"})  # of any model, of whose options it knows nothing
PLOT = frozenset({"plot"})  # looks at the model alone
OWN_OPTIONS = AVERAGE | {"resume", "finetune"}
ANY = OWN_OPTIONS | PLOT | {"generate", "hub", "translate"}

MATRIX = "encoder.layers.1.token_mixing.mixing.weight"
VECTOR = "decoder.layers.0.feed_forward.post.alpha"
EMBEDDING = "encoder.embed_tokens.weight"
GONE = object()  # for a value: there is none

# places around the weights, each tried with all odd values and some that look right
ODD = (GONE, None, {}, [], [{}], "x", "2", 3, 2.5)
MODEL = ("encoder_layers", "encoder_embed_dim", "decoder_attention_heads", "dropout", "folded")
MODEL += ("max_source_positions", "max_target_positions", "token_mixing", "token_mixing_heads")
MODEL += ("normalization", "activation_fn", "share_all_embeddings", "adaptive_softmax_cutoff")
MODEL += ("layerscale_init", "encoder_layers_to_keep", "quant_noise_pq")
PLACES = ("cfg", "cfg/model", "cfg/task", "cfg/task/_name", "cfg/model/_name")
PLACES += tuple(f"cfg/model/{option}" for option in MODEL)
PLACES += ("extra_state", "optimizer_history", "last_optimizer_state", "task_state")
PLACES += tuple(f"extra_state/{name}" for name in ("train_iterator", "val_loss", "metrics"))
LIKELY = {
    "cfg/model/_name": ("transformer", "lstm"),
    "cfg/model/token_mixing": ("toeplitz",),
    "cfg/model/normalization": ("layernorm",),
    "cfg/model/encoder_embed_dim": (1 << 40,),
    "cfg/model/max_source_positions": (-1, 31, 33, 1 << 20),
    "cfg/model/adaptive_softmax_cutoff": ("10,20",),
    "cfg/model/encoder_embed_path": ("/nowhere",),
    "cfg/generation": (None, {}, [], "x", 3),
    "cfg/task/_name": ("language_modeling",),
    "cfg/task/source_lang": ("zz",),
    "cfg/common/log_file": ("${oc.env:HOME}",),
}


def saved(state, **how) -> bytes:
    """What ``torch.save`` writes."""
    file = io.BytesIO()
    torch.save(state, file, **how)
    return file.getvalue()


BEFORE_1_6 = {"_use_new_zipfile_serialization": False}


def altered(state: dict, place: str, value) -> dict:
    """A copy with *value* at ``"extra_state/best"``, through dictionaries and namespaces."""
    whole = inner = copy.deepcopy(state)
    *outer, last = (int(name) if name.isdigit() else name for name in place.split("/"))
    for name in outer:
        inner = inner[name] if isinstance(inner, dict) else vars(inner)[name]
    inner = inner if isinstance(inner, dict) else vars(inner)
    inner[last] = value
    if value is GONE:
        del inner[last]
    return whole


def changed(state: dict, place: str, *values, expected="refused", other=frozenset()):
    """A case for each of some values at a place."""
    for value in values:
        named = "gone" if value is GONE else f"{value!r:.50}"
        yield Case(f"{place}: {named}", saved(altered(state, place, value)), expected, other)


def repacked(archive: bytes, pickled: bytes, how=zipfile.ZIP_STORED) -> bytes:
    """The archive with another ``data.pkl`` and the checksums to go with it."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(out, "w", how) as new:
        for record in old.infolist():
            content = old.read(record)
            new.writestr(record.filename, pickled if "data.pkl" in record.filename else content)
    return out.getvalue()


def pickled_part(archive: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return file.read(next(n for n in file.namelist() if n.endswith("data.pkl")))


class Made:
    """Pickled, it asks whoever loads it to call something, and to give the result a state."""

    def __init__(self, *how):
        self.how = how

    def __reduce__(self):
        return self.how

    def __repr__(self):
        return f"made by {self.how}"


def code(good: Good) -> Iterator[Case]:
    """Unpickled, each would make a file."""
    by_shell = Made(os.system, (f"touch {good.marker}",))
    for place in ("args", "cfg/model/dropout", "extra_state/best", "model/surplus", "more"):
        for how in ({}, BEFORE_1_6):
            content = saved(altered(good.state, place, by_shell), **how)
            yield Case(f"a command in {place}, {how}", content)
    content = pickle.dumps({"model": {}, "cfg": by_shell})
    yield Case("a command in a bare pickle", content)


def arrays(good: Good) -> Iterator[Case]:
    """NumPy's own functions, called so as to read memory that the file chooses, or claims."""
    rebuild, empty = np.empty(0).__reduce__()[:2]
    pointers = Made(np.ndarray, ((1,), "O", b"AAAAAAAA"))
    i8 = np.dtype("i8")
    far = (4, "<", None, ("a",), {"a": (i8, 1 << 40)}, 8, 1, 0)
    far_field = Made(np.dtype, ("i8", False, True), far)

    def array(shape, kind=i8, raw=b"AAAAAAAA"):
        return Made(rebuild, empty, (1, shape, kind, False, raw))

    for place in ("cfg/model/dropout", "model/surplus"):
        yield from changed(good.state, place, pointers)
    yield from changed(good.state, "args", Namespace(dropout=pointers))
    yield from changed(
        *(good.state, "extra_state/best", pointers, far_field, array((1,), far_field)),
        array((1,), np.dtype("O")),
        Made(np.ndarray, ((1,), [("a", "O")], b"AAAAAAAA")),  # records of pointers
        Made(np.ndarray, ((1 << 30,), "i8")),  # without bytes
        array((1 << 40,)),  # longer than its bytes
        array((-1, -1)),
        *(np.ones(2), np.ones(2, np.int32), np.ones(2, ">i8")),
        array((1,), raw=[pointers]),
    )


def evaluated(good: Good) -> Iterator[Case]:
    """Plain data, but an option that a model of fairseq hands to ``eval``."""
    trap = f"__import__('os').system('touch {good.marker}') or [(16, 3)]"
    new = copy.deepcopy(good.state)
    model = new["cfg"]["model"]
    vars(model).update(encoder_layers=trap, _name="fconv", arch="fconv")
    # those that look at the model alone take it for a resmlp_mt with odd options
    yield Case("code in an option", saved(new), "either", PLOT)
    del model._name
    old = saved({**new, "args": model, "cfg": None})
    yield Case("code in an option of an old file", old, "either", PLOT)


def same(good: Good) -> Iterator[Case]:
    """Other forms of the same checkpoint, with options of an older or a newer version: all load."""
    state, loaded = good.state, partial(Case, expected="loaded")
    model = vars(state["cfg"]["model"])
    yield loaded("as it is", saved(state))
    yield loaded("in PyTorch's format before 1.6", saved(state, **BEFORE_1_6))
    torch.serialization.set_crc32_options(False)
    try:
        yield loaded("without checksums", saved(state))
    finally:
        torch.serialization.set_crc32_options(True)
    by_hydra = OmegaConf.to_container(OmegaConf.create(model))
    yield loaded("options saved by hydra", saved(altered(state, "cfg/model", by_hydra)))
    more = {**model, "surprise": "x", "another": [1, {"y": 2}]}
    ours = re.compile("token_mixing|folded|layerscale_init|normalization")
    fewer = {name: value for name, value in model.items() if not ours.search(name)}
    for options in (more, fewer):
        new = saved(altered(state, "cfg/model", Namespace(**options)))
        yield loaded(f"{len(options)} options", new, other=OWN_OPTIONS)
    counted = saved(altered(state, "extra_state/counts", np.arange(4)))
    yield loaded("with counts of n-grams", counted)
    pickled = pickled_part(counted)
    names = (b"cnumpy.core.multiarray\n", b"cnumpy._core.multiarray\n")  # in NumPy 1 and 2
    here = next(name for name in names if name in pickled)
    for number, name in enumerate(names, 1):
        content = repacked(counted, pickled.replace(here, name))
        yield loaded(f"with counts of n-grams by NumPy {number}", content)


def foreign(good: Good) -> Iterator[Case]:
    """Files that are something else."""
    model = good.state["model"]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("archive/readme.txt", "no checkpoint")
    yield Case("another archive", packed.getvalue())
    compressed = repacked(good.content, pickled_part(good.content), zipfile.ZIP_DEFLATED)
    yield Case("a compressed archive", compressed)
    for content in (b"", b"H-0\t-0.1\tno checkpoint\n" * 50, bytes(5000)):
        yield Case(f"{content[:20]!r}", content)
    for other in ([1, 2], 3, torch.zeros(3), {}, model, Namespace(model=model)):
        yield Case(f"{other!r:.50}", saved(other))


def changed_bytes(content: bytes, seed: int, number: int) -> bytes:
    draw, new = random.Random(seed), bytearray(content)
    for offset in draw.sample(range(len(content)), number):
        new[offset] ^= draw.randrange(1, 256)
    return bytes(new)


def damaged(good: Good) -> Iterator[Case]:
    """Cut off or with wrong bytes; a wrong pickle with right checksums must be read as data."""
    content = good.content
    for seed in range(good.files):
        offset = random.Random(seed).randrange(len(content))
        yield Case(f"cut off at byte {offset}", content[:offset])
        yield Case(f"200 bytes, seed {seed}", changed_bytes(content, seed, 200))
        yield Case(f"a byte, seed {seed}", changed_bytes(content, seed, 1), "either")
        new = repacked(content, changed_bytes(pickled_part(content), seed, 3))
        yield Case(f"the pickle, seed {seed}", new, "either", ANY)


def flipped(good: Good) -> Iterator[Case]:
    """A bit of a weight. PyTorch loads it, and the model translates: only the checksum can tell."""
    content = bytearray(good.content)
    weight = good.state["model"]["encoder.layers.0.token_mixing.mixing.weight"]
    content[content.index(weight.numpy().tobytes()) + 2] ^= 1
    yield Case("a bit", bytes(content))


def weights(good: Good) -> Iterator[Case]:
    """Parameters of the wrong shape or kind, missing, surplus, or NaN."""
    state, of = good.state, good.state["model"]
    shapes = {
        MATRIX: (of[MATRIX][:, 1:].clone(), GONE),
        VECTOR: (torch.ones(17), torch.tensor(1.0)),
        EMBEDDING: (torch.ones(57, 16), GONE),
        "surplus": (torch.ones(2),),
    }
    for name, values in shapes.items():
        yield from changed(state, f"model/{name}", *values, other=AVERAGE)
    yield from changed(
        *(state, f"model/{VECTOR}", "1", [1.0] * 16, torch.ones(16).to_sparse()),
        *(torch.ones(16, device="meta"), torch.ones(1).expand(16)),
        torch.ones(1).expand(1 << 40),
    )
    for value in ("nan", "inf", "-inf"):
        for name in (MATRIX, VECTOR, EMBEDDING):
            broken = of[name].clone()
            broken.view(-1)[5] = float(value)
            yield from changed(state, f"model/{name}", broken)
    half = {name: weight.half() for name, weight in of.items()}
    half[VECTOR][3] = float("nan")
    yield from changed(state, "model/7", torch.ones(2))  # a key that is a number
    yield from changed(state, "model", half, [1], None, "x")
    yield from changed(state, "model", {}, other=AVERAGE)


def optimizers(good: Good) -> Iterator[Case]:
    """The optimizer's state is NaN or infinite: the weights are not, and load."""
    state, sums = good.state, good.state["last_optimizer_state"]["state"][2]["sum"]
    wrong = [sums * float("nan"), sums * float("inf"), torch.ones(1).expand(16)]
    yield from changed(state, "last_optimizer_state/state/2/sum", *wrong, other=ANY - {"resume"})


def misfits(good: Good) -> Iterator[Case]:
    """Options and records of another version: added, left out, of other types or values."""
    for place, values in [*((place, ODD) for place in PLACES), *LIKELY.items()]:
        other = OWN_OPTIONS | PLOT if "task" in place else OWN_OPTIONS
        yield from changed(good.state, place, *values, expected="either", other=other)


GROUPS = (same, code, arrays, evaluated, foreign, weights, optimizers, misfits, damaged, flipped)
