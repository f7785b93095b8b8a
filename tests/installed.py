"""An environment with the package installed from its wheel, as a user has it.

The libraries are those of the Python that runs the tests. fairseq is linked file by file: it
looks for ``--user-dir resmlp_mt`` beside its own folder.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def shell(
    command: str, cwd: Path, programs: Path = Path(sys.executable).parent, **variables: str
) -> subprocess.CompletedProcess:
    """Run a command line through bash, with the programs of an environment: of this checkout's."""
    variables["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=cwd,
        env={**os.environ, **variables, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
    )


def make(folder: Path) -> None:
    libraries = Path(sysconfig.get_paths()["purelib"])
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (own,) = folder.glob("lib/python*/site-packages")
    for name in ("fairseq", "fairseq_cli"):
        shutil.copytree(libraries / name, own / name, copy_function=_link)
    (own / "libraries.pth").write_text(f"{libraries}\n", encoding="utf-8")
    source = folder / "source"  # so that the build leaves nothing in the checkout
    source.mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "resmlp_mt", source / "resmlp_mt", ignore=ignored)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheel = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, source]
    subprocess.run(wheel, check=True, capture_output=True)
    (file,) = folder.glob("resmlp_mt-*.whl")
    python = folder / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "--no-deps", file], check=True)
    for program in Path(sys.executable).parent.glob("fairseq-*"):
        _, code = program.read_text(encoding="utf-8").split("\n", 1)
        copied = folder / "bin" / program.name
        copied.write_text(f"#!{python}\n{code}", encoding="utf-8")
        copied.chmod(0o755)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


@pytest.fixture(scope="session")
def installed(shared):
    """:func:`shell` in that environment."""
    programs = shared("installed", make) / "bin"
    return partial(shell, programs=programs, PYTHONPATH="", PYTHONWARNINGS="ignore")
