"""Raw text to the binary data of fairseq, in steps each of which is made once.

::

    OUT/manifest.json   options, and checksums of the text that was given
    OUT/corpora/        the download of a recipe: train-parts/, tests/, dev.*, test1.*
    OUT/text/           train.*: what is trained on; valid.*, test.*, test1.* ... as they were
                        given, for scoring
    OUT/subwords/       spm.model, spm.vocab
    OUT/data-bin/       dict.*.txt, all splits, spm.model and text.json (how the text was made)
    OUT/pieces/         in place of data-bin, if pieces are asked for: text of pieces, dict.txt,
                        spm.model and text.json

Each folder has a ``report.json``: what was read, what was left out and why, and what there is. Of
``text/train.*``, pairs with too many pieces are left out in ``data-bin``.
"""

import os
import shutil
import sys
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Callable, Dict, List, Optional

from tqdm import tqdm

from resmlp_mt.errors import OptionError, UserError
from resmlp_mt.files import ResultsFolder, read_json, write_json
from resmlp_mt.prepare.binary import MAX_VOCAB
from resmlp_mt.prepare.cleaning import clean
from resmlp_mt.prepare.corpora import Contents, Corpora, Corpus, inspect
from resmlp_mt.prepare.encoding import DICTIONARY, encode
from resmlp_mt.prepare.vocabulary import SAMPLE, learn_subwords
from resmlp_mt.processes import usable_cores
from resmlp_mt.provenance import versions
from resmlp_mt.text.dictionaries import joint_dictionary
from resmlp_mt.text.lines import read_lines, sha256_of, write_lines
from resmlp_mt.text.settings import MODEL, TextSettings
from resmlp_mt.text.subwords import Subwords

LIBRARIES = ("fairseq-fixed", "sentencepiece", "sacremoses", "numpy")


class Preparation:
    """
    Args:
        corpora: the text, and its recipe.
        out: folder for all results.
        subword_model: a SentencePiece model to take, in place of one that is trained. Beside
            ``spm.model`` of other data, their joint dictionary is taken too: a translation model
            of these data then reads those.
        limit: pairs read of each training corpus; None reads all.
        seed: of the sample that the subwords are learnt from.
        workers: processes; None: as many as there are cores.
        pieces: write text of pieces for ``fairseq-preprocess``, in place of its binary data.

    Raises:
        UserError: for an option that is out of range, or a model that is not one.
    """

    def __init__(
        self,
        corpora: Corpora,
        out: Path,
        subword_model: Optional[Path] = None,
        limit: Optional[int] = None,
        seed: int = 1,
        workers: Optional[int] = None,
        pieces: bool = False,
    ):
        self.corpora, self.out = corpora, Path(out)
        self.pieces, self.workers = pieces, workers or usable_cores()
        self.last = "pieces" if pieces else "data-bin"
        self.subword_model: Optional[Path] = subword_model
        self.dictionary: Optional[Path] = None
        recipe = corpora.recipe
        self.options = {
            "source_lang": recipe.source_lang,
            "target_lang": recipe.target_lang,
            "limit": limit,
            "normalise": recipe.normalise,
            "drop_duplicates": recipe.drop_duplicates,
            "max_ratio": recipe.max_ratio or None,
            "max_pieces": recipe.max_pieces,
        }
        if subword_model is None:
            self.options.update(
                vocab_size=recipe.vocab_size,
                character_coverage=recipe.coverage,
                sample=SAMPLE,
                seed=seed,
            )
            size, option = self.options["vocab_size"], "--vocab-size"
        else:
            option = f"--subword-model {subword_model}"
            size = Subwords(subword_model).processor.get_piece_size()
            self.options["subword_model"] = sha256_of(subword_model)
            if subword_model.name == MODEL:  # of prepared data
                languages = (recipe.source_lang, recipe.target_lang)
                self.dictionary = joint_dictionary(subword_model.parent, languages)
            if self.dictionary is not None:
                self.options["dictionary"] = sha256_of(self.dictionary)
        if size > MAX_VOCAB:
            raise UserError(f"{option}: {size} pieces: at most {MAX_VOCAB}")
        if not corpora.train:
            self.options["recipe"] = recipe.name

    @cached_property
    def contents(self) -> Dict[str, Contents]:
        """What the files that were given hold, by split; nothing where corpora are downloaded.

        Raises:
            UserError: if a file is missing, damaged, empty or not UTF-8, or sides differ in length.
        """
        tqdm.monitor_interval = 0  # its thread would be forked with the workers
        return inspect(self.corpora, self.workers) if self.corpora.train else {}

    @property
    def identity(self) -> dict:
        """All that the data depend on: the options and the text."""
        digests = {
            f"text of {split}": " ".join(digest[:16] for digest in found.sha256)
            for split, found in self.contents.items()
        }
        return {**self.options, **digests}

    def run(self) -> None:
        """Run the steps that are not done yet.

        Raises:
            UserError: what :attr:`contents` raises; if the folder holds results of other options,
                or another process works in it.
        """
        # before anything is written, so that a bad file leaves nothing behind
        text, contents = self.corpora, self.contents
        with ResultsFolder(self.out, self.identity, steps=3 if text.train else 4) as folder:
            if (self.out / self.last).is_dir():
                self._report(self.last)
                print(f"{self.out} is complete: nothing to do", file=sys.stderr)
                return
            if not text.train:
                title = f"download {text.recipe.name}"
                folder.step("corpora", title, _reporting(self._download), resumable=True)
                text = text.found_in(self.out / "corpora")
                contents = inspect(text, self.workers)
            _note_if_incomplete(text, contents)
            steps = {
                "text": ("clean", lambda path: self._make_text(path, text, contents)),
                "subwords": ("SentencePiece", self._make_subwords),
                self.last: ("encode", lambda path: self._encode(path, contents)),
            }
            try:
                for name, (title, make) in steps.items():
                    folder.step(name, title, _reporting(make))
            except OptionError:
                # what is here already would hold the folder to the options that do not fit
                for name in steps:
                    shutil.rmtree(self.out / name, ignore_errors=True)
                if (self.out / "corpora").is_dir():
                    os.replace(self.out / "corpora", self.out / "corpora.partial")
                raise

    def summary(self) -> List[str]:
        """A few lines on a finished run: what was read, left out and why, and what there is."""
        text, data = self._report("text"), self._report(self.last)
        lines = []
        for name, counts in text["corpora"].items():
            reasons = {k: v for k, v in counts.items() if k not in ("read", "kept")}
            lines.append(f"{name}: {counts['read']:,} pairs read{_listed(reasons)}")
        lines.append(f"all: {text['pairs']:,} pairs encoded{_listed(data['dropped'])}")
        splits = ", ".join(f"{name} {found['pairs']:,}" for name, found in data["splits"].items())
        lines.append(f"{self.out / self.last}: {splits} pairs, {data['types']:,} types")
        return lines

    def commands(self) -> List[List[str]]:
        """Command lines that give the same data by the program of fairseq, as words."""
        options = self.options
        words = ["resmlp-mt", "prepare", *self.corpora.arguments, "--out", str(self.out)]
        for name in ("normalise", "drop_duplicates"):
            words.append(f"--{'' if options[name] else 'no-'}{name.replace('_', '-')}")
        words += ["--max-ratio", str(options["max_ratio"] or 0)]
        if self.subword_model is not None:
            words += ["--subword-model", str(self.subword_model)]
        for name in ("max_pieces", "limit", "vocab_size", "character_coverage", "seed"):
            if options.get(name) is not None:
                words += [f"--{name.replace('_', '-')}", str(options[name])]
        pieces, data_bin = self.out / "pieces", self.out / "data-bin"
        tests = self.corpora.tests
        preprocess = [
            *("fairseq-preprocess", "--source-lang", options["source_lang"]),
            *("--target-lang", options["target_lang"], "--trainpref", str(pieces / "train")),
            *("--validpref", str(pieces / "valid")),
            *(["--testpref", ",".join(str(pieces / name) for name in tests)] if tests else []),
            *("--joined-dictionary", "--srcdict", str(pieces / DICTIONARY)),
            *("--destdir", str(data_bin), "--workers", str(self.workers)),
        ]
        copied = [str(pieces / name) for name in ("spm.model", "text.json")]
        return [[*words, "--pieces"], preprocess, ["cp", *copied, str(data_bin)]]

    def _report(self, step: str) -> dict:
        report = self.out / step / "report.json"
        if not report.is_file():  # data-bin of fairseq-preprocess
            raise UserError(f"{self.out / step} was not made by this command: delete it first")
        return read_json(report)

    def _download(self, folder: Path) -> dict:
        print("    reading the index of mtdata (it is made on first use: 30 s)", file=sys.stderr)
        from resmlp_mt.prepare.download import download

        return download(self.corpora.recipe, folder)

    def _make_text(self, folder: Path, text: Corpora, contents: Dict[str, Contents]) -> dict:
        for split, corpus in text.held_out.items():
            for language, path in zip(text.languages, (corpus.source, corpus.target)):
                write_lines(folder / f"{split}.{language}", read_lines(path))
        limit = self.options["limit"]
        pairs = [contents[split].pairs for split in contents if split not in text.held_out]
        sizes = [min(found, limit or found) for found in pairs]
        corpora = clean(text, sizes, self.options, self.workers, folder)
        kept = sum(counts["kept"] for counts in corpora.values())
        if not kept:
            raise UserError(f"no training pair is left: {corpora}")
        return {"corpora": corpora, "pairs": kept}

    def _split(self, name: str) -> Corpus:
        sides = (self.out / "text" / f"{name}.{language}" for language in self.corpora.languages)
        return Corpus(name, *sides)

    def _make_subwords(self, folder: Path) -> dict:
        if self.subword_model is not None:
            shutil.copyfile(self.subword_model, folder / "spm.model")
            return {}
        pairs, options = self._report("text")["pairs"], self.options
        settings = (options["vocab_size"], options["character_coverage"], options["seed"])
        learn_subwords(self._split("train"), pairs, folder / "spm", *settings)
        return {"sampled_pairs": min(SAMPLE, pairs)}

    def _encode(self, folder: Path, contents: Dict[str, Contents]) -> dict:
        model = self.out / "subwords" / "spm.model"
        settings = TextSettings(*self.corpora.languages, self.options["normalise"], model)
        held_out = [name for name in contents if not name.startswith("train")]
        pairs = self._report("text")["pairs"] + sum(contents[name].pairs for name in held_out)
        splits = {name: self._split(name) for name in ["train", *held_out]}
        limits = (self.options["max_pieces"], self.options["max_ratio"])
        found = encode(
            splits, pairs, settings, limits, self.workers, self.pieces, folder, self.dictionary
        )
        return {**found, "versions": {**versions(), **{name: version(name) for name in LIBRARIES}}}


def _reporting(make: Callable[[Path], dict]) -> Callable[[Path], None]:
    """A step that writes what *make* has found beside what it has made."""
    return lambda folder: write_json(folder / "report.json", make(folder))


def _note_if_incomplete(text: Corpora, contents: Dict[str, Contents]) -> None:
    whole = text.recipe.test_pairs
    for split, corpus in text.held_out.items():
        if split != "valid" and whole not in (None, contents[split].pairs):
            print(
                f"note: {corpus.source} has {contents[split].pairs} lines, the whole test set "
                f"{whole}: scores cannot be compared with those of others",
                file=sys.stderr,
            )


def _listed(dropped: Dict[str, int]) -> str:
    if not dropped:
        return ", none dropped"
    reasons = sorted(dropped.items(), key=lambda item: -item[1])
    return ", dropped: " + ", ".join(f"{number:,} {reason}" for reason, number in reasons)
