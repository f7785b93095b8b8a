"""An exported folder is data that is checked: no folder but a whole one, and one line says why."""

import json
import os
import shutil
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from command import resmlp
from exported_models import change_file, changed_config, changed_weights
from safetensors.numpy import load, save

from resmlp_mt.export.folder import export
from resmlp_mt_runtime import Model, UserError
from resmlp_mt_runtime.folder import (
    FILES,
    WEIGHTS,
    check_arrays,
    expected_arrays,
    read_arrays,
    read_export,
)

SEARCH = {"beam": 4, "lenpen": 0.6, "max_len_a": 0, "max_len_b": 20, "no_repeat_ngram_size": 0}


def refused(folder: Path) -> str:
    """One line that says what is wrong and what to do, of at most 400 characters."""
    with pytest.raises(UserError) as error:
        Model(folder).translate(["red"])
    message = str(error.value)
    assert str(folder) in message and message.isprintable() and len(message) < 400
    return message


BIAS, EVIL = "decoder.0.query.bias", "x\x1b[31m"


def config(said, **values):
    return "config.json", changed_config(**values), said


def weights(said, change):
    """A change of the description of all arrays."""
    return WEIGHTS, changed_weights(change), said


def bias(said, **entry):
    return weights(said, lambda arrays: arrays[BIAS].update(entry))


def search(said, **values):
    return config(said, search={**SEARCH, **values})


def overlapping(data):
    """As many bytes as the largest array has: all begin at the first."""
    sizes = {name: array.nbytes for name, array in load(data).items()}

    def change(arrays):
        for name, size in sizes.items():
            arrays[name]["data_offsets"] = [0, size]

    changed = changed_weights(change)(data)
    begin = 8 + int.from_bytes(changed[:8], "little")
    return changed[: begin + max(sizes.values())]


def values(number, name=BIAS):
    return lambda data: save({**load(data), name: np.full_like(load(data)[name], number)})


NOTHING = [["decoder.0.first", 1], ["decoder.output", 1]]
# the digests in config.json fit; hostile_native.py changes each array, and each number there
HOSTILE = {
    "half of a model of subwords": ("spm.model", lambda x: x[: len(x) // 2], "not a SentencePiece"),
    "an empty file": ("spm.model", lambda _: b"", "cannot mmap an empty file"),
    "a short dictionary": ("target.txt", lambda data: data[:-9], "target.txt is not a dictionary"),
    "a token twice": ("source.txt", lambda data: b"the\n" * data.count(b"\n"), "not a dictionary"),
    "a control character": ("target.txt", lambda data: data[:-1] + b"\x1b\n", "control char"),
    "no end of sentence": ("target.txt", lambda d: d.replace(b"</s>", b"the end"), "not a dict"),
    "no UTF-8": ("source.txt", lambda data: b"\xff" + data, 'damaged ("UnicodeDecodeError'),
    "short weights": (WEIGHTS, lambda data: data[:-9], "does not fit"),
    "no weights": (WEIGHTS, lambda data: data[:8] + b"[]" + data[10:], "JSONDecodeError"),
    "an endless header": (WEIGHTS, lambda data: b"\xff" * 8 + data[8:], "damaged ("),
    "an array less": weights(f"has no {BIAS}", lambda arrays: arrays.pop(BIAS)),
    "an array more": weights(r"unknown array 'x\x1b[31m'", lambda a: a.update({EVIL: a[BIAS]})),
    "a negative size": bias(BIAS, shape=[-2]),
    "another shape": bias(f"{BIAS} is [1, 16] of float32", shape=[1, 16]),
    "another type": bias("not [16] of float32", dtype="F16", shape=[32]),
    "a long name": weights("unknown array 'xxx", lambda a: a.update({"x" * 500: a[BIAS]})),
    "Python objects": bias("does not fit", dtype="O"),
    "far away": bias("does not fit", data_offsets=[1 << 40, (1 << 40) + 64]),
    "before the file": bias("does not fit", data_offsets=[-64, 0]),
    "overlapping arrays": (WEIGHTS, overlapping, "arrays overlap"),
    "NaN": (WEIGHTS, values(np.nan), f"{BIAS} has NaN or infinite values"),
    "an infinite number": (WEIGHTS, values(-np.inf), f"{BIAS} has NaN or infinite values"),
    "an older format": config("is of format 3, not 5", format=3),
    "a long format": config("of format 'xxx", format="x" * 500),
    "no positions": config("'positions'", positions=[1, 1]),
    "a million layers": config("'layers'", layers=[1 << 20, 2]),
    "no list of files": config("not the file", files={}),
    "another mixing": config("'mixing'", mixing="self-attention"),
    "another rule": config("'rule'", rule="nfkc"),
    "no rule": ("config.json", lambda data: data.replace(b'"rule"', b'"ruler"'), "'rule'"),
    "embeddings of nothing": config("'embeddings'", embeddings=NOTHING),
    "an endless factor": config("'embeddings'", embeddings=[["decoder.output", float("nan")]] * 2),
    "a beam for days": search("beam 1000000: give a whole number", beam=10**6),
    "a long beam": search("beam 'xxx", beam="x" * 500),
    "a search less": config("'search'", search={"beam": 4}),
    "a list": ("config.json", lambda _: b"[]", "of format None"),
    "a deep list": ("config.json", lambda _: b"[" * 10**5, "damaged"),
    "gigabytes": ("config.json", lambda data: b" " * (1 << 21) + data, "damaged"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_folders(exported, tmp_path, case):
    name, change, said = HOSTILE[case]
    folder = shutil.copytree(exported, tmp_path / "bad")
    listed = (folder / "config.json").read_bytes()
    change_file(folder, name, change)
    assert said in refused(folder)
    if name != "config.json":
        (folder / "config.json").write_bytes(listed)
        assert f"{name} is not the file that config.json lists" in refused(folder)


def test_int8_that_the_kernels_would_add_differently(plain, tmp_path):
    """Whose sum of two products must fit in 16 bits."""
    export(plain, tmp_path / "out", "int8")
    config, arrays, *_ = read_export(tmp_path / "out")
    check_arrays(arrays, config)
    name = "decoder.0.first.weight"
    for pair, fits in (((64, 64), True), ((127, -128), True), ((-64, -65), False)):
        changed = arrays[name].copy()
        changed[-2:, 1] = pair
        with nullcontext() if fits else pytest.raises(UserError, match=f"{name} has neighbours"):
            check_arrays({**arrays, name: changed}, config)


def test_an_array_that_the_engine_cannot_count(exported):
    """In 32 bits it would seem small, and the engine would read past its end."""
    config = json.loads((exported / "config.json").read_text())
    config |= {"mixing": "linear", "positions": [2, 92682]}
    wanted, nothing = expected_arrays(config).items(), np.zeros(())  # in no memory
    arrays = {
        name: np.broadcast_to(nothing.astype(type_), shape) for name, (shape, type_) in wanted
    }
    with pytest.raises(UserError, match="decoder.0.mixing.weights has more than [0-9]+ numbers"):
        check_arrays(arrays, config)


def test_files_elsewhere(exported, tmp_path):
    """A file may be a link, as in the caches of model hubs; a pipe is none."""
    assert "json: No such file or directory: give a folder of" in refused(tmp_path / "nothing")
    folder = shutil.copytree(exported, tmp_path / "bad")
    for name in FILES:
        (folder / name).unlink()
        (folder / name).symlink_to(exported / name)
    assert Model(folder).translate(["red"]) == Model(exported).translate(["red"])
    (folder / "target.txt").unlink()
    assert "target.txt: No such file" in refused(folder)
    for name in ("target.txt", "config.json"):
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)
        assert f"{name}: Not a file: give a folder of" in refused(folder)
    said = resmlp(folder, program="resmlp-translate")
    assert said.status == 1 and "config.json: Not a file: give a folder of" in said.err


def test_the_file_of_the_weights(exported):
    """The library of the format and the runtime read the same, with a program's notes, too."""
    data = (exported / WEIGHTS).read_bytes()
    for given in (data, save(load(data), metadata={"format": "np", "by": "another program"})):
        ours, theirs = read_arrays(given), load(given)
        assert ours.keys() == theirs.keys()
        for name, array in ours.items():
            assert array.dtype == theirs[name].dtype and np.array_equal(array, theirs[name])


def test_the_files_of_an_export(exported):
    modes = {path.name: path.stat().st_mode for path in exported.iterdir()}
    assert modes.keys() == {*FILES, "config.json", "README.md"}
    assert len({*modes.values()}) == 1 and not modes["config.json"] & 0o111  # data, no programs
