"""The pins of scripts/requirements.txt, and what pip finds that is newer."""

import re
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from packaging.markers import Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from resmlp_mt.errors import UserError

OURS = "resmlp-mt"


@dataclass(frozen=True)
class Pin:
    """One release of one package.

    Attributes:
        name: of the package, normalised.
        marker: the environments that it is for; None for all.
        hashes: ``sha256:...`` of each of its files.
    """

    name: str
    version: Version
    marker: Optional[Marker]
    hashes: Tuple[str, ...]

    def applies(self) -> bool:
        """Whether it is for this Python on this machine."""
        return self.marker is None or self.marker.evaluate()


def read_pins(path: Path) -> List[Pin]:
    """The pins in a requirements file.

    Raises:
        UserError: if it cannot be read or one of its lines is not a pin.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: name a requirements file") from None
    pins = []
    for line in text.replace("\\\n", " ").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        words, *hashes = re.split(r"\s+--hash=", line.strip())
        try:
            requirement = Requirement(words)
        except InvalidRequirement:
            requirement = None
        version = re.fullmatch(r"==([^*]+)", str(requirement.specifier)) if requirement else None
        if version is None:
            raise UserError(f"{path}: {words}: not a pin: write NAME==VERSION")
        name = canonicalize_name(requirement.name)
        pins.append(Pin(name, Version(version[1]), requirement.marker, tuple(hashes)))
    return pins


def _version(text: str) -> Optional[Version]:
    try:
        return Version(text)
    except InvalidVersion:  # some of the oldest releases, "0.7.0d"
        return None


def released(name: str, options: Sequence[str] = ()) -> List[Version]:
    """Every version that pip finds for this Python, pre-releases apart; *options* go to pip.

    Raises:
        UserError: if it finds none, with what pip says of it.
    """
    command = [sys.executable, "-m", "pip", "index", "versions", name, *options]
    command += ["--disable-pip-version-check", "--retries", "1", "--no-input"]
    done = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"^Available versions: (.+)$", done.stdout, flags=re.MULTILINE)
    if found is None:
        said = [line for line in done.stderr.splitlines() if re.match("ERROR|WARNING: Retry", line)]
        why = re.sub(r"^\w+: ", "", said[0]) if said else f"exit status {done.returncode}"
        raise UserError(f"pip finds no release of {name}: {why}: can the registry be reached?")
    return [version for version in map(_version, found[1].split(", ")) if version is not None]


def limits() -> Dict[str, List[Tuple[str, SpecifierSet]]]:
    """What the installed packages, ours with all its extras, ask of each other's versions.

    Returns:
        by package the packages that need it, each with the versions that will do.
    """
    found: Dict[str, List[Tuple[str, SpecifierSet]]] = {}
    for distribution in metadata.distributions():
        name = canonicalize_name(distribution.name)
        extras = distribution.metadata.get_all("Provides-Extra") or [] if name == OURS else []
        for requirement in map(Requirement, distribution.requires or []):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": e}) for e in ["", *extras]):
                needed = canonicalize_name(requirement.name)
                found.setdefault(needed, []).append((name, requirement.specifier))
    return found


@dataclass(frozen=True)
class Release:
    """How a pin stands.

    Attributes:
        newest: the newest release.
        allowed: the newest that no installed package forbids.
        forbidden_by: those that forbid the newest.
    """

    pin: Pin
    newest: Version
    allowed: Version
    forbidden_by: Tuple[str, ...]

    @property
    def behind(self) -> bool:
        """Whether a newer one could be pinned."""
        return self.allowed > self.pin.version


def look_up(pin: Pin, asked: Dict[str, List[Tuple[str, SpecifierSet]]], options=()) -> Release:
    """Compare *pin* with what is released; *asked* is of :func:`limits`, *options* go to pip.

    Raises:
        UserError: as :func:`released` does.
    """
    versions = [*released(pin.name, options), pin.version]
    newest, needed_by = max(versions), asked.get(pin.name, [])
    allowed = [v for v in versions if all(v in specifiers for _, specifiers in needed_by)]
    forbidden_by = (name for name, specifiers in needed_by if newest not in specifiers)
    return Release(pin, newest, max([*allowed, pin.version]), tuple(sorted(set(forbidden_by))))
