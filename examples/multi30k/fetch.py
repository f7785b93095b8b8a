"""Fetch Multi30k task 1, raw, into a folder: python examples/multi30k/fetch.py DIR

The files come from the home of the corpus. Those that DIR has already are not fetched again.
"""

import argparse
import gzip
import os
import shutil
import sys
import urllib.request
import zlib
from http.client import HTTPException
from pathlib import Path
from typing import Sequence

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.files import make_folder, whole_file

HOME = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
NAMES = ("train", "val", "test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")


def fetch_file(url: str, output: Path) -> None:
    """Download one gzip file, whole and readable or not at all.

    Raises:
        UserError: if it is not available or no gzip file.
    """
    try:
        with whole_file(output) as temporary:
            with urllib.request.urlopen(url, timeout=60) as answer, open(temporary, "wb") as file:
                shutil.copyfileobj(answer, file)
            with gzip.open(temporary) as file:
                while file.read(1 << 20):
                    pass
    except (OSError, EOFError, zlib.error, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise UserError(
            f"{url}: {reason}: check the network, or name a folder that has the files"
        ) from None


def fetch(folder: Path, languages: Sequence[str]) -> None:
    """Every file that *folder* lacks, plain or ``.gz``. ``MULTI30K_URL`` names a mirror."""
    make_folder(folder)
    for name in NAMES:
        for language in languages:
            plain, packed = folder / f"{name}.{language}", folder / f"{name}.{language}.gz"
            if not plain.exists() and not packed.exists():
                print(f"fetching {packed.name}", flush=True)
                fetch_file(f"{os.environ.get('MULTI30K_URL', HOME)}/{packed.name}", packed)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument(
        "--languages", nargs="+", default=["en", "de"], choices=["en", "de", "fr"], metavar="LANG"
    )
    args = parser.parse_args()
    fetch(args.folder, args.languages)


if __name__ == "__main__":
    sys.exit(run_main(main))
