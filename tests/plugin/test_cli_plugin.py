"""The plugin is found in a checkout and as an installed package, and registers once."""

import shutil

import pytest
from fairseq_programs import (
    PACKAGE,
    assert_same_hypotheses,
    console_script,
    generate,
    hypotheses,
    process,
    training,
    weights,
)

IMPORTED_FIRST = """
import sys
import resmlp_mt
heavy = {"torch", "fairseq", "numpy", "sentencepiece", "matplotlib", "resmlp_mt.text"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)

from argparse import Namespace
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.utils import import_user_module
for path in sys.argv[1].split(":"):
    import_user_module(Namespace(user_dir=path))
    ours = {name: model for name, model in ARCH_MODEL_REGISTRY.items() if "resmlp" in name}
    assert set(ours) == {
        *("resmlp_mt_6", "resmlp_mt_12", "resmlp_mt_tiny"),
        *("resmlp_mt_toeplitz_6", "resmlp_mt_toeplitz_12"),
        *("resmlp_mt_gated_6", "resmlp_mt_gated_12"),
        *("resmlp_mt_conv_6", "resmlp_mt_conv_12"),
    }, ours
    assert MODEL_REGISTRY["resmlp_mt"] is resmlp_mt.ResMLPModel
    assert set(ours.values()) == {resmlp_mt.ResMLPModel}

rooms = ("prepare", "score", "plot", "translate", "train", "text.subwords")
heavy = ("sentencepiece", "matplotlib", *(f"resmlp_mt.{room}" for room in rooms))
loaded = [name for name in sys.modules if name.startswith(heavy)]
assert not loaded, loaded

from fairseq_cli.generate import cli_main
sys.argv = ["fairseq-generate", *sys.argv[2:]]
cli_main()
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A folder of packages with a copy of this one, away from the checkout."""
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(PACKAGE, site / "resmlp_mt", ignore=shutil.ignore_patterns("__pycache__"))
    return site


def test_user_dir(corpus, elsewhere, tmp_path):
    """``fairseq-train --user-dir resmlp_mt`` from the checkout's root, and ``fairseq-generate``
    with a folder that is not on Python's path."""
    options = ("--user-dir", "resmlp_mt", "--batch-size", 8, "--max-epoch", 1)
    result = process(console_script("train"), *training(corpus.data, tmp_path, *options))
    assert result.returncode == 0, result.stderr[-2000:]
    path = tmp_path / "checkpoint_last.pt"
    assert "decoder.layers.1.token_mixing.mixing.weight" in weights(path)
    result = process(
        *(console_script("generate"), corpus.data, "--path", path, "--beam", 4, "--cpu"),
        *("--user-dir", elsewhere / "resmlp_mt"),
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert_same_hypotheses(hypotheses(result.stdout), hypotheses(generate(corpus.data, path)))


def test_imported_before_fairseq(trained, elsewhere, tmp_path):
    """Importing the package loads nothing heavy. Then each name of its folder, also the one by
    which fairseq finds it beside itself, registers the model once."""
    user_dir = elsewhere / "resmlp_mt"
    (elsewhere / "site").mkdir()
    names = f"{user_dir}:{user_dir}/:{elsewhere}/site/../resmlp_mt"
    result = process(
        *("-c", IMPORTED_FIRST, names),
        *(trained.data, "--path", trained.path, "--beam", 4, "--cpu", "--user-dir", user_dir),
        cwd=tmp_path,
        path=elsewhere,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    expected = hypotheses(generate(trained.data, trained.path))
    assert_same_hypotheses(hypotheses(result.stdout), expected)
