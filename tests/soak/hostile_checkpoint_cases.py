"""Files that an attacker, a bad disk or another version may hand over as a checkpoint.

Each is a good checkpoint with one change: of a value at some place in it, or of its bytes."""

import copy
import io
import os
import pickle
import random
import re
import zipfile
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Iterator, NamedTuple

import numpy as np
import torch
from omegaconf import OmegaConf


class Case(NamedTuple):
    name: str  # what is wrong
    content: bytes  # the file
    expected: str = "either"  # or "refused" or "loaded" (exactly), by every way of loading it
    other: frozenset = frozenset()  # ways that cannot tell, and may load something else


class Good(NamedTuple):
    """A good checkpoint, and what is to be made of it."""

    content: bytes
    state: dict
    marker: Path  # a file that code in a case would make
    files: int  # damaged at random in each way


# ways of loading, as of hostile_checkpoint_ways.py
AVERAGE = frozenset({"average"})  # of any model, of whose options it knows nothing
PLOT = frozenset({"plot"})  # looks at the model alone
OWN_OPTIONS = AVERAGE | {"resume", "finetune"}
ANY = OWN_OPTIONS | PLOT | {"generate", "interactive", "hub", "translate"}

MATRIX = "encoder.layers.1.token_mixing.mixing.weight"
VECTOR = "decoder.layers.0.feed_forward.post.alpha"
EMBEDDING = "encoder.embed_tokens.weight"
GONE = object()  # for a value: there is none
ODD = (None, {}, [], "x", 3)

# places around the weights, and values that do not fit the rest of the checkpoint
MISFITS = {
    "cfg/model/encoder_layers": ("2", None, [2], 1, 3, -1, 2.5, float("nan"), GONE),
    "cfg/model/encoder_embed_dim": ("sixteen", 0, 17, None, 1 << 40),
    "cfg/model/decoder_attention_heads": (0, 3, "2"),
    "cfg/model/max_source_positions": (-1, 0, 31, 33, "32", None, 1 << 20, GONE),
    "cfg/model/max_target_positions": (31, [32]),
    "cfg/model/token_mixing": ("quantum", "toeplitz", None, 3),
    "cfg/model/token_mixing_heads": (0, 3, 2, "1"),
    "cfg/model/normalization": ("layernorm", "x", None),
    "cfg/model/folded": (True, "yes"),
    "cfg/model/activation_fn": ("nonesuch", 7, None),
    "cfg/model/dropout": ("a", None, -1.0, 7.0),
    "cfg/model/layerscale_init": ("x", None),
    "cfg/model/share_all_embeddings": ("no", None, False),
    "cfg/model/adaptive_softmax_cutoff": ("x", [1], "10,20"),
    "cfg/model/encoder_layers_to_keep": ("0", "x", [0]),
    "cfg/model/encoder_embed_path": ("/nowhere",),
    "cfg/model/quant_noise_pq": (0.5, "x"),
    "cfg/model/_name": ("resmlp_mt_99", "", None, 7, "transformer", "lstm", GONE),
    **dict.fromkeys(("cfg", "cfg/model", "cfg/generation", "cfg/task"), ODD),
    "cfg/task/_name": ("nonesuch", "language_modeling", None),
    "cfg/task/source_lang": ("zz", 5),
    "cfg/common/log_file": ("${oc.env:HOME}",),
    **dict.fromkeys(
        ("extra_state", "optimizer_history", "last_optimizer_state", "task_state"),
        (GONE, None, [], "x", [{}], {"a": 1}),
    ),
    **dict.fromkeys((f"extra_state/{x}" for x in ("train_iterator", "val_loss")), (GONE, "x")),
    "extra_state/metrics": (GONE, "x"),
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


def changed(state: dict, place: str, values, expected="either", other=frozenset()):
    """A case for each of some values at a place."""
    for value in values:
        named = "gone" if value is GONE else f"{value!r:.50}"
        yield Case(f"{place}: {named}", saved(altered(state, place, value)), expected, other)


def refused(state: dict, place: str, *values, other=frozenset()):
    return changed(state, place, values, "refused", other)


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
    state, command = good.state, f"touch {good.marker}"
    by_shell = Made(os.system, (command,))
    by_python = Made(eval, (f"__import__('os').system({command!r})",))
    places = ("args", "cfg/model/dropout", "extra_state/best", "model/surplus")
    for thing in (by_shell, by_python):
        for place in (*places, "last_optimizer_state/state", "more"):
            for how in ({}, BEFORE_1_6):
                content = saved(altered(state, place, thing), **how)
                yield Case(f"{thing.how[0]} in {place}, {how}", content, "refused")
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
        yield from refused(good.state, place, pointers)
    yield from refused(good.state, "args", Namespace(dropout=pointers))
    yield from refused(
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
    """Plain data, but an option that one of fairseq's models hands to ``eval``."""
    trap = f"__import__('os').system('touch {good.marker}') or [(16, 3)]"
    for name, options in {
        "fconv": ("encoder_layers", "decoder_layers", "decoder_attention"),
        "fconv_self_att": ("pretrained", "encoder_layers", "self_attention"),
        "wav2vec2": ("conv_feature_layers",),
    }.items():
        new = copy.deepcopy(good.state)
        model = new["cfg"]["model"]
        vars(model).update(dict.fromkeys(options, trap), _name=name, arch=name)
        # those that look at the model alone take it for a resmlp_mt with odd options
        yield Case(f"code in the options of {name}", saved(new), "either", PLOT)
        del model._name
        old = saved({**new, "args": model, "cfg": None})
        yield Case(f"code in the old options of {name}", old, "either", PLOT)


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
    packed, compressed = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("archive/readme.txt", "no checkpoint")
    with (
        zipfile.ZipFile(io.BytesIO(good.content)) as old,
        zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for record in old.infolist():
            new.writestr(record.filename, old.read(record))
    yield Case("another archive", packed.getvalue(), "refused")
    yield Case("a compressed archive", compressed.getvalue(), "refused")
    for content in (b"", b"H-0\t-0.1\tno checkpoint\n" * 50, bytes(5000)):
        yield Case(f"{content[:20]!r}", content, "refused")
    for other in ([1, 2], 3, torch.zeros(3), {}, model, Namespace(model=model)):
        yield Case(f"{other!r:.50}", saved(other), "refused")


def overwritten(content: bytes, seed: int, number: int) -> bytes:
    """With so many bytes changed."""
    draw, new = random.Random(seed), bytearray(content)
    for offset in draw.sample(range(len(content)), number):
        new[offset] ^= draw.randrange(1, 256)
    return bytes(new)


def damaged(good: Good) -> Iterator[Case]:
    """Cut off anywhere; one bit flipped; 200 bytes changed."""
    content, files = good.content, good.files
    for seed in range(files):
        offset = random.Random(seed).randrange(len(content))
        yield Case(f"cut off at byte {offset}", content[:offset], "refused")
        yield Case(f"200 bytes, seed {seed}", overwritten(content, seed, 200), "refused")
    for seed in range(2 * files):
        draw, new = random.Random(seed), bytearray(content)
        offset = draw.randrange(len(content))
        new[offset] ^= 1 << draw.randrange(8)
        yield Case(f"a bit of byte {offset} flipped", bytes(new))


def mutated(good: Good) -> Iterator[Case]:
    """Three bytes of the pickled part changed, with checksums that go with them: anything may have
    been meant, but it must be read as data, and refused with one line."""
    for seed in range(good.files):
        new = repacked(good.content, overwritten(pickled_part(good.content), seed, 3))
        yield Case(f"pickle changed, seed {seed}", new, "either", ANY)


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
        yield from refused(state, f"model/{name}", *values, other=AVERAGE)
    yield from refused(
        *(state, f"model/{VECTOR}", "1", [1.0] * 16, torch.ones(16).to_sparse()),
        *(torch.ones(16, device="meta"), torch.ones(1).expand(16)),
        torch.ones(1).expand(1 << 40),
    )
    for value in ("nan", "inf", "-inf"):
        for name in (MATRIX, VECTOR, EMBEDDING):
            broken = of[name].clone()
            broken.view(-1)[5] = float(value)
            yield from refused(state, f"model/{name}", broken)
    half = {name: weight.half() for name, weight in of.items()}
    half[VECTOR][3] = float("nan")
    yield from refused(state, "model/7", torch.ones(2))  # a key that is a number
    yield from refused(state, "model", half, [1], None, "x")
    yield from refused(state, "model", {}, other=AVERAGE)


def optimizers(good: Good) -> Iterator[Case]:
    """The optimizer's state is NaN or infinite: the weights are not, and load."""
    state, sums = good.state, good.state["last_optimizer_state"]["state"][2]["sum"]
    wrong = [sums * float("nan"), sums * float("inf"), torch.ones(1).expand(16)]
    yield from refused(state, "last_optimizer_state/state/2/sum", *wrong, other=ANY - {"resume"})


def misfits(good: Good) -> Iterator[Case]:
    """Options and records of another version: added, left out, of other types or values."""
    for place, values in MISFITS.items():
        other = OWN_OPTIONS | PLOT if "task" in place else OWN_OPTIONS
        yield from changed(good.state, place, values, "either", other)


GROUPS = (same, code, arrays, evaluated, foreign, weights, optimizers, misfits, damaged, mutated)
