"""One file from the network: resumed where a transfer was cut off, and checked.

The checksum is the one that is known beforehand (``recipes.toml``). Where none is, the first
download is taken as it came, and its SHA-256 is written beside the file, as ``FILE.sha256``: from
then on the file must have that one.
"""

import hashlib
import os
from pathlib import Path
from typing import Optional

import requests
from requests.adapters import HTTPAdapter
from tqdm import tqdm
from urllib3.util import Retry

from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import write_lines

BLOCK = 1 << 16  # bytes received at a time; fewer that come before a transfer breaks off are lost
ATTEMPTS = 5  # before a server answers
PAUSE = 1.0  # seconds before the second of them, twice as many before each further one
TIMEOUTS = (10, 60)  # seconds to connect, and without a byte


def fetch(url: str, output: Path, known: Optional[str] = None) -> str:
    """Download *url*, unless *output* is there, and check it.

    What has been received is kept in ``OUTPUT.partial`` until it is complete, so that the next
    attempt, or the next run, asks for the rest only.

    Args:
        url: http or https.
        output: the file.
        known: ``sha256:...`` or ``md5:...``.

    Returns:
        ``sha256:...`` of the file.

    Raises:
        UserError: if it cannot be fetched, or is not the file that it should be.
    """
    remembered = Path(f"{output}.sha256")
    there = output
    if not output.exists():
        output.parent.mkdir(parents=True, exist_ok=True)
        there = Path(f"{output}.partial")
        _receive(url, there)
    expected = [known] if known else []
    if remembered.is_file():
        expected.append(remembered.read_text(encoding="utf-8").strip())
    for checksum in expected:
        found = _checksum(there, checksum.partition(":")[0])
        if found != checksum:
            there.unlink()
            raise UserError(
                f"{url}: wrong checksum {found}, expected {checksum}: the file is removed: run "
                f"again to fetch it anew, or delete {remembered} if the file has a new version"
            )
    digest = _checksum(there, "sha256")
    write_lines(remembered, [digest])
    os.replace(there, output)
    return digest


def _checksum(path: Path, algorithm: str) -> str:
    with open(path, "rb") as file:
        return f"{algorithm}:{hashlib.file_digest(file, algorithm).hexdigest()}"


def _receive(url: str, partial: Path) -> None:
    """Attempt after attempt, as long as each brings something."""
    retry = Retry(ATTEMPTS - 1, backoff_factor=PAUSE, status_forcelist=(429, 500, 502, 503, 504))
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=retry))
        session.mount("https://", HTTPAdapter(max_retries=retry))
        while True:
            before = _size(partial)
            try:
                return _attempt(session, url, partial)
            except requests.RequestException as error:
                anew = before > 0 and not partial.exists()  # the rest of it was refused
                if _size(partial) <= before and not anew:
                    raise UserError(
                        f"{url}: {' '.join(str(error).split())}: check the network and run again, "
                        "which resumes from here, or give text that is there with --from"
                    ) from None


def _attempt(session: requests.Session, url: str, partial: Path) -> None:
    """Ask for what is missing of the file and append it."""
    have = _size(partial)
    # "identity": a server that packs what it sends would make the number of bytes another one
    headers = {"User-Agent": "resmlp_mt", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    with session.get(url, headers=headers, stream=True, timeout=TIMEOUTS) as answer:
        if answer.status_code == requests.codes.range_not_satisfiable:
            partial.unlink()  # what is here is not the beginning of that file, or all of it
        answer.raise_for_status()
        resumed = answer.status_code == requests.codes.partial_content
        length = answer.headers.get("Content-Length")
        with (
            open(partial, "ab" if resumed else "wb") as file,
            tqdm(
                desc=f"    {url.rpartition('/')[2]}",
                initial=file.tell(),
                total=file.tell() + int(length) if length else None,
                unit="B",
                unit_scale=True,
                disable=None,
            ) as bar,
        ):
            for block in answer.iter_content(BLOCK):
                file.write(block)
                bar.update(len(block))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
