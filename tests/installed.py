"""Commands in a shell, by this checkout or with the package installed from its wheel."""

import os
import shutil
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def shell(command: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess:
    """Run a command line through bash, with the programs of this Python's environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=cwd,
        env={**os.environ, "PATH": path, **variables, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
    )


def make(site: Path) -> None:
    """The package and a linked fairseq, which looks for ``--user-dir resmlp_mt`` beside itself."""
    for name in ("fairseq", "fairseq_cli"):
        library = Path(sysconfig.get_paths()["purelib"], name)
        shutil.copytree(library, site / name, copy_function=os.symlink)
    source = site / "source"  # so that the build leaves nothing in the checkout
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "resmlp_mt", source / "resmlp_mt", ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    pip += ["--no-deps", "--no-build-isolation", "--target", site, source]
    subprocess.run(pip, check=True, capture_output=True)


@pytest.fixture(scope="session")
def installed(shared):
    """:func:`shell` with the installed package."""
    site = shared("installed", make)
    path = os.pathsep.join(
        map(str, (site / "bin", Path(sys.executable).parent, os.environ["PATH"]))
    )
    return partial(shell, PATH=path, PYTHONPATH=str(site), PYTHONWARNINGS="ignore")
