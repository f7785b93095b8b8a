"""A token mixing of a user's own: from text to BLEU, decoded, folded, refused by the export."""

import contextlib
from functools import partial
from unittest import mock

import pytest
import torch
from command import ran, refused, resmlp
from fairseq import options
from fairseq_programs import ROOT, load
from helpers import build_model, save_model
from prepare_text import write_corpus
from torch import nn

from resmlp_mt import register_mixing
from resmlp_mt.model.mixing import TOKEN_MIXING, TokenMixing
from resmlp_mt.model.own_mixing import enlarged, find_fault
from resmlp_mt.plot import mixing_matrices
from resmlp_mt.plugin import place_in
from resmlp_mt_runtime.errors import UserError

RUN = "run -s de -t en --trainpref text/train --validpref text/valid --testpref text/test --out run"
RUN += " --arch resmlp_mt_tiny --recipe trial --vocab-size 120 --max-update 3 --lenpen 1 --cpu"
RUN += " --workers 1 --threads 1"
TRANSLATE = "translate --path run/model --input text/test.de --output out.en --cpu"
SHIFT = "-- --token-mixing shift --num-workers 0"


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory, trained_here):
    """Of a run with the example of docs/options.md as --user-dir: where all tests here work."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "my_plugin").mkdir()
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    example = page.split("```python\n")[1].split("```")[0]
    # with a buffer that reads a value to be made, is larger than the weights, and is not saved
    made = "super().__init__(); self.register_buffer('b', torch.ones(torch.tensor(1 << 22)), False)"
    example = example.replace("super().__init__()", made)
    (folder / "my_plugin" / "__init__.py").write_text(example)
    write_corpus(folder / "text", ("de", "en"), train=60, valid=7, test=5)
    with mock.patch.dict(TOKEN_MIXING), contextlib.chdir(folder):
        assert "test: BLEU" in ran(*f"{RUN} --user-dir my_plugin {SHIFT}".split()).out
        yield folder


def test_its_name_is_a_choice_of_token_mixing():
    arguments = ["data", "--arch", "resmlp_mt_small", "--token-mixing", "shift"]
    args = options.parse_args_and_arch(options.get_training_parser(), arguments)
    assert (args.token_mixing, args.token_mixing_heads) == ("shift", 1)
    with pytest.raises(UserError, match="shift has no heads"):
        build_model(token_mixing="shift", token_mixing_heads=4)
    for name in ("shift", "linear", "none"):
        with pytest.raises(UserError, match=f"another {name} already: choose another name"):
            register_mixing(name, nn.Identity)
    same = [type("Same", (nn.Identity,), {}) for _ in range(2)]  # a cell that runs twice
    assert [register_mixing("same", each) for each in same][1] is TOKEN_MIXING["same"]


class Hidden(TokenMixing):
    """Hides *wrong*, of a subclass, behind a weight."""

    def __init__(self, *args):
        super().__init__(*args)
        self.same = self.shared  # by all layers

    def forward(self, x, padding_mask=None, history=None):
        return x + self.weight[0, 0, 0] * self.wrong(x, padding_mask, history)


def kept(self, x, _, history):  # by row, which is another hypothesis at the next step
    place = history or self
    place.kept = x + getattr(place, "kept", 0) if history else x.cumsum(0)
    return place.kept


def grown(self, x, *_):  # a leak, below the rounding of later positions
    return torch.cat([x[:41] + 99 * x.roll(-1, 0)[:41], 1e7 * x[41:]])


def recurrent(self, x, _, history):
    def step(state, x):
        return state / 2 + x * state.cos()

    if history:
        twice = (history.recur(partial(step, x=each), 1 + 0 * x) for each in (x, x**2))
        return sum(twice)
    if not self.causal:
        return x
    first = second = torch.ones_like(x[0])
    states = []
    for newest in x:
        first, second = step(first, newest), step(second, newest**2)
        states.append(first + second)
    return torch.stack(states)


def in_training(self, x, padding_mask=None, history=None):
    if x.dim() != 3:
        raise AssertionError("not T x B x C")
    return x


PADDING = "depends on padding: see padding_mask in docs/options.md"
NAN = "is NaN or infinite at padding: see padding_mask in docs/options.md"
NO_MASK = "raises TypeError("  # where the mask is None: nothing is padded


@pytest.mark.parametrize(
    "wrong, said",
    [
        (lambda self, x, *_: x + 99 * x[50:51].sum(), "depends on later positions, "),
        (grown, "depends on later positions, "),
        (lambda self, x, *_: x - 9 * x.mean(-2, True), "depends on other sentences of the batch"),
        (lambda self, x, *_: x + x.new_zeros(9, 1, 1)[: len(x)], "raises RuntimeError("),
        (lambda self, x, *_: x[None], "returns [1, 64, 3, 16], not [64, 3, 16]"),
        (lambda self, x, *_: 99 * torch.rand_like(x), "is random even in evaluation: "),
        (lambda self, x, *_: x.mul_(1.5), None),
        (recurrent, None),
        (kept, "computes something else in decoding: "),
        (in_training, "raises AssertionError('not T x B x C')"),
        (lambda self, x, _, history: x / 0 if history else x, "computes something else"),
        (lambda *_: 1 / 0, None),  # training shows it, or it needs a GPU
        (lambda self, x, *_: x / 0, None),
        (lambda self, x, *_: x if self.causal else 99 * x.mean(0).expand_as(x), PADDING),
        (lambda self, x, *_: x if self.causal else x + (x + 1).sum(0), PADDING),
        (lambda _, x, mask, *__: x if mask is None else x / ~mask.t()[:, :, None], NAN),
        (lambda self, x, mask, *_: x if self.causal else x + (~mask).sum() - mask.numel(), NO_MASK),
    ],
)
@pytest.mark.parametrize("std", [0.0, 1e-5])
def test_a_warning_says_what_is_wrong(wrong, said, std, caplog):
    shared = nn.Parameter(torch.zeros(3))
    TOKEN_MIXING["wrong"] = type("Wrong", (Hidden,), {"wrong": wrong, "shared": shared})
    options = {"token_mixing": "wrong", "token_mixing_init_std": std, "max_target_positions": 64}
    build_model(randomize=False, **options)
    assert not shared.any()
    side = "an encoder" if said in (PADDING, NAN, NO_MASK) else "a decoder"
    wanted = [f"--token-mixing wrong, tried in {side} on the CPU, {said}"] if said else []
    assert [message[: len(wanted[0])] for message in caplog.messages] == wanted
    before = torch.get_rng_state()
    with mock.patch("resmlp_mt.model.decoder.warn_if_wrong"):
        build_model(randomize=False, **options)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("gate", [0.0, 0.01])
def test_a_small_gate_hides_no_fault(gate):
    for seed in range(9):
        torch.manual_seed(seed)
        mixing = nn.Module()
        mixing.gate = nn.Parameter(torch.full((1,), gate), requires_grad=True)
        mixing.forward = lambda x, *_: x + mixing.gate * 0.2 * x.roll(-1, 0)  # noqa: B023
        with torch.no_grad():
            assert "later positions" in find_fault(enlarged(mixing), 16, 64)


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(
    "constant",
    [torch.full((2,), -torch.inf), torch.ones(1).expand(9), torch.ones(2, dtype=torch.complex64)],
)
def test_a_constant_that_no_checkpoint_may_have_is_not_trained(constant, stored, caplog):
    class Own(TokenMixing):
        def __init__(self, *args):
            super().__init__(*args)
            self.register_buffer("mask", constant, stored)

    TOKEN_MIXING["own"] = Own
    refused = pytest.raises(UserError, match="--token-mixing own: mask has complex, repeated")
    with refused if stored else contextlib.nullcontext():
        build_model(randomize=False, token_mixing="own")
    assert not caplog.messages


def test_training_warns_once(monkeypatch, caplog):
    monkeypatch.setattr(TOKEN_MIXING["shift"], "forward", lambda self, x, *_: x - x.mean(0))
    monkeypatch.setattr("resmlp_mt.pipeline.train.training.run_command", lambda *_: None)
    ran(*f"train run/data/data-bin --out new --user-dir my_plugin --max-update 1 {SHIFT}".split())
    assert not caplog.messages
    build_model(token_mixing="shift")
    assert ["depends on later" in message for message in caplog.messages] == [True]


def test_a_folder_behind_a_link(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("resmlp_mt.pipeline.train.training.run_command", lambda *_: None)
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "__init__.py").write_text("import resmlp_mt")
    ran("train", corpus.data, "--out", tmp_path / "new", "--user-dir", tmp_path / "link" / "linked")


class Eye(nn.Module):
    """A triangle by its gradient alone, and constants; random in training."""

    def __init__(self, cfg, channels, positions, causal):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(positions))
        self.lags = nn.Parameter(torch.zeros(3, dtype=torch.long), requires_grad=False)
        self.register_buffer("one", torch.ones(1), persistent=False)

    def matrix(self, length):
        a = self.one * self.weight[None, :length, :length]
        return nn.functional.dropout(a, 0.5, self.training)

    def forward(self, x, padding_mask=None, history=None):
        return x if history else torch.einsum("ts,sbc->tbc", self.matrix(len(x))[0], x)


def test_weights_that_are_not_zero_stay_as_they_are_and_are_drawn(tmp_path, caplog):
    TOKEN_MIXING["eye"] = Eye
    path = save_model(tmp_path / "a.pt", token_mixing="eye", randomize=False)
    assert not caplog.messages
    assert torch.equal(mixing_matrices(path, 5)["decoder"][1], torch.eye(5)[None])


@pytest.mark.parametrize(
    "forward, said",
    [(in_training, "not T x B x C ("), (lambda self, x, *_: x[:1], "ShiftMixing: returns [1, ")],
)
def test_an_error_of_its_own(forward, said, monkeypatch):
    monkeypatch.setattr(TOKEN_MIXING["shift"], "forward", forward)
    refused(f"translate: error: {said}", *TRANSLATE.split(), "--user-dir", "my_plugin")


def test_translating_and_resuming_ask_for_its_folder(folder):
    """No file of a model names code that is run."""
    plugin = str(folder / "my_plugin")
    assert load("run/model/model.pt")["cfg"]["common"]["user_dir"] == plugin
    ran(*TRANSLATE.split(), "--user-dir", "my_plugin")
    assert (folder / "out.en").read_bytes() == (folder / "run/translations/test.en").read_bytes()
    (folder / "out.en").unlink()
    plot = ("plot", "run/model", "-o", "A.png")
    refused("no matrix over positions to draw", *plot, "--user-dir", "my_plugin")
    export = ("export", "run/model", "--out", "exported")
    refused("only models with --token-mixing linear, toeplitz", *export, "--user-dir", "my_plugin")
    longer = RUN.replace("--max-update 3", "--max-update 4").split()
    with mock.patch.dict(TOKEN_MIXING):
        del TOKEN_MIXING["shift"]
        for command in (TRANSLATE.split(), plot):
            refused("run/model/model.pt: --token-mixing shift: choose one of linear, ", *command)
        said = resmlp(*longer, *SHIFT.split())  # which says before what the text lost
        assert said.status == 1 and "or give the --user-dir that registers it" in said.err
    code = folder / "my_plugin" / "__init__.py"
    again = (*longer, "--user-dir", "my_plugin", *SHIFT.split())
    warned = f"warning: run/checkpoints holds a training run with other code of {plugin}: "
    code.write_text(code.read_text() + "\n")
    assert warned in ran(*again).err  # resumed
    done = ran(*again)  # done before, with that code
    assert warned not in done.err and f"run/model --user-dir {plugin} --input TEXT" in done.out
    code.write_text(code.read_text()[:-1])
    assert warned in ran(*again).err


def test_an_error_when_it_is_made_names_its_line(folder):
    typo = (folder / "my_plugin" / "__init__.py").read_text().replace("shift", "typo")
    typo = typo.replace("super().__init__()", "super().__init__(); cfg.embed_dim")
    place = "typo/__init__.py, line 9: AttributeError: invalid argument embed_dim"
    heads = "from resmlp_mt.model.mixing import TokenMixing, register_mixing\n"
    heads += "register_mixing('heads', type('Heads', (TokenMixing,), {}))\n"
    ours = "--arch resmlp_mt_small: --token-mixing-heads 3: it must divide"
    for name, count, text, said in (("typo", 1, typo, place), ("heads", 3, heads, ours)):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(text)
        words = f"train run/data/data-bin --out new --user-dir {name} -- --token-mixing {name}"
        refused(said, *words.split(), "--token-mixing-heads", count)


def test_a_folder_whose_name_begins_alike_is_another(tmp_path):
    with pytest.raises(ZeroDivisionError) as caught:
        exec(compile("1 / 0", tmp_path / "mixings2" / "a.py", "exec"))
    places = [place_in(tmp_path / name, caught.value) for name in ("mixings2", "mixings")]
    assert places == [f"{tmp_path}/mixings2/a.py, line 1: ", ""]


@pytest.mark.parametrize(
    "name, code, said",
    [
        ("bare", "", "with an __init__.py"),
        ("other", "import torch\n", "add `import resmlp_mt` to its __init__.py"),
        ("broken", "import resmlp_mt\n1 / 0\n", "__init__.py, line 2: ZeroDivisionError"),
        ("syntax", "import resmlp_mt\n(\n", "'(' was never closed (__init__.py, line 2)"),
        ("ours", "from resmlp_mt import *\nregister_mixing('none', 1)", "__init__.py, line 2: U"),
        ("json", "import resmlp_mt\n", "(json) is not globally unique. Please rename"),
        ("examples", "import resmlp_mt\n", "nothing called examples can be imported: rename it"),
        ("a.b", "import resmlp_mt\n", "nothing called a.b can be imported: rename it"),
    ],
)
def test_a_folder_that_cannot_be_imported(name, code, said, tmp_path):
    (tmp_path / name).mkdir()
    (tmp_path / name / f"{'__init__' if code else name}.py").write_text(code)
    (tmp_path / name / ".#a.py").symlink_to("gone")  # of Emacs
    refused(said, *TRANSLATE.split(), "--user-dir", tmp_path / name)
