"""Multi30k task 1, raw: from a folder that has it, or from the corpus's home."""

import gzip
import os
import shutil
import urllib.error
import urllib.request
from pathlib import Path
from typing import Dict, Tuple

from resmlp_mt.errors import UserError

HOME = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
SPLITS = {
    "train": "train",
    "valid": "val",
    "test_2016_flickr": "test_2016_flickr",
    "test_2017_flickr": "test_2017_flickr",
    "test_2017_mscoco": "test_2017_mscoco",
}


def fetch(url: str, output: Path) -> None:
    """Download one gzip file, whole and readable or not at all.

    Raises:
        UserError: if it cannot be had or is no gzip file.
    """
    partial = Path(f"{output}.partial")
    try:
        with urllib.request.urlopen(url, timeout=60) as answer, open(partial, "wb") as file:
            shutil.copyfileobj(answer, file)
        with gzip.open(partial) as file:
            while file.read(1 << 20):
                pass
    except (urllib.error.URLError, OSError, EOFError) as error:
        partial.unlink(missing_ok=True)
        reason = getattr(error, "reason", error)
        raise UserError(
            f"{url}: {reason}: check the network, or set MULTI30K to a folder with the files"
        ) from None
    os.replace(partial, output)


def find_corpora(language: str, cache: Path) -> Dict[str, Tuple[Path, Path]]:
    """English and *language* files by split, from ``$MULTI30K`` or fetched into *cache*.

    ``MULTI30K_URL`` names a mirror of the corpus's home.
    """
    given = os.environ.get("MULTI30K")
    folder = Path(given) if given else cache
    if given and not folder.is_dir():
        raise UserError(f"MULTI30K={given}: no such folder: unset it to have the corpus fetched")
    if not given:
        folder.mkdir(parents=True, exist_ok=True)
    corpora = {}
    for split, name in SPLITS.items():
        files = []
        for side in ("en", language):
            plain, packed = folder / f"{name}.{side}", folder / f"{name}.{side}.gz"
            if not given and not packed.exists():
                print(f"fetching {packed.name}", flush=True)
                fetch(f"{os.environ.get('MULTI30K_URL', HOME)}/{packed.name}", packed)
            files.append(plain if plain.exists() else packed)
        corpora[split] = tuple(files)
    return corpora
