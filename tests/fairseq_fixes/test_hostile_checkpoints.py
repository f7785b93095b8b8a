"""No code in a checkpoint is run: every loader reads it exactly or refuses it in one line."""

import copy
import io
import logging
import pickle
import re
import shutil
from argparse import Namespace
from itertools import islice
from pathlib import Path

import fairseq
import hostile_checkpoint_cases as cases
import numpy as np
import pytest
import torch
from command import resmlp
from fairseq import file_utils
from fairseq.models.wav2vec.wav2vec2 import Wav2Vec2Config
from fairseq_programs import call, differing, hypotheses, load, train, values
from omegaconf import OmegaConf
from trained_models import EPOCHS, World

from resmlp_mt import ResMLPModel
from resmlp_mt.checkpoints import check_finite
from resmlp_mt.errors import UserError, in_one_line
from resmlp_mt.fairseq_fixes import logging_as_before
from resmlp_mt.fairseq_fixes.errors_and_noise import EVALUATED, check_options
from resmlp_mt.plot.matrices import mixing_matrices

QUICK = ("hub", "average")


class Loading:
    """Loads files in place of the untouched checkpoint of *world*; *folder* is an empty one."""

    def __init__(self, world: World, folder: Path):
        self.world, self.out = world, folder / "out"
        self.path = folder / "in" / "checkpoint1.pt"
        self.path.parent.mkdir()
        self.right: dict = {}  # what the untouched checkpoint gives

    def check(self, case: cases.Case, way: str):
        """Load a case: it is what was saved, or one line names the file."""
        if way not in self.right:
            shutil.copy(self.world.checkpoint, self.path)
            self.right[way] = self._load(way)
        self.path.write_bytes(case.content)
        where = f"{way}, {case.name}"
        try:
            found = self._load(way)
        except Exception as error:
            said = in_one_line(error)
            assert said is not None, f"{where}: {error!r} instead of one line"
            assert str(self.path) in said or str(self.world.data) in said, f"{where}: {said}"
            assert case.expected != "loaded", f"{where}: {said}"
            assert not [*self.out.rglob("*.pt*")], f"{where}: half-written"
        else:
            if way not in case.other:
                assert case.expected != "refused", where
                assert differing(found, self.right[way]) == [], where

    def _load(self, way: str):
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()
        return getattr(self, way)()

    def generate(self):
        options = ("--path", self.path, "--beam", 2, "--cpu", "--num-workers", 0)
        return hypotheses(call("generate", self.world.data, *options).out)

    def hub(self):
        where = (str(self.path.parent), self.path.name, str(self.world.data))
        with logging_as_before():
            hub = ResMLPModel.from_pretrained(*where)
        return hub.translate(["▁ w 01", ""], beam=2), dict(hub.models[0].state_dict())

    def resume(self):
        return self._loss("--restore-file", 8 * EPOCHS + 1)

    def finetune(self):
        return self._loss("--finetune-from-model", 1)

    def _loss(self, option: str, updates: int):
        """That of one update from the checkpoint."""
        options = ("--batch-size", 8, "--no-save", "--disable-validation", "--share-all-embeddings")
        more = ("--max-update", updates, option, self.path)
        logging.disable(logging.NOTSET)  # the loss is in the log, which run_main switches off
        losses = values(train(self.world.data, self.out / "save", *options, *more).log, "loss")
        assert len(losses) == 1, losses
        return losses

    def average(self):
        self._command("average", "--inputs", self.path, "--output", self.out / "out.pt")
        return dict(load(self.out / "out.pt")["model"])

    def plot(self):
        with logging_as_before():
            return mixing_matrices(self.path, 8)

    def translate(self):
        files = ("--path", self.path, "--data", self.world.data)
        short = ("--beam", 2, "--max-len-b", 20, "--cpu", "--threads", 1)
        return self._command("translate", *files, *short, stdin=b"w01 w02 w03\n\nw30 w31\n")

    def _command(self, *words, **more) -> str:
        said = resmlp(*words, **more)
        if said.status:
            assert said.err.count("\n") == 1, said.err
            raise UserError(said.err)
        return said.out


@pytest.fixture(scope="module")
def loading(world, tmp_path_factory):
    return Loading(world, tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture
def good(world, tmp_path):
    content, state = world.checkpoint.read_bytes(), load(world.checkpoint)
    return cases.Good(content, state, tmp_path / "marker", 4)


# a group of files, every so many of them, and the ways of loading that try them
@pytest.mark.parametrize(
    "group, step, by",
    [
        (cases.same, 1, QUICK),
        (cases.code, 1, ["average"]),
        (cases.code, 99, cases.ANY),
        (cases.arrays, 1, QUICK),
        (cases.evaluated, 1, ["hub"]),
        (cases.foreign, 1, QUICK),
        (cases.weights, 2, ["hub"]),
        (cases.weights, 6, ["plot", "average"]),
        (cases.optimizers, 1, ["resume", "finetune"]),
        (cases.misfits, 31, ["hub", "plot", "translate"]),
        (cases.misfits, 120, ["resume"]),
        (cases.damaged, 1, QUICK),
        (cases.flipped, 1, ["generate", "resume", *QUICK]),
        *(pytest.param(group, 1, cases.ANY, marks=pytest.mark.soak) for group in cases.GROUPS),
    ],
)
def test_hostile_files(loading, good, tmp_path, group, step, by):
    if by == cases.ANY and step == 1:
        good = good._replace(files=50)
    for case in islice(group(good), 0, None, step):
        for way in by:
            loading.check(case, way)
        assert not list(tmp_path.iterdir()), f"{case.name}: was run"


def test_counts_of_ngrams_stay_plain_arrays():
    for saved_array in (np.arange(4), np.asfortranarray(np.arange(6).reshape(2, 3)), np.array(7)):
        array = torch.load(io.BytesIO(cases.saved({"a": saved_array})), weights_only=True)["a"]
        assert np.array_equal(array, saved_array) and array.dtype == np.int64
        again = pickle.loads(pickle.dumps(copy.deepcopy(array)))
        assert type(again) is np.ndarray and np.array_equal(again, saved_array)
        assert type(array + 0) is type(saved_array + 0) and type(array.sum()) is np.int64


def test_nothing_is_fetched(world, monkeypatch, tmp_path):
    state, fetched, local = load(world.checkpoint), [], file_utils.cached_path

    def fetch(address, *args, **kwargs):
        if "://" not in str(address):
            return local(address, *args, **kwargs)
        fetched.append(address)
        raise OSError("no network")

    monkeypatch.setattr(file_utils, "cached_path", fetch)
    address = "http://localhost:9/encoder.json"
    options = {"_name": "gpt2", "gpt2_encoder_json": address, "gpt2_vocab_bpe": address}
    (tmp_path / "spm.model").symlink_to(world.spm)  # takes the place of none
    for kind in ("bpe", "tokenizer"):
        path = tmp_path / f"{kind}.pt"
        torch.save({**state, "cfg": {**state["cfg"], kind: options}}, path)
        with pytest.raises(UserError, match=f"^{path}: its option gpt2_encoder_json is an address"):
            ResMLPModel.from_pretrained(tmp_path, path.name, world.data)
        assert not fetched
    asked = {"bpe": "gpt2", "gpt2_encoder_json": address}  # by the caller
    with pytest.raises(OSError, match="no network"):
        ResMLPModel.from_pretrained(tmp_path, "bpe.pt", world.data, **asked)
    assert fetched == [address]


def test_tensors_that_claim_more_than_they_hold(tmp_path):
    matrix = torch.arange(12.0).view(3, 4)
    legitimate = {"a part": matrix.T[1:, ::2], "a scalar": matrix[0, 0], "whole": torch.arange(5)}
    legitimate |= {"none of many": torch.ones(0).expand(5, 0), "own": torch.nn.Parameter(matrix)}
    torch.save(legitimate, tmp_path / "file.pt")
    for mapped in (False, True):
        check_finite(torch.load(tmp_path / "file.pt", mmap=mapped), "file")
    for one in (torch.zeros(1), torch.zeros(1, dtype=torch.long)):
        with pytest.raises(UserError, match="^file: w claims more values than there are in"):
            check_finite({"w": one.expand(1 << 40)}, "file")


PLAIN = [
    *("[(512, 3)] * 20", "True", "(0.9, 0.98)", " 1e-4", "-1 + 2 * 3", "10,20", "'a' * 3 + 'b'"),
    *("[1] * 2 + 2 * [3]", '{"name": [1], 2: None}', Wav2Vec2Config.conv_feature_layers),
]
WOULD_BE_RUN = [
    *("__import__('os').system('true')", "[x for x in (1,)]", "(lambda: 1)()", "open", "f'{1}'"),
    *("1 if True else 2", "2 ** 99999", "1 / 0", "[" * 500 + "]" * 500, "1 +", "\0", ""),
]


def test_options_that_would_be_run():
    for expression in PLAIN:
        nested = {"w2v_args": [Namespace(encoder_layers=expression, dropout=0.1)]}
        check_options(Namespace(model=nested), "file")
    for expression in WOULD_BE_RUN:
        check_options({"an_option_that_fairseq_does_not_evaluate": expression}, "file")
        options = {"model": Namespace(_name="fconv", decoder_attention=expression)}
        for form in (options, OmegaConf.create(options, flags={"allow_objects": True})):
            with pytest.raises(UserError, match="^file: its option decoder_attention is ['\"]"):
                check_options(form, "file")


def test_every_option_that_fairseq_evaluates_is_known():
    call = r"\beval(?:_str_list|_str_dict|_bool)?\(\s*(?:self\.)?(?:cfg|args)\.(\w+)"
    found = set()
    for room in ("models", "modules", "tasks", "model_parallel"):
        for path in (Path(fairseq.__file__).parent / room).rglob("*.py"):
            found.update(re.findall(call, path.read_text()))
    assert len(found) > 10 and found <= EVALUATED
