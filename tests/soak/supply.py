#!/usr/bin/env python3
"""What the environment is made of: pinned, hashed, refused if it is another, without known holes.

    python tests/soak/supply.py

It takes every pin's files from the package registry, shows that pip refuses each if its hash in
scripts/requirements.txt were another, and has pip-audit (in a throw-away environment) look every
pin up among the known vulnerabilities. A registry that knows nothing of single releases, as some
mirrors do, is asked for each project, which tells of its newest release. A release that is known
to be vulnerable is looked up with them: it must be told, or the audit is blind. Last, what the
weekly scripts/outdated.py says.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import venv
from pathlib import Path
from typing import Dict, List, Tuple

from soaking import RESULTS, record

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.pipeline.pins import Pin, read_pins

SCRIPTS = Path(__file__).parents[2] / "scripts"
SOURCES = ("antlr4-python3-runtime", "fairseq-fixed")  # built, where there is no wheel
CONTROL = ("pycrypto", "2.6.1")  # the last release of a package that nobody mends
BEHIND = 3  # exit status of outdated.py
PYTHONS = ("3.11", "3.12", "3.13")
LINUX = ["manylinux1_{0}", "manylinux2014_{0}", *(f"manylinux_2_{n}_{{0}}" for n in range(17, 29))]
PLATFORMS = {
    "Linux x86_64": [tag.format("x86_64") for tag in LINUX],
    "Linux aarch64": [tag.format("aarch64") for tag in LINUX],
    "macOS arm64": ["macosx_14_0_arm64"],
}
# vulnerabilities that do not concern us, and why
EXPLAINED = {
    "CVE-2025-3000": "torch.jit.script on a hostile program: nothing here compiles one",
    "CVE-2026-4538": "torch.export's loader of .pt2 files: nothing here calls it",
    # fairseq wants this very hydra-core, 1.3.2; mended in 1.3.4
    "CVE-2026-68508": "hydra.utils.instantiate: neither fairseq nor anything here calls it",
}


Known = Dict[str, List[List[str]]]  # by package each vulnerability, by all its names


def pip(*arguments, python=sys.executable) -> subprocess.CompletedProcess:
    command = [python, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def entry(pin: Pin, change: bool = False) -> str:
    """*pin* in a requirements file, all its hashes with another last digit if *change*."""
    hashes = [h[:-1] + "0123456789abcdef"[int(h[-1], 16) ^ 1] if change else h for h in pin.hashes]
    return " ".join([f"{pin.name}=={pin.version}", *(f"--hash={h}" for h in hashes)]) + "\n"


def download(pins: List[Pin], folder: Path, *options) -> List[str]:
    """Files of *pins* to *folder*, their hashes checked; pip's complaint if there is one."""
    wanted = folder.parent / f"{folder.name}.txt"
    wanted.write_text("".join(entry(pin) for pin in pins))
    arguments = ["--no-deps", "--require-hashes", "--no-cache-dir", "-d", folder, "-r", wanted]
    done = pip("download", *arguments, *options)
    return [] if done.returncode == 0 else [f"{folder.name}: {last_line(done.stderr)}"]


def last_line(said: str) -> str:
    return (said.strip().splitlines() or ["no word of why"])[-1]


def download_everywhere(pins: List[Pin], folder: Path) -> List[str]:
    """Wheels for every Python and platform; a line for each of them that is not complete."""
    lost = []
    wheels = [pin for pin in pins if pin.name not in SOURCES]
    for python in PYTHONS:
        for platform, tags in PLATFORMS.items():
            options = [word for tag in tags for word in ("--platform", tag)]
            options += ["--only-binary", ":all:", "--python-version", python]
            lost += download(wheels, folder / f"{platform} {python}", *options)
            print(f"{platform}, Python {python}: {len(wheels)} wheels", flush=True)
    return lost


def accepted_with_another_hash(pins: List[Pin], files: Path, folder: Path) -> List[str]:
    """A line for each pin whose file in *files* pip takes, or refuses for another reason."""
    lost = []
    for pin in pins:
        (folder / "changed.txt").write_text(entry(pin, change=True))
        arguments = ["--no-index", "--find-links", files, "--no-deps", "--require-hashes"]
        arguments += ["--no-build-isolation", "-d", folder / "changed"]
        done = pip("download", *arguments, "-r", folder / "changed.txt")
        if done.returncode == 0 or "DO NOT MATCH THE HASHES" not in done.stderr:
            lost.append(f"{pin.name}: another hash, and pip says: {last_line(done.stderr)}")
    return lost


def pip_audit(releases: List[Tuple[str, str]], folder: Path) -> Known:
    """What pip-audit knows; packages that it could not look up are left out.

    Raises:
        UserError: if pip-audit cannot be installed or gives no answer.
    """
    python = folder / "audit" / "bin" / "python"
    venv.create(folder / "audit", with_pip=True)
    done = pip("install", "pip-audit", python=str(python))
    if done.returncode:
        raise UserError(f"pip-audit cannot be installed: {last_line(done.stderr)}")
    (folder / "audit.txt").write_text("".join(f"{n}=={v}\n" for n, v in releases))
    command = [python, "-m", "pip_audit", "--disable-pip", "--no-deps", "--format", "json"]
    command += ["--progress-spinner", "off", "-r", folder / "audit.txt"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    try:
        answers = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        raise UserError(f"pip-audit gives no answer: {last_line(done.stderr)}") from None
    return {
        answer["name"]: [[v["id"], *v["aliases"]] for v in answer["vulns"]]
        for answer in answers
        if "vulns" in answer
    }


def newest_releases(releases: List[Tuple[str, str]]) -> Known:
    """What the registry's pages of the projects know of those that are the newest releases.

    Raises:
        UserError: if it has no such pages.
    """
    said = " ".join(pip("install", "--help").stdout.split())
    index = re.search(r"Python Package Index \(default (\S+?)/simple/?\)", said)
    found = {}
    for name, version in releases:
        address = f"{index[1] if index else ''}/pypi/{name}/json"
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                project = json.load(answer)
        except (ValueError, urllib.error.URLError) as error:
            raise UserError(f"{address}: {error}: is the registry reachable?") from None
        if project["info"]["version"] == version:
            known = [v for v in project["vulnerabilities"] if not v.get("withdrawn")]
            found[name] = [[v["id"], *v["aliases"]] for v in known]
    return found


def audit(pins: List[Pin], folder: Path) -> dict:
    """What is known of *pins*: which were audited, how, which not, and what was ``lost``."""
    releases = [CONTROL, *((pin.name, str(pin.version)) for pin in pins)]
    first = pip_audit(releases, folder)
    second = newest_releases([r for r in releases if r[0] not in first])
    known = {**first, **second}
    lost = []
    if not known.pop(CONTROL[0], []):
        lost.append(f"the audit is blind: it finds nothing against {'=='.join(CONTROL)}")
    for name, vulnerabilities in known.items():
        unexplained = [names for names in vulnerabilities if not set(names) & set(EXPLAINED)]
        lost += [f"{name}: {', '.join(names)}" for names in unexplained]
    return {
        "audited_by_release": sorted(set(first) & set(known)),
        "audited_as_newest": sorted(set(second) & set(known)),
        "not_audited": sorted({pin.name for pin in pins} - set(known)),
        "vulnerable": {name: names for name, names in known.items() if names},
        "lost": lost,
    }


def behind() -> dict:
    """What the weekly scripts/outdated.py says of the registry as it is: ``said``, ``lost``."""
    done = subprocess.run([sys.executable, SCRIPTS / "outdated.py"], capture_output=True, text=True)
    said = (done.stdout.splitlines() or [""])[0]
    told = re.fullmatch(r"(\d+) of \d+ pins are behind", said)
    if not told or done.returncode != (BEHIND if int(told[1]) else 0):
        return {"said": said, "lost": [f"outdated.py: {last_line(done.stderr)}"]}
    return {"said": said, "lost": []}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="five pins, this Python only")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the result goes")
    args = parser.parse_args()
    if args.quick and args.results == RESULTS:
        raise UserError("--quick: name a folder for its result, which is not to be kept: --results")
    pins = [pin for pin in read_pins(SCRIPTS / "requirements.txt") if pin.applies()]
    if args.quick:
        pins = pins[:5]
    torch = read_pins(SCRIPTS / "torch.txt")
    lost = [f"{pin.name}: no hash" for pin in pins if not pin.hashes]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "files").mkdir()
        lost += download(pins, folder / "files", "--no-build-isolation")
        lost += accepted_with_another_hash(pins, folder / "files", folder)
        print(f"{len(pins)} pins: their files, and the same with another hash", flush=True)
        if not args.quick:
            (folder / "everywhere").mkdir()
            lost += download_everywhere(pins, folder / "everywhere")
        found = audit([*pins, *torch], folder)
    weekly = behind()
    lost += found.pop("lost") + weekly["lost"]
    places = 1 if args.quick else len(PYTHONS) * len(PLATFORMS)
    audited = len(found["audited_by_release"]) + len(found["audited_as_newest"])
    tried = (
        f"{len(pins)} pins on {places} platforms, each with a wrong hash, too; {audited} audited"
    )
    tried += f"; {weekly['said']}"
    if found["not_audited"]:
        tried += f" (unknown to the registry: {', '.join(found['not_audited'])})"
    what = "every pinned package has hashes, is refused with others, and has no known vulnerability"
    details = {"pins": len(pins), **found, "explained": EXPLAINED}
    record("supply", what, tried, lost, details, args.results)


if __name__ == "__main__":
    sys.exit(run_main(main))
