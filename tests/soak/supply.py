#!/usr/bin/env python3
"""What the environment is made of: pinned, hashed, refused if it is another, without known holes.

    python tests/soak/supply.py

It installs the wheels of every pin for every Python and platform (uv), takes the files of every pin
by pip and shows that pip refuses each if its hash in scripts/requirements.txt were another, and
reads the known vulnerabilities of every pin from its page at the registry. A release that is known
to be vulnerable is looked up with them: it must be found, or the audit is blind. uv comes into a
throw-away environment.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import venv
from pathlib import Path
from typing import List, NamedTuple, Optional

from packaging.requirements import Requirement
from soaking import record

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError

SCRIPTS = Path(__file__).parents[2] / "scripts"
SOURCES = ("antlr4-python3-runtime", "fairseq-fixed")  # built, where there is no wheel
PYTHONS = ("3.11", "3.12", "3.13")
PLATFORMS = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "aarch64-apple-darwin")
# vulnerabilities that do not concern us, and why
EXPLAINED = {
    "CVE-2025-3000": "torch.jit.script on a hostile program: nothing here compiles one",
    "CVE-2026-4538": "torch.export's loader of .pt2 files: nothing here calls it",
    # fairseq requires exactly hydra-core 1.3.2; repaired in 1.3.4
    "CVE-2026-68508": "hydra.utils.instantiate: neither fairseq nor anything here calls it",
}


class Pin(NamedTuple):
    """One package of a requirements file; *entry* is all that stands there of it, in a line."""

    name: str
    version: str
    applies: bool
    entry: str


# the last release of a package that nobody maintains
CONTROL = Pin("pycrypto", "2.6.1", True, "pycrypto==2.6.1")


def read_pins(path: Path) -> List[Pin]:
    pins = []
    for line in path.read_text(encoding="utf-8").replace("\\\n", "").splitlines():
        if line.strip() and not line.startswith("#"):
            wanted = Requirement(line.partition("--hash")[0].strip())
            applies = wanted.marker is None or wanted.marker.evaluate()
            version = str(wanted.specifier).removeprefix("==")
            pins.append(Pin(wanted.name, version, applies, line))
    return pins


def run(*command, **environment) -> subprocess.CompletedProcess:
    """Run a program with its output kept; *environment* beside that of this process."""
    words = list(map(str, command))
    environment = {**os.environ, **environment}
    return subprocess.run(words, capture_output=True, text=True, env=environment)


def last_line(said: str) -> str:
    return (said.strip().splitlines() or ["nothing printed"])[-1]


def install_everywhere(pins: List[Pin], uv: Path, folder: Path) -> List[str]:
    """Wheels for every Python and platform. A line for each of them that is not complete."""
    wanted, lost = folder / "wheels.txt", []
    wanted.write_text("\n".join(pin.entry for pin in pins if pin.name not in SOURCES))
    for python in PYTHONS:
        for platform in PLATFORMS:
            name = f"{platform} {python}"
            done = run(
                *(uv, "pip", "install", "--no-deps", "--require-hashes", "--only-binary", ":all:"),
                *("--python", sys.executable, "--python-version", python),
                *("--python-platform", platform, "--target", folder / name, "-r", wanted),
                UV_CACHE_DIR=str(folder / "cache"),
                MACOSX_DEPLOYMENT_TARGET="14.0",  # the first that onnxruntime has wheels for
            )
            if done.returncode:
                lost.append(f"{name}: {last_line(done.stderr)}")
            print(f"{name}: {len(list((folder / name).glob('*.dist-info')))} wheels", flush=True)
    return lost


def refused_with_another_hash(pins: List[Pin], folder: Path) -> List[str]:
    """Take the files of all pins. A line for each that pip does not take, or takes with a changed
    hash too, or then refuses for another reason."""
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps")
    pip += ("--require-hashes", "--no-build-isolation", "--no-cache-dir")
    wanted, lost = folder / "wanted.txt", []
    wanted.write_text("\n".join(pin.entry for pin in pins))
    done = run(*pip, "-d", folder / "files", "-r", wanted)
    if done.returncode:
        return [f"pip download: {last_line(done.stderr)}"]
    other = {digit: "0123456789abcdef"[int(digit, 16) ^ 1] for digit in "0123456789abcdef"}
    for pin in pins:
        changed = re.sub(r"[0-9a-f](?=\s|$)", lambda m: other[m[0]], pin.entry.partition("--")[2])
        wanted.write_text(f"{pin.name}=={pin.version} --{changed}\n")
        done = run(*pip, "--no-index", "--find-links", folder / "files", "-d", folder, "-r", wanted)
        if done.returncode == 0 or "DO NOT MATCH THE HASHES" not in done.stderr:
            lost.append(f"{pin.name}: another hash, and pip prints: {last_line(done.stderr)}")
    return lost


def vulnerabilities(pin: Pin, index: str) -> Optional[List[List[str]]]:
    """What the registry knows against a pin: each vulnerability by all its names. None if it knows
    nothing of this release: some mirrors have a page for the newest release of a project alone.

    Raises:
        UserError: if it has no page of the project.
    """
    for page in (f"{pin.name}/{pin.version}", pin.name):
        address = f"{index}/pypi/{page}/json"
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                found = json.load(answer)
            break
        except (ValueError, urllib.error.URLError) as error:
            reason = error
    else:
        raise UserError(f"{address}: {reason}: is the registry reachable?")
    if found["info"]["version"] != pin.version:
        return None
    known = [v for v in found["vulnerabilities"] if not v.get("withdrawn")]
    return [[v["id"], *v["aliases"]] for v in known]


def audit(pins: List[Pin]) -> dict:
    """What is known of *pins*: which were audited, which not, and what was ``lost``."""
    said = " ".join(run(sys.executable, "-m", "pip", "install", "--help").stdout.split())
    index = re.search(r"Python Package Index \(default (\S+?)/simple/?\)", said)[1]
    found = {pin.name: vulnerabilities(pin, index) for pin in [CONTROL, *pins]}
    known = {name: some for name, some in found.items() if some is not None}
    lost = []
    if not known.pop(CONTROL.name, []):
        lost.append(f"the audit is blind: it finds nothing against {CONTROL.entry}")
    for name, some in known.items():
        unexplained = [names for names in some if not set(names) & set(EXPLAINED)]
        lost += [f"{name}: {', '.join(names)}" for names in unexplained]
    return {
        "audited": sorted(known),
        "not_audited": sorted(set(found) - set(known) - {CONTROL.name}),
        "vulnerable": {name: names for name, names in known.items() if names},
        "lost": lost,
    }


def main() -> None:
    everywhere = read_pins(SCRIPTS / "requirements.txt")
    pins = [pin for pin in everywhere if pin.applies]
    lost = [f"{pin.name}: no hash" for pin in everywhere if "--hash=sha256:" not in pin.entry]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tools = folder / "tools" / "bin"
        venv.create(tools.parent, with_pip=True)
        done = run(tools / "python", "-m", "pip", "install", "uv")
        if done.returncode:
            raise UserError(f"uv cannot be installed: {last_line(done.stderr)}")
        found = audit([*pins, *read_pins(SCRIPTS / "torch.txt")])
        lost += found.pop("lost")
        lost += refused_with_another_hash(pins, folder)
        print(f"{len(pins)} pins: their files, and the same with another hash", flush=True)
        lost += install_everywhere(everywhere, tools / "uv", folder)
    tried = f"{len(pins)} pins, each with a wrong hash too, their wheels on "
    tried += f"{len(PYTHONS) * len(PLATFORMS)} platforms, {len(found['audited'])} audited"
    if found["not_audited"]:
        tried += f" (unknown to the registry: {', '.join(found['not_audited'])})"
    what = "every pin but PyTorch has hashes, and a file with other hashes is refused. No pin that "
    what += "was audited has a known vulnerability"
    record("supply", what, tried, lost, {"pins": len(pins), **found, "explained": EXPLAINED})


if __name__ == "__main__":
    sys.exit(run_main(main))
