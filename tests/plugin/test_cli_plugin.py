"""The package imports lightly, and registers its model once, however it is found."""

import shutil
from pathlib import Path

import fairseq
from fairseq_programs import PACKAGE, assert_same_hypotheses, generate, hypotheses, process

IMPORTED_FIRST = """
import builtins, sys
builtins.help = None  # fairseq uses it, and -S leaves it out
hooks, modules = list(sys.meta_path), set(sys.modules)
import resmlp_mt
assert sys.meta_path == hooks
import resmlp_mt_runtime
assert resmlp_mt_runtime.__file__.startswith(sys.argv[1].split(":")[0][: -len("resmlp_mt")])
assert not {name for name in set(sys.modules) - modules if name.startswith("sklearn")}
heavy = {"torch", "fairseq", "numpy", "sentencepiece", "matplotlib", "resmlp_mt.text"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)

from argparse import Namespace
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.utils import import_user_module
for path in sys.argv[1].split(":"):
    import_user_module(Namespace(user_dir=path))
    ours = {name: model for name, model in ARCH_MODEL_REGISTRY.items() if "resmlp" in name}
    assert set(ours) == {
        *("resmlp_mt_6", "resmlp_mt_12", "resmlp_mt_iwslt_de_en"),
        *("resmlp_mt_tiny", "resmlp_mt_small", "resmlp_mt_base"),
        *(f"resmlp_mt_{kind}_{n}" for kind in ("toeplitz", "gated", "conv") for n in (6, 12)),
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


def test_imported_before_fairseq(trained, tmp_path):
    """Importing loads nothing heavy; every name of the folder registers the model once."""
    user_dir, site = tmp_path / "resmlp_mt", Path(fairseq.__file__).parent.parent
    clone, runtime = PACKAGE.parent, Path("runtime/resmlp_mt_runtime")  # is never installed
    for name in (PACKAGE.name, runtime):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(clone / name, tmp_path / name, ignore=ignored)
    (tmp_path / "site").mkdir()
    result = process(
        "-S",  # without what site-packages link to
        *("-c", IMPORTED_FIRST, f"{user_dir}:{user_dir}/:{tmp_path}/site/../resmlp_mt"),
        *(trained.data, "--path", trained.path, "--beam", 4, "--cpu", "--user-dir", user_dir),
        cwd=tmp_path,
        path=f"{tmp_path}:{site}",
    )
    assert result.returncode == 0, result.stderr[-2000:]
    expected = hypotheses(generate(trained.data, trained.path))
    assert_same_hypotheses(hypotheses(result.stdout), expected)
