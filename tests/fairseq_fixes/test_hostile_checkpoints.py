"""A checkpoint is data: every way of loading reads it exactly, or refuses it in one line."""

import copy
import io
import os
import pickle
import random
import re
import shutil
import zipfile
from functools import partial
from unittest import mock

import numpy as np
import pytest
import torch
from command import resmlp
from fairseq import checkpoint_utils
from fairseq_programs import altered, call, differing, generate, hypotheses, load, train, values
from torch.utils.serialization import config
from trained_models import EPOCHS

from resmlp_mt import ResMLPModel
from resmlp_mt.checkpoints.files import read_checkpoint
from resmlp_mt.fairseq_fixes import safety
from resmlp_mt.fairseq_fixes.messages import in_one_line
from resmlp_mt.patching import logging_as_before
from resmlp_mt_runtime.errors import UserError

# ---- ways of loading: each gives what can be compared ---------------------------------------


def by_hub(path, data, out):
    with logging_as_before():
        hub = ResMLPModel.from_pretrained(str(path.parent), path.name, str(data))
    return hub.translate(["▁ w 01", ""], beam=2), dict(hub.models[0].state_dict())


def by_generate(path, data, out):
    return hypotheses(generate(data, path, "--beam", 2))


def by_validate(path, data, out):
    options = ("--path", path, "--task", "translation", "--cpu", "--batch-size", 8)
    printed = call("validate", data, *options, "--num-workers", 0).out
    return re.findall(r"loss\W+([\d.]+)", printed) or pytest.fail(printed)


def one_update(option, number, path, data, out):
    options = ("--batch-size", 8, "--no-save", "--disable-validation", "--share-all-embeddings")
    log = train(data, out / "save", *options, "--max-update", number, option, path).log
    (loss,) = values(log, "loss")
    return loss


by_resuming = partial(one_update, "--restore-file", 8 * EPOCHS + 1)
by_finetuning = partial(one_update, "--finetune-from-model", 1)


def by_command(*words, stdin=b""):
    said = resmlp(*words, stdin=stdin)
    if said.status:
        if said.err.count("\n") != 1:
            pytest.fail(said.err)  # which does not count as a refusal
        raise UserError(said.err)
    return said.out


def by_average(path, data, out):
    by_command("average", "--inputs", path, "--output", out / "out.pt")
    return dict(load(out / "out.pt")["model"])


def by_translate(path, data, out):
    words = ("translate", "--path", path, "--data", data, "--beam", 2, "--max-len-b", 20)
    return by_command(*words, "--cpu", "--threads", 1, stdin=b"w01\n\nw30 w31\n")


TWO, READING = (by_hub, by_translate), (by_hub, by_average)
BUILDING = (*TWO, by_generate, by_validate)  # the model, by the file's options
ALL = (*BUILDING, by_average, by_resuming, by_finetuning)


class Loading:
    """Loads files in place of the good checkpoint of *world*, in *folder*."""

    def __init__(self, world, folder):
        self.world, self.folder, self.path = world, folder, folder / "in" / "checkpoint1.pt"
        self.good, self.content = load(world.checkpoint), world.checkpoint.read_bytes()
        self.path.parent.mkdir()
        self.right: dict = {}  # what each way makes of the good checkpoint

    def load(self, content, way):
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        self.path.write_bytes(content)
        return way(self.path, self.world.data, out)

    def loads(self, content, *ways):
        for way in ways:
            if way not in self.right:
                self.right[way] = self.load(self.content, way)
            assert differing(self.load(content, way), self.right[way]) == [], way

    def refuses(self, content, said, *ways):
        for way in ways:
            with pytest.raises(Exception) as caught:
                self.load(content, way)
            line = in_one_line(caught.value)
            named = str(self.path) in str(line) or way is by_validate  # may be of its data
            assert line and named and said in line, f"{way}: {caught.value!r}"
            assert not [*(self.folder / "out").rglob("*.pt*")], f"{way}: half-written"


@pytest.fixture(scope="module")
def loading(world, tmp_path_factory):
    return Loading(world, tmp_path_factory.mktemp("checkpoints"))


def saved(state, **how) -> bytes:
    file = io.BytesIO()
    torch.save(state, file, **how)
    return file.getvalue()


def repacked(archive: bytes, pickled, how=zipfile.ZIP_STORED) -> bytes:
    """The archive with ``pickled(its data.pkl)`` and the checksums to go with it."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(out, "w", how) as new:
        for record in old.infolist():
            change = pickled if "data.pkl" in record.filename else bytes
            new.writestr(record.filename, change(old.read(record)))
    return out.getvalue()


# ---- what loads as the good one does --------------------------------------------------------

OLD = {"_use_new_zipfile_serialization": False}  # PyTorch's format before 1.6
VECTOR = "decoder.layers.0.feed_forward.post.alpha"
MATRIX = "encoder.layers.1.token_mixing.mixing.weight"


def by_numpy(core, state):
    """With counts of n-grams, as NumPy 1 (``core``) or 2 (``_core``) wrote them."""
    content = saved(altered(state, extra_state__counts=np.arange(4)))
    return repacked(content, partial(re.sub, rb"(?<=cnumpy\.)_?core(?=\.multiarray\n)", core))


def without_checksums(state):
    with config.patch("save.compute_crc32", False):
        return saved(state)


def changed(**values):
    return lambda state: saved(altered(state, **values))


SAME = {
    "in PyTorch's format before 1.6": partial(saved, **OLD),
    "without checksums": without_checksums,
    "options saved by hydra": lambda s: saved(altered(s, cfg__model=vars(s["cfg"]["model"]))),
    "an unknown option": changed(cfg__model__new=[1, {"y": 2}]),
    "a best loss of NumPy": changed(extra_state__best=np.float64(3.5)),
    "counts by NumPy 1": partial(by_numpy, b"core"),
    "counts by NumPy 2": partial(by_numpy, b"_core"),
    "a weight that is a part of a matrix": lambda state: saved(
        altered(state, **{f"model__{VECTOR}": state["model"][VECTOR].repeat(3, 1).T[:, 1]})
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_other_forms_of_the_same(loading, name):
    ways = (*READING, by_resuming) if "NumPy" in name else READING
    loading.loads(SAME[name](loading.good), *ways)


def test_the_weights_of_a_checkpoint_that_is_named_without_its_suffix(trained, tmp_path):
    shutil.copy(trained.path, tmp_path / "checkpoint_a.pt")
    named, data = [str(tmp_path / "checkpoint.pt")], {"data": str(trained.data)}
    with mock.patch.object(safety, "not_larger_than", wraps=safety.not_larger_than) as limit:
        checkpoint_utils.load_model_ensemble_and_task(named, data, suffix="_a")
    assert limit.call_args.args[0].keys() == load(trained.path)["model"].keys()


def test_a_folder_is_not_imported(loading, tmp_path):
    """It can be written in a checkpoint, but only the command line names a ``--user-dir``."""
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "__init__.py").write_text(f"open('{tmp_path}/marker', 'w')")
    names = dict.fromkeys(("cfg__common__user_dir", "cfg__model__user_dir"), f"{tmp_path}/evil")
    loading.loads(saved(altered(loading.good, **names)), *ALL)
    assert not (tmp_path / "marker").exists()


# ---- what is refused in one line ------------------------------------------------------------


class Called:
    """Pickled, it asks whoever loads it to call something, and to give the result a state."""

    def __init__(self, *how):
        self.how = how

    def __reduce__(self):
        return self.how


EVIL = "__import__('os').system('touch marker') or [(16, 3)]"
CALL = Called(os.system, ("touch marker",))
FCONV = {"cfg__model___name": "fconv", "cfg__model__arch": "fconv"}
FCONV |= {f"cfg__model__{name}_embed_dim": 16 for name in ("encoder", "decoder", "decoder_out")}
FCONV |= {"cfg__model__decoder_layers": "[(16, 3)]", "cfg__model__decoder_attention": "True"}
CODE = FCONV | {"cfg__model__encoder_layers": EVIL}
LSTM = {"cfg__model___name": "lstm", "cfg__model__arch": "lstm"}
LSTM |= {"cfg__model__decoder_out_embed_dim": 16}  # as it shares the embeddings
CTC, YAML = {"_name": "ctc", "wer_args": EVIL}, f"a: !!python/object/apply:{EVIL}"
DEEP, TOO_LONG = eval("[" * 50 + "]" * 50), "more is nested too deeply or too long"
REBUILD, EMPTY = np.empty(0).__reduce__()[:2]
SCALAR, I8 = np.float64().__reduce__()[0], np.dtype("i8")
FAR = (4, "<", None, ("a",), {"a": (I8, 1 << 40)}, 8, 1, 0)  # the state of a type


def array(shape, kind=I8, raw=b"AAAAAAAA"):
    return Called(REBUILD, EMPTY, (1, shape, kind, False, raw))


TOKENIZER = {"_name": "byte_bpe", "sentencepiece_model_path": "http://localhost:9/x"}
# calls that take memory, and those of NumPy's that read memory of the file's choice
CALLS = {
    "a call that takes memory": Called(bytearray, (1 << 46,)),
    "a copy of a list": Called(set, ([0] * 9,)),
    "pointers": Called(np.ndarray, ((1,), "O", b"AAAAAAAA")),
    "pointers by a state": array((1,), np.dtype("O")),
    "a pointer": Called(SCALAR, (np.dtype("O"), b"AAAAAAAA")),
    "a far field": Called(np.dtype, ("i8", False, True), FAR),
    "a list of bytes": array((1,), raw=[b"AAAAAAAA"]),
    "floats": np.ones(2),
    "another byte order": np.ones(2, ">i8"),
}
UNREADABLE = {
    "more than four megabytes": [0.5] * 500_000,
    "too few bytes": array((1 << 40,)),
    "a scalar of too many bytes": Called(SCALAR, (I8, bytes(16))),
}
MORE, CUT, NONE = "contains more than data", "is damaged or cut off", "is damaged, or not a fairseq"
LAST_NAN = torch.tensor([0.0] * 15 + [torch.nan])
OTHER, LARGER = "was trained with another architecture", "describe a larger model than its weights"
REFUSED = {  # the changes, what the line says, and how it is loaded
    "NaN": ({f"model__{VECTOR}": LAST_NAN}, f"{VECTOR} has NaN", READING),
    "infinite": ({f"model__{MATRIX}": torch.eye(32)[None].log()}, f"{MATRIX} has NaN", READING),
    "a number as a name": ({"model": {7: torch.ones(2)}}, "more than tensors", READING),
    "a variable": ({"cfg__common__log_file": "${oc.env:HOME}"}, "stands for another", READING),
    "a surplus weight": ({"model__w": torch.ones(2)}, 'in state_dict: "w"', TWO),
    "a shorter vector": ({f"model__{VECTOR}": torch.ones(17)}, f"mismatch for {VECTOR}", TWO),
    "a position of the task": ({"cfg__task__max_source_positions": 1}, ": give at least 2", TWO),
    "a position": ({"cfg__model__max_source_positions": 1}, "source-positions 1: give", BUILDING),
    "no position": ({"cfg__model__max_target_positions": 0}, "target-positions 0: give", BUILDING),
    "layers": ({"cfg__model__encoder_layers": 999}, LARGER, BUILDING),
    "hidden units": ({"cfg__model__encoder_ffn_embed_dim": 1 << 17}, LARGER, BUILDING),
    "convolutions": ({**FCONV, "cfg__model__encoder_layers": "[(16, 3)] * 900"}, LARGER, BUILDING),
    "another architecture": (LSTM, OTHER, BUILDING),
    "another task": ({"cfg__task___name": "language_modeling"}, "dict.txt (No such", (by_hub,)),
    "no options": ({"cfg": None}, "Neither args nor cfg exist", (by_hub,)),
    "no options to translate by": ({"cfg": None}, "its task is None", (by_translate,)),
    "a repeated weight": ({"model__w": torch.ones(1).expand(16)}, "w claims more values", READING),
    "a list for a weight": ({"model__w": [1.0]}, "its model is more than tensors", READING),
    "a sparse weight": ({"model__w": torch.ones(2).to_sparse()}, MORE, READING),
    "on no device": ({"model__w": torch.ones(2, device="meta")}, MORE, READING),
    "a complex weight": ({"model__w": torch.ones(2) * 1j}, MORE, READING),
    "8 bits": ({"model__w": torch.ones(2).to(torch.float8_e5m2)}, MORE, READING),
    "a tokenizer": ({"cfg__tokenizer": TOKENIZER}, "may download files: give", (by_hub,)),
    "a vocabulary": ({"cfg__bpe": {"_name": "bert"}}, "may download files: give", (by_hub,)),
    "text of fconv": (CODE, "is refused, because", BUILDING),
    "a name": ({"cfg__model__more": {(1, 2): 0}}, "name of an option is not text", BUILDING),
    "bytes in a list": ({"cfg__model__more": [[EVIL.encode()]]}, "not data, but bytes", BUILDING),
    "arguments of ctc": ({"cfg__criterion": CTC}, "is refused, because", (by_validate,)),
    "options that are YAML": ({"cfg": YAML}, "its option cfg is not data, but str", BUILDING),
    "lists in lists": ({"cfg__model__more": DEEP}, TOO_LONG, BUILDING),
    "a long list": ({"cfg__model__more": [0] * 200_000}, TOO_LONG, BUILDING),
    "a pickled call": ({"cfg__model__dropout": CALL}, MORE, ALL),
    **{name: ({"extra_state__best": value}, MORE, READING) for name, value in CALLS.items()},
    **{name: ({"extra_state__best": value}, NONE, READING) for name, value in UNREADABLE.items()},
}


def test_the_optimizer_has_nan(loading):
    """The weights are finite, and load."""
    state = copy.deepcopy(loading.good)
    state["last_optimizer_state"]["state"][2]["sum"].fill_(torch.nan)
    loading.refuses(saved(state), "optimizer state 2.sum has NaN", by_resuming)
    loading.loads(saved(state), by_finetuning)


def damaged(content: bytes, number: int, seed: int = 1) -> bytes:
    new, draw = bytearray(content), random.Random(seed)
    for offset in draw.sample(range(len(content)), number):
        new[offset] ^= draw.randrange(1, 256)
    return bytes(new)


def one_bit(content: bytes, good: dict) -> bytes:
    """PyTorch loads it, and the model translates: only the checksum can tell."""
    new = bytearray(content)
    new[content.index(good["model"][MATRIX].numpy().tobytes()) + 2] ^= 1
    return bytes(new)


FILES = {  # other files, and what the line says
    "nothing": (lambda *_: b"", NONE),
    "a log": (lambda *_: b"H-0\t-0.1\tno\n" * 50, NONE),
    "zeros": (lambda *_: bytes(5000), NONE),
    "an archive of others": (lambda content, _: content.replace(b"data.pkl", b"read.txt"), NONE),
    "no model": (lambda _, good: saved({"cfg": good["cfg"]}), "has no model in it"),
    "a list": (lambda *_: saved([1, 2]), "has no model in it"),
    "a call": (lambda *_: saved({"model": {}, "cfg": CALL}, **OLD), MORE),
    "a plain call": (lambda *_: pickle.dumps({"model": {}, "cfg": CALL}), NONE),
    "compressed": (lambda content, _: repacked(content, bytes, zipfile.ZIP_DEFLATED), CUT),
    "a flipped bit": (one_bit, CUT),
    **{f"cut at {n}": (lambda content, _, n=n: content[:n], CUT) for n in (9, 5000, -30)},
    "many damaged bytes": (lambda content, _: damaged(content, 200), "is damaged"),
}


@pytest.mark.parametrize("name", [*REFUSED, *FILES])
def test_what_is_refused_in_one_line(loading, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name in FILES:
        make, said = FILES[name]
        content = make(loading.content, loading.good)
        ways = (*READING, by_generate, by_resuming) if name == "a flipped bit" else READING
    else:
        changes, said, ways = REFUSED[name]
        content = saved(altered(loading.good, **changes))
    loading.refuses(content, said, *ways)
    assert not list(tmp_path.iterdir())  # no command was run


def test_a_damaged_pickle_with_right_checksums(loading):
    """It is refused by the file's name, or read, whatever it says."""
    refused = 0
    for seed in range(60):
        change = partial(damaged, number=1, seed=seed)
        loading.path.write_bytes(repacked(loading.content, change))
        try:
            read_checkpoint(loading.path)
        except UserError as error:
            assert str(error).startswith(str(loading.path)) and "\n" not in str(error)
            refused += 1
    assert 0 < refused < 60
