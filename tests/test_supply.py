"""The environment: every pin has hashes that pip holds it to, and what is behind is told."""

import base64
import hashlib
import importlib.util
import os
import re
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path
from unittest import mock

import compatibility
import outdated
import pytest
import supply
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from resmlp_mt.errors import UserError
from resmlp_mt.pipeline import pins
from resmlp_mt.pipeline.pins import Pin, limits, look_up, read_pins
from resmlp_mt.pipeline.terminal import run_main

ROOT = Path(__file__).parents[1]
PINS = ROOT / "scripts" / "requirements.txt"
TORCH = ROOT / "scripts" / "torch.txt"


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """pip sees neither a registry nor this machine's settings."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "file:///no/such/registry")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")


def wheel(folder: Path, name: str, version: str) -> str:
    """Write an empty package to *folder*; returns its hash."""
    info = f"{name}-{version}.dist-info"
    texts = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
        f",{len(text)}\n"
        for path, text in texts.items()
    )
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inner, text in {**texts, f"{info}/RECORD": record}.items():
            archive.writestr(inner, text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def asked_for(torch=False):
    """What setup.py asks for, with the extra that CI installs."""
    with mock.patch("setuptools.setup") as setup:
        runpy.run_path(str(ROOT / "setup.py"))
    given = setup.call_args.kwargs
    found = map(Requirement, [*given["install_requires"], *given["extras_require"]["test"]])
    return [requirement for requirement in found if (requirement.name == "torch") == torch]


def test_every_pin_has_hashes_and_no_address():
    found = read_pins(PINS)
    assert len(found) > 60
    for pin in found:
        assert pin.hashes, pin.name
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", h) for h in pin.hashes), pin.name
    assert not re.search(r"https?:|file:|index-url|find-links", PINS.read_text())


def test_the_pins_are_what_setup_py_asks_for():
    found = {pin.name: pin for pin in read_pins(PINS)}
    for requirement in asked_for():
        assert found[requirement.name].version in requirement.specifier, requirement.name
    # what fairseq and this package are built with, there before them
    assert {"setuptools", "cython", "numpy"} <= set(found)
    assert not [n for n in found if re.match(r"(torch|triton)$|nvidia|cuda", n)]


def test_the_range_of_pytorch():
    (torch,), (pin,) = asked_for(torch=True), read_pins(TORCH)
    (floor,) = torch.specifier
    assert floor.operator == ">=" and Version(floor.version) == Version(compatibility.OLDEST)
    assert Version(compatibility.OLDEST) <= pin.version <= Version(compatibility.NEWEST)


def make_env(folder: Path, pinned_hash: str) -> subprocess.CompletedProcess:
    """scripts/make_env.sh on a project with one package."""
    (folder / "scripts").mkdir(exist_ok=True)
    script = folder / "scripts" / "make_env.sh"
    script.write_text((ROOT / "scripts" / "make_env.sh").read_text())
    (folder / "scripts" / "requirements.txt").write_text(
        f"# pins\nsome-package==1.0 \\\n    --hash=sha256:{pinned_hash}\n"
    )
    environment = {**os.environ, "PIP_FIND_LINKS": str(folder)}
    command = ["bash", str(script), str(folder / "env"), sys.executable]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_another_hash_is_refused(tmp_path):
    right = wheel(tmp_path, "some_package", "1.0")
    wrong = right[:-1] + ("0" if right[-1] != "0" else "1")
    done = make_env(tmp_path, wrong)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in done.stderr
    assert re.findall(r"(?:Expected sha256|Got) +(\w+)", (tmp_path / "env.log").read_text()) == [
        wrong,
        right,
    ]
    assert not list((tmp_path / "env").rglob("some_package*"))
    assert not (tmp_path / "env" / ".complete").exists()


@pytest.mark.parametrize(
    "line", ["numpy", "numpy>=2", "numpy==2.*", "-r other.txt", "numpy==2,<3", "https://a/b.whl"]
)
def test_a_line_that_is_no_pin(tmp_path, line):
    (tmp_path / "pins.txt").write_text(f"# pins\ntqdm==4.0 \\\n    --hash=sha256:00\n{line}\n")
    with pytest.raises(UserError, match=r"pins\.txt: .*: not a pin: write NAME==VERSION"):
        read_pins(tmp_path / "pins.txt")


@pytest.fixture
def registry(tmp_path):
    """A registry in a folder, with three releases of one package."""
    folder = tmp_path / "simple" / "some-package"
    folder.mkdir(parents=True)
    for version in ("1.0", "1.2", "2.0"):
        wheel(folder, "some_package", version)
    links = "".join(f'<a href="{path.name}">{path.name}</a>\n' for path in folder.iterdir())
    (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
    return folder.parent.as_uri()


@pytest.mark.parametrize(
    "pinned, asked, allowed, forbidden_by",
    [
        ("1.0", {}, "2.0", ()),
        ("1.0", {"some-package": [("other", SpecifierSet("<2"))]}, "1.2", ("other",)),
        (
            "1.2",
            {"some-package": [("a", SpecifierSet("<2")), ("b", SpecifierSet())]},
            "1.2",
            ("a",),
        ),
        ("2.0", {"another": [("other", SpecifierSet("<2"))]}, "2.0", ()),
        ("3.0", {}, "3.0", ()),
    ],
)
def test_look_up(monkeypatch, pinned, asked, allowed, forbidden_by):
    releases = [Version("1.0"), Version("2.0"), Version("1.2")]
    monkeypatch.setattr(pins, "released", lambda name, options: releases)
    pin = Pin("some-package", Version(pinned), None, ())
    found = look_up(pin, asked)
    assert found.newest == max(Version("2.0"), pin.version)
    assert found.allowed == Version(allowed) and found.forbidden_by == forbidden_by
    assert found.behind == (found.allowed > pin.version)


def test_limits():
    found = limits()
    assert ("fairseq-fixed", SpecifierSet("==1.3.2")) in found["hydra-core"]
    assert "resmlp-mt" in dict(found["mtdata"])  # of an extra of ours
    assert "fairseq-fixed" not in dict(found.get("black", []))  # of an extra of another's


def call_outdated(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["outdated.py", *map(str, arguments)])
    return run_main(outdated.main)


def test_outdated(registry, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PIP_INDEX_URL", registry)
    monkeypatch.setattr(outdated, "limits", lambda: {"some-package": [("a", SpecifierSet("<2"))]})
    path = tmp_path / "pins.txt"
    path.write_text("some-package==1.0\nnot-for-here==1.0 ; python_version < '3'\n")
    with pytest.raises(SystemExit) as end:
        call_outdated(monkeypatch, path)
    assert end.value.code == outdated.BEHIND
    said = capsys.readouterr().out
    assert said.startswith("1 of 1 pins are behind\n")
    assert "| some-package | 1.0 | 2.0 | 1.2 | a |" in said


def test_outdated_when_none_is_behind(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pins, "released", lambda name, options: [Version("1.0"), Version("2.0")])
    (tmp_path / "pins.txt").write_text("some-package==2.0\n")
    for option, said in (
        ("--quiet", ""),
        ("--all", "| some-package | 2.0 | 2.0 | 2.0 |  |"),
        (None, "0 of 1"),
    ):
        arguments = [tmp_path / "pins.txt", *([option] if option else [])]
        assert call_outdated(monkeypatch, *arguments) == 0
        printed = capsys.readouterr().out
        assert said in printed and bool(said) == bool(printed)


def test_outdated_without_a_network(tmp_path, monkeypatch, capsys):
    (tmp_path / "pins.txt").write_text("some-package==1.2\n")
    assert call_outdated(monkeypatch, tmp_path / "pins.txt") == 1
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert "outdated.py: error: pip finds no release of some-package" in captured.err


def audited(monkeypatch, first, second):
    monkeypatch.setattr(supply, "pip_audit", lambda releases, folder: first)
    monkeypatch.setattr(supply, "newest_releases", lambda releases: second)
    some = [Pin(name, Version("1.0"), None, ()) for name in ("one", "two", "three")]
    return supply.audit(some, None)


def test_what_the_audit_says(monkeypatch):
    control = {supply.CONTROL[0]: [["CVE-1"]]}
    found = audited(monkeypatch, {"one": []}, {"two": [], **control})
    assert found["lost"] == [] and found["not_audited"] == ["three"]
    assert found["audited_by_release"] == ["one"] and found["audited_as_newest"] == ["two"]
    known = {"one": [["PYSEC-9", "CVE-9"], ["GHSA-1", next(iter(supply.EXPLAINED))]], **control}
    assert audited(monkeypatch, known, {})["lost"] == ["one: PYSEC-9, CVE-9"]
    blind = audited(monkeypatch, {"one": [], "two": [], "three": []}, {supply.CONTROL[0]: []})
    assert blind["lost"] == ["the audit is blind: it finds nothing against pycrypto==2.6.1"]


def test_what_the_explanations_say_is_so():
    """Neither fairseq nor this package calls what is vulnerable."""
    fairseq = Path(importlib.util.find_spec("fairseq").origin).parent
    paths = [path for path in fairseq.rglob("*.py") if "examples" not in path.parts]
    paths += (ROOT / "resmlp_mt").rglob("*.py")
    assert len(paths) > 300
    vulnerable = re.compile(r"hydra\.utils|hydra import utils|torch\.export|torch import export")
    assert [p for p in paths if vulnerable.search(p.read_text(encoding="utf-8"))] == []


def test_the_soak_tells_a_hash_that_is_not_checked(tmp_path):
    files, folder = tmp_path / "files", tmp_path / "soak"
    files.mkdir()
    folder.mkdir()
    pin = Pin(
        "some-package", Version("1.0"), None, (f"sha256:{wheel(files, 'some_package', '1.0')}",)
    )
    assert supply.accepted_with_another_hash([pin], files, folder) == []
    unlike = Pin(
        "some-package", Version("1.0"), None, (supply.entry(pin, True).split("hash=")[1][:-1],)
    )
    said = supply.accepted_with_another_hash([unlike], files, folder)
    assert len(said) == 1 and said[0].startswith("some-package: another hash, and pip says")
