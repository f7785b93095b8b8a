"""The corpora of a recipe, by mtdata: archives fetched, text taken out of them.

mtdata knows where a corpus is and how to take its text out of its archive. Its own download
neither resumes nor checks anything, so :class:`CheckedCache` does that part, in mtdata's place and
into mtdata's cache (``$MTDATA``, by default ``~/.mtdata``): what either has fetched, the other
finds. The text goes where ``mtdata get`` puts it (:mod:`resmlp_mt.prepare.layout`).

Importing mtdata costs seconds (its index; the first time half a minute, to make it), so this
module is imported only when something is to be downloaded.
"""

import logging
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Dict, Iterator, List

import requests

from resmlp_mt.compat.quiet import logging_as_before
from resmlp_mt.errors import UserError
from resmlp_mt.prepare.checked_cache import CheckedCache
from resmlp_mt.prepare.recipes import RECIPES_FILE, TEST_PAIRS, Pair
from resmlp_mt.prepare.space import check_space

with logging_as_before():
    import mtdata
    from mtdata.data import Dataset
    from mtdata.entry import Entry
    from mtdata.recipe import Recipe

UNPACKED = 5  # an archive and what mtdata unpacks beside it, in archives: gzip packs text 1 to 4
RAW_BYTES = 300  # of a sentence pair, both sides; newstest's have 245


def load_recipe(pair: Pair) -> Recipe:
    """The pair's recipe; each corpus in it is one of mtdata's index."""
    return Recipe.load(RECIPES_FILE)[pair.recipe]


def resolve(recipe: Recipe) -> Dict[str, List[Entry]]:
    """What mtdata knows of the corpora of a recipe: ``train``, ``dev`` and ``test``, in its order.

    Raises:
        UserError: if this version of mtdata does not have one.
    """
    entries: Dict[str, List[Entry]] = {}
    for split in ("train", "dev", "test"):
        ids = getattr(recipe, split)
        try:
            entries[split] = [Dataset.resolve_entries([name])[0] for name in ids]
        except Exception as error:  # mtdata raises the base class
            raise UserError(f"mtdata {mtdata.__version__}: {str(error).split(';')[0]}") from None
    return entries


def archives_of(entries: Dict[str, List[Entry]], cache: CheckedCache) -> Dict[str, Path]:
    """The archives of a recipe by URL, and where each is or will be."""
    return {
        entry.url: cache.get_local_path(entry.url, entry.filename, fix_missing=False)
        for split in entries.values()
        for entry in split
    }


def check_download_space(pair: Pair, archives: Dict[str, Path], folder: Path) -> None:
    """Refuse before anything is fetched if the disk is too small for archives and text.

    Args:
        archives: from :func:`archives_of`.
        folder: where the text goes.

    Raises:
        UserError: with what is needed and what there is.
    """
    size = 0
    for url, path in archives.items():
        if path.exists():
            continue
        try:
            answer = requests.head(url, allow_redirects=True, timeout=30)
            size += int(answer.headers.get("Content-Length", 0)) if answer.ok else 0
        except requests.RequestException:
            continue  # the download itself will say what is wrong
    text = int(pair.million_pairs * 1e6 * RAW_BYTES)
    check_space({Path(mtdata.cache_dir): UNPACKED * size, folder: text}, "the download")


def download(entries: Dict[str, List[Entry]], langs, folder: Path, cache: CheckedCache) -> dict:
    """Fetch the corpora and write them into *folder* as ``mtdata get`` does.

    A corpus that is complete there is left as it is.

    Args:
        entries: from :func:`resolve`.
        langs: the recipe's languages, as mtdata has them.
        cache: where the archives go.

    Returns:
        for the manifest: pairs by corpus, checksums by URL.

    Raises:
        UserError: if a file cannot be had or read, or the test set is not the whole one.
    """
    mtdata.pbar_man.enabled = sys.stderr.isatty()
    dataset = Dataset(folder, langs, cache.root)
    dataset.cache = cache
    everything = [(dataset.train_parts_dir, entry) for entry in entries["train"]]
    everything += [(dataset.tests_dir, entry) for entry in entries["dev"] + entries["test"]]
    pairs = {}
    for number, (where, entry) in enumerate(everything, 1):
        name = str(entry.did)
        print(f"    [{number}/{len(everything)}] {name}: {entry.url}", flush=True)
        with _silent_logging():
            _take_out(dataset, where, entry)
        side, _, _ = dataset.get_paths(where, entry)
        pairs[name] = _count_lines(side)
        if entry in entries["test"] and pairs[name] != TEST_PAIRS:
            raise UserError(f"{name} has {pairs[name]} lines, not the {TEST_PAIRS} of all")
        print(f"    [{number}/{len(everything)}] {name}: {pairs[name]:,} pairs", flush=True)
    with _silent_logging():
        dataset.add_dev_entries(entries["dev"])
        dataset.add_test_entries(entries["test"])
    return {"pairs": pairs, "archives": dict(cache.fetched), "mtdata": mtdata.__version__}


@contextmanager
def _silent_logging() -> Iterator[None]:
    """mtdata logs every error before it raises it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _take_out(dataset: Dataset, where: Path, entry: Entry) -> None:
    """Have mtdata fetch one corpus and write its two sides."""
    try:
        dataset.add_part(where, entry)
    except CheckedCache.DAMAGE as error:
        path = dataset.cache.get_local_path(entry.url, entry.filename, fix_missing=False)
        dataset.cache.discard(path)
        raise UserError(
            f"{entry.url}: damaged archive ({error}): removed; run again to fetch it anew"
        ) from None


def _count_lines(path: Path) -> int:
    with open(path, "rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
