"""A token mixing of a user's own: from text to BLEU, decoded, folded, refused by the export."""

import contextlib
from unittest import mock

import pytest
import torch
from command import ran, refused
from fairseq import options
from fairseq_programs import ROOT, load, training
from helpers import build_model, gap, pad_batch, random_sentences
from model_checks import Move, assert_causal, assert_decodes_as_in_one_pass
from prepare_text import pairs_of, write_pairs
from processes import forked
from torch import nn

from resmlp_mt import register_mixing
from resmlp_mt.model.inference import fold_
from resmlp_mt.model.mixing import TOKEN_MIXING, TokenMixing
from resmlp_mt_runtime.errors import UserError

RUN = "run -s de -t en --trainpref text/train --validpref text/valid --testpref text/test --out run"
RUN += " --arch resmlp_mt_tiny --recipe trial --vocab-size 120 --max-update 3 --lenpen 1 --cpu"
RUN += " --workers 1 --threads 1"
TRANSLATE = "translate --path run/model --input text/test.de --output out.en --cpu"
SHIFT = "-- --token-mixing shift --num-workers 0"


class FadingMixing(TokenMixing):
    """A linear A that fades with the distance; everything else is inherited."""

    def matrix(self, length):
        t = torch.arange(length)
        return super().matrix(length) * 0.8 ** (t[:, None] - t).abs()


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory, trained_here):
    """The folder of a run with the example of docs/options.md as --user-dir. A subclass of the
    linear A is registered, too."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "my_plugin").mkdir()
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    example = page.split("```python\n")[1].split("```")[0]
    (folder / "my_plugin" / "__init__.py").write_text(example)
    for seed, (split, size) in enumerate({"train": 60, "valid": 7, "test": 5}.items()):
        write_pairs(folder / "text", split, ("de", "en"), pairs_of(size, seed))
    with mock.patch.dict(TOKEN_MIXING), contextlib.chdir(folder):
        assert "test: BLEU" in ran(*f"{RUN} --user-dir my_plugin {SHIFT}".split()).out
        register_mixing("fading", FadingMixing)
        register_mixing("fading", FadingMixing)  # twice is once
        yield folder


@pytest.fixture(params=["shift", "fading"])
def kind(request):
    return request.param


@pytest.mark.parametrize("folded", [False, True])
def test_decoding_and_folding_are_exact(kind, folded):
    (model, dictionary), (full, _) = (build_model(token_mixing=kind) for _ in range(2))
    source = pad_batch(random_sentences(dictionary, (5, 9)), dictionary, left=True)
    prev = torch.randint(4, 50, (2, 6))
    assert_causal(full, dictionary, source, prev)
    if folded:
        fold_(model)
        with torch.no_grad():
            assert gap(model(source, None, prev)[0], full(source, None, prev)[0]) < 1e-4
            branch = model.decoder.folded()[0].token_mixing
        assert hasattr(branch.post, "alpha") == (kind == "shift")  # stays for a kind without a rule
    moves = [Move([1, 0, 2, 2]), Move([0, 0, 3, 2]), Move([3, 2])]
    assert_decodes_as_in_one_pass(model, full, dictionary, source, moves, 1e-4, beam=2)


def test_its_name_is_a_choice_of_token_mixing(kind):
    """With heads only for a class that says it has them."""
    arguments = ["data", "--arch", "resmlp_mt_small", "--token-mixing", kind]
    args = options.parse_args_and_arch(options.get_training_parser(), arguments)
    assert args.token_mixing == kind
    assert args.token_mixing_heads == (8 if kind == "fading" else 1)
    if kind == "fading":
        mixing = build_model(token_mixing=kind, token_mixing_heads=4)[0].encoder.layers[0]
        assert mixing.token_mixing.mixing.weight.shape[0] == 4
    else:
        with pytest.raises(UserError, match="--token-mixing shift has no heads"):
            build_model(token_mixing=kind, token_mixing_heads=4)


def test_a_taken_name_is_refused(kind):
    for name in (kind, "linear", "none"):
        with pytest.raises(UserError, match=f"another {name} already: choose another name"):
            register_mixing(name, nn.Identity)


def test_translating_and_resuming_ask_for_its_folder(folder, monkeypatch):
    """No file of a model names code that is run."""
    monkeypatch.chdir(folder)
    plugin, add = folder / "my_plugin", f"add --user-dir {folder / 'my_plugin'}"
    assert load("run/model/model.pt")["cfg"]["common"]["user_dir"] == str(plugin)
    ran(*TRANSLATE.split(), "--user-dir", "my_plugin")
    assert (folder / "out.en").read_bytes() == (folder / "run/translations/test.en").read_bytes()
    (folder / "out.en").unlink()
    plot = ("plot", "matrices", "run/model", "-o", "A.png")
    refused("no matrix over positions to draw", *plot, "--user-dir", "my_plugin")
    longer = RUN.replace("--max-update 3", "--max-update 4").split()
    with mock.patch.dict(TOKEN_MIXING):
        del TOKEN_MIXING["shift"]
        named = "run/model/model.pt: nothing registers its token mixing shift: "
        refused(f"{named}{add}", *TRANSLATE.split())
        refused(f"{named}{add}", *plot)
        refused("run/checkpoints holds a training with --user-dir", *longer, *SHIFT.split())
    ran(*longer, "--user-dir", "my_plugin", *SHIFT.split())


def test_it_cannot_be_exported(folder, monkeypatch):
    monkeypatch.chdir(folder)
    export = ("export", "run/model", "--out", "exported")
    refused("only models with --token-mixing linear, toeplitz", *export, "--user-dir", "my_plugin")


@pytest.mark.parametrize(
    "name, code, said",
    [
        ("gone", None, "there is no such folder"),
        ("other", "import torch\n", "add `import resmlp_mt` to its __init__.py"),
        ("broken", "import resmlp_mt\n1 / 0\n", "__init__.py, line 2: ZeroDivisionError"),
        ("json", "import resmlp_mt\n", "(json) is not globally unique. Please rename"),
    ],
)
def test_a_folder_that_cannot_be_imported(name, code, said, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    if code:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(code)
    refused(said, *TRANSLATE.split(), "--user-dir", tmp_path / name)


def test_fairseq_takes_the_examples(corpus, tmp_path):
    more = ("--token-mixing", "tnn", "--user-dir", ROOT / "examples" / "mixings")
    words = training(corpus.data, tmp_path, *more, "--batch-size", 8, "--max-update", 3)
    with mock.patch.dict(TOKEN_MIXING):
        del TOKEN_MIXING["shift"]  # another one
        assert forked("fairseq-train", words, tmp_path / "log").wait() == 0
    assert load(tmp_path / "checkpoint_last.pt")["cfg"]["model"].token_mixing == "tnn"
