"""Nothing in a checkpoint is run; it is refused with one line or loaded exactly, by every way of
loading one. The soak tries all of them by every way."""

import copy
import io
import pickle
import re
from argparse import Namespace
from itertools import islice
from pathlib import Path

import fairseq
import hostile_checkpoint_cases as cases
import numpy as np
import pytest
import torch
from fairseq import file_utils
from fairseq.models.wav2vec.wav2vec2 import Wav2Vec2Config
from fairseq_programs import load
from hostile_checkpoint_cases import saved
from hostile_checkpoint_ways import Ways
from omegaconf import OmegaConf

from resmlp_mt import ResMLPModel
from resmlp_mt.checkpoints import check_finite
from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes.errors_and_noise import EVALUATED, check_options

QUICK = ("hub", "average")
ALL = None


@pytest.fixture(scope="module")
def ways(world, tmp_path_factory):
    return Ways(world, tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="module")
def state(ways):
    return load(ways.world.checkpoint)


@pytest.fixture
def good(ways, state, tmp_path):
    return cases.Good(ways.world.checkpoint.read_bytes(), state, tmp_path / "marker", 4)


# a group of files, every so many of them, and the ways of loading that try them
@pytest.mark.parametrize(
    "group, step, by",
    [
        (cases.same, 1, QUICK),
        (cases.code, 1, ("average",)),
        (cases.code, 99, ALL),
        (cases.arrays, 1, QUICK),
        (cases.evaluated, 2, ("hub",)),
        (cases.foreign, 1, QUICK),
        (cases.weights, 2, ("hub",)),
        (cases.weights, 6, ("plot", "average")),
        (cases.optimizers, 1, ("resume", "finetune")),
        (cases.misfits, 31, ("hub", "plot", "translate")),
        (cases.misfits, 120, ("resume",)),
        (cases.damaged, 1, QUICK),
    ],
)
def test_hostile_files(ways, good, tmp_path, group, step, by):
    for case in islice(group(good), 0, None, step):
        assert list(ways.problems(case, by)) == []
        assert not list(tmp_path.iterdir()), f"{case.name}: was run"


@pytest.mark.soak
@pytest.mark.parametrize("group", cases.GROUPS)
def test_all_hostile_files(group, ways, good, tmp_path):
    lost = []
    for case in group(good._replace(files=50)):
        lost += ways.problems(case)
        assert not list(tmp_path.iterdir()), f"{case.name}: was run"
    assert lost == []


def test_counts_of_ngrams_stay_plain_arrays():
    for saved_array in (np.arange(4), np.asfortranarray(np.arange(6).reshape(2, 3)), np.array(7)):
        array = torch.load(io.BytesIO(saved({"a": saved_array})), weights_only=True)["a"]
        assert np.array_equal(array, saved_array) and array.dtype == np.int64
        again = pickle.loads(pickle.dumps(copy.deepcopy(array)))
        assert type(again) is np.ndarray and np.array_equal(again, saved_array)
        assert type(array + 0) is type(saved_array + 0) and type(array.sum()) is np.int64


def test_nothing_is_fetched(state, ways, monkeypatch, tmp_path):
    fetched, local = [], file_utils.cached_path

    def fetch(address, *args, **kwargs):
        if "://" not in str(address):
            return local(address, *args, **kwargs)
        fetched.append(address)
        raise OSError("no network")

    monkeypatch.setattr(file_utils, "cached_path", fetch)
    address = "http://localhost:9/encoder.json"
    options = {"_name": "gpt2", "gpt2_encoder_json": address, "gpt2_vocab_bpe": address}
    (tmp_path / "spm.model").symlink_to(ways.world.spm)  # takes the place of none
    for kind in ("bpe", "tokenizer"):
        path = tmp_path / f"{kind}.pt"
        torch.save({**state, "cfg": {**state["cfg"], kind: options}}, path)
        with pytest.raises(UserError, match=f"^{path}: its option gpt2_encoder_json is an address"):
            ResMLPModel.from_pretrained(tmp_path, path.name, ways.world.data)
        assert not fetched
    asked = {"bpe": "gpt2", "gpt2_encoder_json": address}  # by the caller
    with pytest.raises(OSError, match="no network"):
        ResMLPModel.from_pretrained(tmp_path, "bpe.pt", ways.world.data, **asked)
    assert fetched == [address]


def test_a_bit_of_a_weight(ways, state):
    """PyTorch loads it, and the model still translates: only the checksum can tell."""
    content = bytearray(ways.world.checkpoint.read_bytes())
    weight = state["model"]["encoder.layers.0.token_mixing.mixing.weight"]
    content[content.index(weight.numpy().tobytes()) + 2] ^= 1
    case = cases.Case("a bit", bytes(content), "refused")
    assert list(ways.problems(case, ("generate", "resume", *QUICK), "damaged")) == []


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
