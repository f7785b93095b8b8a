"""mtdata's cache of archives, with downloads that are resumed and checked."""

import gzip
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Dict, Set

from resmlp_mt.compat.quiet import logging_as_before
from resmlp_mt.prepare.fetch import fetch
from resmlp_mt.prepare.recipes import CHECKSUMS

with logging_as_before():
    from mtdata.cache import Cache


class CheckedCache(Cache):
    """mtdata's cache, with downloads that are resumed and checked.

    Attributes:
        fetched: SHA-256 by URL of what was asked of it.
    """

    DAMAGE = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error)

    def __init__(self, root: Path, pause: float = 1.0):
        super().__init__(root)
        self.pause = pause
        self.fetched: Dict[str, str] = {}
        self._checked: Set[Path] = set()

    def download(self, url: str, save_at: Path, timeout=None, entry=None) -> Path:
        """What :class:`Cache` calls for every file of a corpus."""
        if save_at not in self._checked:
            self.fetched[url] = fetch(url, save_at, CHECKSUMS.get(url), self.pause)
            if url not in CHECKSUMS:
                _check_archive(save_at)
            self.get_flag_file(save_at).touch()  # mtdata's sign that a file is complete
            self._checked.add(save_at)
        return save_at

    def discard(self, path: Path) -> None:
        """Remove a file and all that is remembered of it."""
        for name in (path, Path(f"{path}.sha256"), self.get_flag_file(path)):
            name.unlink(missing_ok=True)


def _check_archive(path: Path) -> None:
    """Find what mtdata would not: it takes a file that it cannot unpack for the text itself.

    A damaged tarball may only seem to end early, unless gzip's own sums are looked at. Those in a
    zip file are looked at when the text is taken out.

    Raises:
        one of :attr:`CheckedCache.DAMAGE`.
    """
    if zipfile.is_zipfile(path):
        return
    with gzip.open(path) as file:
        while file.read(1 << 20):
            pass
    if not tarfile.is_tarfile(path):
        raise tarfile.ReadError("neither a zip file nor a tarball")
