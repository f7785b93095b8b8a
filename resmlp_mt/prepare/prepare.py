"""Raw corpora to fairseq's binary data, in steps each of which is made once.

::

    OUT/manifest.json   options, then counts, checksums, versions and the cost of each step
    OUT/corpora/        the download (not with --from): train-parts/, tests/, dev.*, test1.*
    OUT/text/           train.* normalised, keep.u8 (0 marks a repeated pair), valid.* and test.*
                        as they came, for scoring
    OUT/subwords/       spm.model, spm.vocab
    OUT/data-bin/       dict.*.txt and train, valid, test for fairseq
"""

import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Callable, Optional

from tqdm import tqdm

from resmlp_mt.errors import UserError
from resmlp_mt.files import RESULTS, ResultsFolder, read_json, write_json
from resmlp_mt.prepare.binary import MAX_VOCAB
from resmlp_mt.prepare.cleaning import clean
from resmlp_mt.prepare.encoding import MAX_PIECES, encode
from resmlp_mt.prepare.inputs import Inputs
from resmlp_mt.prepare.recipes import Pair
from resmlp_mt.prepare.reports import digests, since, spent
from resmlp_mt.prepare.space import explained_when_full
from resmlp_mt.prepare.text import read_kept
from resmlp_mt.prepare.vocabulary import CHARACTER_COVERAGE, SAMPLE, SEED, learn_subwords
from resmlp_mt.provenance import versions
from resmlp_mt.text.lines import read_lines, read_parallel, write_lines
from resmlp_mt.text.normalise import Normaliser

LIBRARIES = ("fairseq-fixed", "sentencepiece", "sacremoses", "numpy")


class Preparation:
    """
    Args:
        pair: what to translate.
        out: folder for all results.
        text: folder with text that is already there; None has it downloaded.
        limit: pairs read of each training corpus; None reads all.
        workers: processes.
        vocab_size: joint SentencePiece pieces; None takes the pair's own.

    Raises:
        UserError: if *text* is not what :mod:`resmlp_mt.prepare.layout` describes, *out* holds
            results of other options, or the disk is too small.
    """

    def __init__(
        self,
        pair: Pair,
        out: Path,
        text: Optional[Path] = None,
        limit: Optional[int] = None,
        workers: int = 1,
        vocab_size: Optional[int] = None,
    ):
        self.pair, self.text, self.limit, self.workers = pair, text, limit, workers
        self.vocab_size = vocab_size or pair.vocab_size
        if self.vocab_size > MAX_VOCAB:
            raise UserError(f"--vocab-size {self.vocab_size}: at most {MAX_VOCAB}")
        tqdm.monitor_interval = 0  # its thread would be forked with the rest
        options = {
            "pair": pair.name,
            "limit": limit,
            "vocab_size": self.vocab_size,
            "sample": SAMPLE,
            "character_coverage": CHARACTER_COVERAGE,
            "max_pieces": MAX_PIECES,
            "seed": SEED,
        }
        if text is not None:
            # before anything is written, so that a bad file leaves nothing behind
            self.inputs = Inputs(text, pair, workers)
            self.inputs.check_space(out, limit)
            options.update(corpora="given", **self.inputs.identity())
        else:
            options["corpora"] = f"recipe {pair.recipe}"
        self.workdir = ResultsFolder(out, options, steps=3 if text is not None else 4)
        self.root = self.workdir.root

    def run(self) -> dict:
        """Run the steps that are not done yet.

        Returns:
            the results, which are also in ``manifest.json``.
        """
        results = read_json(self.root / "manifest.json").get(RESULTS)
        if results and (self.root / "data-bin").is_dir():
            print(f"{self.root} is complete: nothing to do")
            return results
        results = {}
        if self.text is None:
            results["corpora"] = self._step(
                "corpora", f"mtdata, {self.pair.recipe}", self._download, resumable=True
            )
            self.inputs = Inputs(self.root / "corpora", self.pair, self.workers)
            self.inputs.check_space(self.root, self.limit)
        results["inputs"] = self.inputs.report()
        results["text"] = self._step("text", "normalise and clean", self._make_text)
        results["subwords"] = self._step("subwords", "SentencePiece", self._make_subwords)
        results["data-bin"] = self._step("data-bin", "encode", self._make_data_bin)
        results["versions"] = {**versions(), **{name: version(name) for name in LIBRARIES}}
        with explained_when_full(self.root):
            self.workdir.record(results)
        return results

    def _step(
        self, name: str, title: str, make: Callable[[Path], dict], resumable: bool = False
    ) -> dict:
        """Make a step unless it is there; gives its report.

        What a failed step has written is removed, unless it can go on from it.
        """

        def run(folder: Path) -> None:
            before = spent()
            report = make(folder)
            write_json(folder / "report.json", {**report, "cost": since(before)})

        try:
            with explained_when_full(self.root):
                folder = self.workdir.step(name, title, run, resumable)
        except BaseException:
            if not resumable:
                shutil.rmtree(self.root / f"{name}.partial", ignore_errors=True)
            raise
        return read_json(folder / "report.json")

    def _download(self, folder: Path) -> dict:
        print("    reading mtdata's index (on first use it is made, in half a minute)", flush=True)
        from resmlp_mt.prepare import download

        recipe = download.load_recipe(self.pair)
        entries = download.resolve(recipe)
        cache = download.CheckedCache(download.mtdata.cache_dir)
        archives = download.archives_of(entries, cache)
        download.check_download_space(self.pair, archives, self.root)
        return download.download(entries, recipe.langs, folder, cache)

    def _make_text(self, folder: Path) -> dict:
        for split, corpus in (("valid", self.inputs.valid), ("test", self.inputs.test)):
            lines = zip(*read_parallel(corpus.source, corpus.target))
            for side, side_lines in zip((self.pair.source, self.pair.target), lines):
                write_lines(folder / f"{split}.{side}", side_lines)
        train, contents = self.inputs.train, self.inputs.contents
        corpora = clean(train, contents, self.pair, self.limit, self.workers, folder)
        kept = sum(counts["kept"] for counts in corpora.values())
        if not kept:
            raise UserError(f"no training pair is left: {corpora}")
        return {"corpora": corpora, "pairs": kept, "sha256": digests(folder)}

    def _make_subwords(self, folder: Path) -> dict:
        pairs = self._report("text")["pairs"]
        try:
            learn_subwords(self.root / "text", self.pair, pairs, folder / "spm", self.vocab_size)
        except UserError as error:
            if "--vocab-size" not in str(error):
                raise
            raise UserError(
                f"{error} (in another folder, or when {self.root} is deleted)"
            ) from None
        return {"sampled_pairs": min(SAMPLE, pairs), "sha256": digests(folder)}

    def _make_data_bin(self, folder: Path) -> dict:
        text = self.root / "text"
        held_out = {
            split: tuple(
                list(map(Normaliser(side), read_lines(text / f"{split}.{side}")))
                for side in (self.pair.source, self.pair.target)
            )
            for split in ("valid", "test")
        }
        train = read_kept(text, self.pair)
        pairs = self._report("text")["pairs"]
        model = self.root / "subwords" / "spm.model"
        found = encode(train, held_out, pairs, model, self.pair, self.workers, folder)
        return {**found, "sha256": digests(folder)}

    def _report(self, step: str) -> dict:
        return read_json(self.root / step / "report.json")
