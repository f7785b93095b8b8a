"""Checkpoints as somebody who means ill, a bad disk or another version would hand them over."""

import copy
import io
import os
import pickle
import random
import zipfile
from argparse import Namespace
from pathlib import Path
from typing import Callable, Dict, Iterator, NamedTuple

import numpy as np
import torch
from omegaconf import OmegaConf


class Case(NamedTuple):
    """
    Attributes:
        name: what is wrong.
        content: the file.
        expected: ``"refused"`` or ``"loaded"`` (exactly) by every way of loading it; ``"either"``.
        other: ways that cannot tell, and may load something else than was saved.
    """

    name: str
    content: bytes
    expected: str = "either"
    other: frozenset = frozenset()


# ways that build the model from the checkpoint's options; the others have options of their own
BUILDING = ("generate", "interactive", "hub", "translate", "distill", "attention")
OPTIONS_OF_THEIR_OWN = frozenset({"resume", "finetune", "average"})


def saved(state, **how) -> bytes:
    """What ``torch.save`` writes."""
    file = io.BytesIO()
    torch.save(state, file, **how)
    return file.getvalue()


class _Command:
    """Pickled, it asks whoever loads it to run a shell command."""

    def __init__(self, command: str):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


class _Code(_Command):
    """The same by Python code."""

    def __reduce__(self):
        return eval, (f"__import__('os').system({self.command!r})",)


def with_change(state: dict, change: Callable[[dict], object]) -> dict:
    changed = copy.deepcopy(state)
    change(changed)
    return changed


def code(state: dict, marker: Path) -> Iterator[Case]:
    """Unpickled, each would make the file *marker*."""
    command = f"touch {marker}"
    for thing in (_Command(command), _Code(command)):
        places: Dict[str, Callable[[dict], object]] = {
            "args": lambda s, t=thing: s.update(args=t),
            "options": lambda s, t=thing: setattr(s["cfg"]["model"], "dropout", t),
            "extra_state": lambda s, t=thing: s["extra_state"].update(best=t),
            "model": lambda s, t=thing: s["model"].update(surplus=t),
            "optimizer": lambda s, t=thing: s["last_optimizer_state"].update(state=t),
            "top level": lambda s, t=thing: s.update(more=[t]),
        }
        kind = type(thing).__name__.strip("_").lower()
        for place, change in places.items():
            for form in ("archive", "before 1.6"):
                how = {} if form == "archive" else {"_use_new_zipfile_serialization": False}
                content = saved(with_change(state, change), **how)
                yield Case(f"{kind} in {place}, {form}", content, "refused")
    for protocol in (0, 2, 4):
        content = pickle.dumps({"model": {}, "cfg": _Command(command)}, protocol)
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


class _Made:
    """Pickled, it asks whoever loads it to call something, and to give the result a state."""

    def __init__(self, *how):
        self.how = how

    def __reduce__(self):
        return self.how


def arrays(state: dict) -> Iterator[Case]:
    """NumPy's own functions, called so as to read memory that the file chooses, or claims."""
    rebuild, empty = np.empty(0).__reduce__()[:2]
    pointers = _Made(np.ndarray, ((1,), "O", b"AAAAAAAA"))
    dtype, flags = np.dtype, ("i8", False, True)
    far = (4, "<", None, ("a",), {"a": (np.dtype("i8"), 1 << 40)}, 8, 1, 0)

    def array(shape, kind, raw=b"AAAAAAAA"):
        return _Made(rebuild, empty, (1, shape, kind, False, raw))

    places: Dict[str, Callable[[dict], object]] = {
        "extra_state": lambda s: s["extra_state"].update(best=pointers),
        "options": lambda s: setattr(s["cfg"]["model"], "dropout", pointers),
        "args": lambda s: s.update(args=Namespace(dropout=pointers)),
        "model": lambda s: s["model"].update(surplus=pointers),
    }
    for place, change in places.items():
        yield Case(f"pointers in {place}", saved(with_change(state, change)), "refused")
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
        "an array's bytes in a list": array((1,), np.dtype("i8"), [pointers]),
    }.items():
        change = lambda s, t=thing: s["extra_state"].update(best=t)  # noqa: E731
        yield Case(name, saved(with_change(state, change)), "refused")


def repacked(archive: bytes, pickled: bytes) -> bytes:
    """The archive with another ``data.pkl`` and the checksums to go with it."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(out, "w") as new:
        for record in old.infolist():
            content = old.read(record)
            new.writestr(record.filename, pickled if "data.pkl" in record.filename else content)
    return out.getvalue()


def evaluated(state: dict, marker: Path) -> Iterator[Case]:
    """Plain data, but an option that fairseq's model hands to ``eval``."""
    trap = f"__import__('os').system('touch {marker}') or [(16, 3)]"
    for name, options in {
        "fconv": {"encoder_layers": trap, "decoder_layers": trap, "decoder_attention": trap},
        "fconv_self_att": {"pretrained": trap, "encoder_layers": trap, "self_attention": trap},
        "wav2vec2": {"conv_feature_layers": trap},
    }.items():

        def change(s, name=name, options=options):
            vars(s["cfg"]["model"]).update(options, _name=name, arch=name)

        def old(s, name=name, options=options):
            vars(s["cfg"]["model"]).update(options, arch=name)
            del s["cfg"]["model"]._name
            s.update(args=s["cfg"]["model"], cfg=None)

        # those that look at the model alone take it for a resmlp_mt with odd options
        common = ("either", frozenset({"fold", "prune", "plot"}))
        yield Case(f"code in the options of {name}", saved(with_change(state, change)), *common)
        yield Case(f"code in the old options of {name}", saved(with_change(state, old)), *common)


def same(state: dict) -> Iterator[Case]:
    """Other forms of the same checkpoint: all load."""
    yield Case("as it is", saved(state), "loaded")
    before = saved(state, _use_new_zipfile_serialization=False)
    yield Case("in PyTorch's format before 1.6", before, "loaded")
    torch.serialization.set_crc32_options(False)
    try:
        yield Case("without checksums", saved(state), "loaded")
    finally:
        torch.serialization.set_crc32_options(True)
    by_hydra = {**vars(state["cfg"]["model"])}
    cfg = {**state["cfg"], "model": OmegaConf.to_container(OmegaConf.create(by_hydra))}
    yield Case("options saved by hydra", saved({**state, "cfg": cfg}), "loaded")
    counted = saved({**state, "extra_state": {**state["extra_state"], "counts": np.arange(4)}})
    yield Case("with counts of n-grams", counted, "loaded")
    yield Case("with counts of n-grams by NumPy 1", by_numpy(1, counted), "loaded")
    yield Case("with counts of n-grams by NumPy 2", by_numpy(2, counted), "loaded")


def by_numpy(version: int, archive: bytes) -> bytes:
    """The archive with the name that NumPy's module had in that version."""
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        pickled = file.read(next(n for n in file.namelist() if n.endswith("data.pkl")))
    names = [b"cnumpy.core.multiarray\n", b"cnumpy._core.multiarray\n"]
    here = next(name for name in names if name in pickled)
    return repacked(archive, pickled.replace(here, names[version - 1]))


def foreign(state: dict) -> Iterator[Case]:
    """Files that are something else."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("archive/readme.txt", "no checkpoint")
    compressed = io.BytesIO()
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


def damaged(content: bytes, seeds: range, cuts: int, single: int, flips: int) -> Iterator[Case]:
    """Cut off at random offsets; one random bit flipped; 200 random bytes changed.

    Args:
        content: a checkpoint.
        seeds: for each one of each kind, as far as there are to be so many of it.
        cuts, single, flips: how many of each kind.
    """
    for seed in seeds:
        draw = random.Random(seed)
        offset = draw.randrange(len(content))
        if seed < seeds.start + cuts:
            yield Case(f"cut off at byte {offset}", content[:offset], "refused")
        if seed < seeds.start + single:
            yield Case(f"a bit of byte {offset} flipped", _flipped(content, [offset], draw))
        if seed < seeds.start + flips:
            offsets = draw.sample(range(len(content)), 200)
            name = f"200 bytes changed, seed {seed}"
            yield Case(name, _flipped(content, offsets, draw), "refused")


def _flipped(content: bytes, offsets, draw: random.Random) -> bytes:
    changed = bytearray(content)
    for offset in offsets:
        changed[offset] ^= 1 << draw.randrange(8) if len(offsets) == 1 else draw.randrange(1, 256)
    return bytes(changed)
