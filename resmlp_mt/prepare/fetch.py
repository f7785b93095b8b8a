"""One file from the network: resumed where a transfer was cut off, and checked.

The checksum is the one that is known beforehand (``recipes.toml``). Where none is, the first
download is taken as it came, and its SHA-256 is written beside the file, as ``FILE.sha256``: from
then on the file must have that one.
"""

import hashlib
import os
import time
from pathlib import Path
from typing import Optional

import requests
from tqdm import tqdm

from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import write_lines

BLOCK = 1 << 16  # bytes received at a time; fewer that come before a transfer breaks off are lost
ATTEMPTS = 5  # in a row that bring nothing
TIMEOUTS = (10, 60)  # seconds to connect, and without a byte


class Interrupted(Exception):
    """A transfer ended early; another attempt may resume from there."""


def fetch(url: str, output: Path, known: Optional[str] = None, pause: float = 1.0) -> str:
    """Download *url*, unless *output* is there, and check it.

    What has been received is kept in ``OUTPUT.partial`` until it is complete, so that the next
    attempt, or the next run, asks for the rest only.

    Args:
        url: http or https.
        output: the file.
        known: ``sha256:...`` or ``md5:...``.
        pause: seconds before a second attempt; twice as many before each further one.

    Returns:
        ``sha256:...`` of the file.

    Raises:
        UserError: if it cannot be fetched, or is not the file that it should be.
    """
    output = Path(output)
    partial = Path(f"{output}.partial")
    version = Path(f"{partial}.version")
    there = output
    if not output.exists():
        output.parent.mkdir(parents=True, exist_ok=True)
        _receive(url, partial, version, pause)
        there = partial
    remembered = Path(f"{output}.sha256")
    expected = {"published": known} if known else {}
    if remembered.is_file():
        expected[str(remembered)] = remembered.read_text(encoding="utf-8").strip()
    for source, checksum in expected.items():
        found = checksum_of(there, checksum.partition(":")[0])
        if found != checksum:
            there.unlink()
            version.unlink(missing_ok=True)
            raise UserError(
                f"{url}: wrong checksum {found}, expected {checksum} ({source}): the file is "
                "refused and removed; run again to fetch it anew. If it stays so, the file at its "
                "home is another one now"
            )
    digest = expected.get(str(remembered)) or checksum_of(there, "sha256")
    write_lines(remembered, [digest])
    if there is partial:
        os.replace(partial, output)
        version.unlink(missing_ok=True)
    return digest


def checksum_of(path: Path, algorithm: str) -> str:
    """``algorithm:hexadecimal`` of a file."""
    with open(path, "rb") as file:
        return f"{algorithm}:{hashlib.file_digest(file, algorithm).hexdigest()}"


def _receive(url: str, partial: Path, version: Path, pause: float) -> None:
    """Attempt after attempt, as long as some of them bring something."""
    failures = 0
    while True:
        before = _size(partial)
        try:
            return _attempt(url, partial, version)
        except (Interrupted, requests.RequestException) as error:
            failures = 0 if _size(partial) > before else failures + 1
            if failures == ATTEMPTS:
                raise UserError(
                    f"{url}: {_reason(error)} ({ATTEMPTS} attempts): check the network and run "
                    "again, which resumes from here, or give text that is there with --from"
                ) from None
            time.sleep(pause * 2**failures)


def _attempt(url: str, partial: Path, version: Path) -> None:
    """Ask for what is missing of the file and append it.

    Args:
        version: a file with what the server calls the version that *partial* is the beginning of.
    """
    have = _size(partial)
    # "identity": a server that packs what it sends would make the number of bytes another one
    headers = {"User-Agent": "resmlp_mt", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if version.is_file():  # if the file has changed since, the server sends all of it
            headers["If-Range"] = version.read_text(encoding="utf-8").strip()
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUTS) as answer:
        if answer.status_code == 416:  # nothing behind what is here
            if answer.headers.get("Content-Range") == f"bytes */{have}":
                return
            partial.unlink()
            raise Interrupted("what is here is not the beginning of the file")
        if answer.status_code >= 500 or answer.status_code == 429:
            raise Interrupted(f"{answer.status_code} {answer.reason}")
        if answer.status_code not in (200, 206):
            raise UserError(
                f"{url}: {answer.status_code} {answer.reason}: the corpus is not there any more; "
                "give text that is there with --from"
            )
        resumed = answer.status_code == 206
        if resumed and not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            raise Interrupted("another part was sent than was asked for")
        total = _total(answer, have if resumed else 0)
        if not resumed:
            _remember_version(answer, version)
        name, begin = url.rpartition("/")[2], have if resumed else 0
        with (
            open(partial, "ab" if resumed else "wb") as file,
            tqdm(
                desc=f"    {name}",
                initial=begin,
                total=total,
                unit="B",
                unit_scale=True,
                disable=None,
            ) as bar,
        ):
            for block in answer.iter_content(BLOCK):
                file.write(block)
                bar.update(len(block))
    if total is not None and _size(partial) != total:
        raise Interrupted(f"cut off after {_size(partial)} of {total} bytes")


def _total(answer: requests.Response, have: int) -> Optional[int]:
    """Bytes of the whole file, if the server says."""
    length = answer.headers.get("Content-Length")
    return have + int(length) if length is not None else None


def _remember_version(answer: requests.Response, version: Path) -> None:
    """Keep what tells this version of the file from another, for ``If-Range``."""
    tag = answer.headers.get("ETag")
    name = tag if tag and not tag.startswith("W/") else answer.headers.get("Last-Modified")
    if name:
        write_lines(version, [name])
    else:
        version.unlink(missing_ok=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _reason(error: Exception) -> str:
    """The innermost cause in a few words; requests wraps it in several layers of its own."""
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the transfer was cut off"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.SSLError):
        return "the server's certificate could not be verified"
    if isinstance(error, requests.ConnectionError):
        text = str(error)
        if "NameResolution" in text or "resolve" in text:
            return "the server's name could not be resolved"
        return "no connection"
    return str(error) or type(error).__name__
