"""A token mixing of a user's own: decoded, folded, refused by the export."""

from argparse import Namespace

import pytest
import torch
from fairseq import options
from fairseq.utils import import_user_module
from fairseq_programs import ROOT, hypotheses, process, training
from helpers import build_model, gap, pad_batch, random_sentences
from model_checks import Move, assert_causal, assert_decodes_as_in_one_pass
from torch import nn

from resmlp_mt import register_mixing
from resmlp_mt.errors import UserError
from resmlp_mt.export.graphs import exported
from resmlp_mt.model.inference import fold_
from resmlp_mt.model.mixing import TOKEN_MIXING, TokenMixing

KINDS = ("shift", "fading")


class FadingMixing(TokenMixing):
    """A linear A that fades with the distance; everything else is inherited."""

    def matrix(self, length):
        t = torch.arange(length)
        return super().matrix(length) * 0.8 ** (t[:, None] - t).abs()


@pytest.fixture(scope="module", autouse=True)
def plugin(tmp_path_factory):
    """The example of docs/options.md as a --user-dir of fairseq, and a subclass of the linear A."""
    folder = tmp_path_factory.mktemp("own") / "my_plugin"
    folder.mkdir()
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    example = page.split("```python\n")[1].split("```")[0]
    (folder / "__init__.py").write_text(example)
    import_user_module(Namespace(user_dir=str(folder)))
    register_mixing("fading", FadingMixing)
    register_mixing("fading", FadingMixing)  # twice is once
    yield
    for kind in KINDS:
        del TOKEN_MIXING[kind]


@pytest.fixture(params=KINDS)
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
    moves = [Move([1, 0, 2, 2]), Move([0, 1, 1, 3]), Move([0, 2])]
    assert_decodes_as_in_one_pass(model, full, dictionary, source, moves, 1e-4, beam=2)


def test_its_name_is_a_choice_of_token_mixing(kind):
    """With heads only for a class that says it has them."""
    arguments = ["data", "--arch", "resmlp_mt_tiny", "--token-mixing", kind]
    args = options.parse_args_and_arch(options.get_training_parser(), arguments)
    assert args.token_mixing == kind
    if kind == "fading":
        mixing = build_model(token_mixing=kind, token_mixing_heads=4)[0].encoder.layers[0]
        assert mixing.token_mixing.mixing.weight.shape[0] == 4
    else:
        with pytest.raises(UserError, match="--token-mixing shift has no heads"):
            build_model(token_mixing=kind, token_mixing_heads=4)


def test_a_taken_name_and_the_export_are_refused(kind):
    for name in (kind, "linear"):
        with pytest.raises(UserError, match=f"another {name} already: choose another name"):
            register_mixing(name, nn.Identity)
    model, name = build_model(token_mixing=kind)[0], TOKEN_MIXING[kind].__name__
    with pytest.raises(UserError, match=f"{name} cannot be exported, only linear"):
        exported(model, "float32")


def test_fairseqs_programs_take_the_examples(corpus, tmp_path):
    """In processes of their own, where nothing else has registered the model."""
    user_dir = ("--user-dir", "examples/mixings")
    words = training(
        corpus.data, tmp_path, "--token-mixing", "tnn", "--batch-size", 8, "--max-update", 3
    )
    for name, arguments in (
        ("train", words),
        ("generate", (corpus.data, "--path", tmp_path / "checkpoint_last.pt", "--cpu")),
    ):
        done = process("-m", f"fairseq_cli.{name}", *arguments, *user_dir)
        assert done.returncode == 0, done.stderr[-2000:]
    assert len(hypotheses(done.stdout)) == corpus.sizes["test"]
