"""The corpora of a recipe, by mtdata: archives fetched, text taken out of them.

mtdata knows where a corpus is and how to take its text out of its archive. Its own download
neither resumes nor checks anything, so :class:`CheckedCache` does that part, in place of mtdata's
and into its cache (``$MTDATA``, by default ``~/.mtdata``): what either has fetched, the other
finds. The text goes where ``mtdata get`` puts it (:mod:`resmlp_mt.prepare.corpora`).

Importing mtdata costs seconds (its index; the first time half a minute, to make it), so this
module is imported only when something is to be downloaded, or a recipe is not one of ours.
"""

import bz2
import gzip
import logging
import lzma
import sys
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Set

from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes import logging_as_before
from resmlp_mt.files import lock
from resmlp_mt.prepare import recipes
from resmlp_mt.text.lines import read_raw_lines

try:
    from resmlp_mt.prepare.fetch import fetch

    with logging_as_before():
        import mtdata
        from mtdata.cache import Cache
        from mtdata.data import Dataset
        from mtdata.entry import Entry
        from mtdata.iso.iso639_1 import ISO693_1_to_3
        from mtdata.recipe import RECIPES, Recipe
except ModuleNotFoundError as error:
    raise UserError(
        f"{error.name} is not installed: pip install '.[wmt14]' brings what the download needs"
    ) from None

DAMAGE = (tarfile.TarError, zipfile.BadZipFile, OSError, EOFError, zlib.error, lzma.LZMAError)


class CheckedCache(Cache):
    """The cache of mtdata, with downloads that are resumed and checked.

    Attributes:
        fetched: SHA-256 by URL of what was asked of it.
    """

    def __init__(self, root: Path):
        super().__init__(root)
        self.fetched: Dict[str, str] = {}
        self._checked: Set[Path] = set()

    def download(self, url: str, save_at: Path, timeout=None, entry=None) -> Path:
        """What :class:`Cache` calls for every file of a corpus."""
        complete = self.get_flag_file(save_at)
        if save_at not in self._checked:
            self.fetched[url] = fetch(url, save_at, recipes.known_checksums().get(url))
            try:
                _check_archive(save_at)
            except DAMAGE as error:
                if getattr(error, "errno", None):  # of the disk, not of the archive
                    raise
                for path in (save_at, Path(f"{save_at}.sha256"), complete):
                    path.unlink(missing_ok=True)
                raise UserError(
                    f"{url}: damaged archive ({error}): removed: run again to fetch it anew"
                ) from None
            complete.touch()  # the sign of mtdata
            self._checked.add(save_at)
        return save_at


def _check_archive(path: Path) -> None:
    """Find what mtdata would not: it takes an archive that it cannot unpack for the text itself.

    A damaged tarball may only seem to end early, unless it is read to the end and its sums are
    looked at. What is no archive is text as it is.

    Raises:
        one of :data:`DAMAGE`.
    """
    name = path.name
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        if damaged is not None:
            raise zipfile.BadZipFile(damaged)
        return
    packed = {".gz": gzip.open, ".tgz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    if path.suffix in packed:
        with packed[path.suffix](path) as file:
            while file.read(1 << 20):
                pass
    if name.endswith((".zip", ".tgz", ".tar", ".tar.gz", ".tar.bz2", ".tar.xz")):
        with tarfile.open(path) as archive:
            if path.suffix == ".tar":  # the others have been read to the end
                archive.getmembers()


def find_mtdata_recipe(name: str) -> Optional[recipes.Recipe]:
    """A recipe of the index of mtdata, or of ``mtdata.recipes*.yml`` in ``$MTDATA_RECIPES`` or the
    current folder. None if there is none of that name.

    Raises:
        UserError: if it has no two languages, or no sets to train on, to validate and to test.
    """
    found = RECIPES.get(name)
    if found is None:
        return None
    for split in ("train", "dev", "test"):
        if not getattr(found, split):
            raise UserError(f"--recipe {name} has no {split} set: give text with --trainpref")
    endings = [tag.lang for tag in found.langs]
    if len(endings) != 2 or "mul" in endings:
        raise UserError(f"--recipe {name} is not for two languages: choose another")
    short = {three: two for two, three in ISO693_1_to_3.items()}
    source, target = (short.get(tag, tag) for tag in endings)
    return recipes.Recipe(source, target, name=name, endings=endings, skip_invalid=True)


def load_recipe(recipe: recipes.Recipe) -> Recipe:
    """The same recipe as mtdata has it."""
    ours = Recipe.load(recipes.MTDATA_FILE)
    return ours.get(recipe.name.replace("-", "_")) or RECIPES[recipe.name]


def resolve(recipe: Recipe) -> Dict[str, List[Entry]]:
    """What mtdata knows of the corpora of a recipe: ``train``, ``dev`` and ``test``, in its order.

    Raises:
        UserError: if this version of mtdata does not have one.
    """
    try:
        return {
            split: [Dataset.resolve_entries([name])[0] for name in getattr(recipe, split)]
            for split in ("train", "dev", "test")
        }
    except Exception as error:  # mtdata raises the base class
        raise UserError(f"mtdata {mtdata.__version__}: {str(error).split(';')[0]}") from None


def download(recipe: recipes.Recipe, folder: Path) -> dict:
    """Fetch the corpora and write them into *folder* as ``mtdata get`` does.

    A corpus that is complete there is left as it is. One of another recipe, whose download was
    stopped, is removed.

    Returns:
        for the report: pairs by corpus, checksums by URL.

    Raises:
        UserError: if a file cannot be fetched or read, another process downloads, or the test set
            is not the whole one.
    """
    listed = load_recipe(recipe)
    entries = resolve(listed)
    cache = CheckedCache(mtdata.cache_dir)
    mtdata.pbar_man.enabled = sys.stderr.isatty()
    dataset = Dataset(folder, listed.langs, cache.root)
    dataset.cache = cache
    everything = [(dataset.train_parts_dir, entry) for entry in entries["train"]]
    everything += [(dataset.tests_dir, entry) for entry in entries["dev"] + entries["test"]]
    pairs = {}
    train = [str(entry.did) for entry in entries["train"]]
    for path in Path(dataset.train_parts_dir).glob("*"):
        if not any(name in path.name for name in train):
            path.unlink()
    with lock(cache.root), _silent_logging():  # two processes would append to one file
        for number, (where, entry) in enumerate(everything, 1):
            name = str(entry.did)
            head = f"    [{number}/{len(everything)}] {name}"
            print(f"{head}: {entry.url}", file=sys.stderr)
            dataset.add_part(where, entry)
            pairs[name] = sum(1 for _ in read_raw_lines(dataset.get_paths(where, entry)[0]))
            if entry in entries["test"] and recipe.test_pairs not in (None, pairs[name]):
                raise UserError(
                    f"{name} has {pairs[name]} lines, the whole test set {recipe.test_pairs}: "
                    "report to the authors of mtdata"
                )
            print(f"{head}: {pairs[name]:,} pairs", file=sys.stderr)
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
