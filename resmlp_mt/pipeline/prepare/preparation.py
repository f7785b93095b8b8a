"""Raw text to fairseq's binary data, in three steps, of which a later run repeats none.

OUT/text holds the clean training text and, for scoring, the held-out sets in NFC but otherwise as
given; OUT/subwords ``spm.model``; OUT/data-bin the binary data, that model without pieces that the
training text does not use, and ``text.json``. ``report.json`` in text and data-bin counts what was
read and what was left out, by reason.
"""

import shutil
import sys
import unicodedata
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from resmlp_mt.model_folder import SUBWORDS, check_name, shared_dictionary
from resmlp_mt.pipeline.prepare.augment import augment
from resmlp_mt.pipeline.prepare.corpora import Cleaner, Corpus, clean, inspect
from resmlp_mt.pipeline.prepare.encoding import Encoder, encode, learn_subwords
from resmlp_mt.pipeline.steps import Steps
from resmlp_mt.text import OptionError, TextSettings
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import as_written, read_json, write_json
from resmlp_mt_runtime.languages import two_letters
from resmlp_mt_runtime.lines import read_lines, sha256_of, write_lines
from resmlp_mt_runtime.model import count_cpus
from resmlp_mt_runtime.pieces import NFC, RULES, Subwords

# SentencePiece's README: 0.9995 for languages with a rich character set like Japanese or Chinese.
# --augment needs bytes for the letters of all scripts.
RICH_SCRIPTS = ("zh", "ja")
RICH_COVERAGE = 0.9995
REPORT = "report.json"


@dataclass(frozen=True)
class PrepareOptions:
    """How text is prepared."""

    source_lang: str
    target_lang: str
    vocab_size: int | None = None  # joint subwords
    default_vocab_size: int = 8000  # without vocab_size; fewer for a small text
    character_coverage: float | None = None  # share of the characters in the vocabulary
    drop_duplicates: bool = False
    skip_invalid: bool = False  # leave out training lines that are not UTF-8
    max_ratio: float | None = None  # of the numbers of pieces of both sides; None: any
    max_pieces: int = 250  # per side
    limit: int | None = None  # pairs read of each training corpus
    augment: bool | None = None  # add training lines of other kinds

    @property
    def coverage(self) -> float:
        if self.character_coverage is not None:
            return self.character_coverage
        codes = map(two_letters, (self.source_lang, self.target_lang))
        rich = self.augment or any(code in RICH_SCRIPTS for code in codes)
        return RICH_COVERAGE if rich else 1.0


@dataclass
class Preparation:
    """From the *corpora* by split to data in *out*."""

    corpora: dict[str, Corpus]
    options: PrepareOptions
    out: Path
    subword_model: Path | None = None  # None: one is trained
    workers: int | None = None  # processes; None: as many as there are cores

    def __post_init__(self):
        check_name(self.out)  # a training reads its data there
        self.processes, model = self.workers or count_cpus(), self.subword_model
        self.languages = (self.options.source_lang, self.options.target_lang)
        self.held_out = [split for split in self.corpora if not split.startswith("train")]
        self.dictionary: Path | None = None
        made = TextSettings.load(self.out / "data-bin")  # the rule of what is made already
        if model is not None:
            Subwords(model)  # refuses what is not a model
            if model.name == SUBWORDS:  # of other data: one translation model is to read both
                made = made or TextSettings.load(model.parent)
                self.dictionary = shared_dictionary(model.parent)
        default = NFC if model is None else None  # other models may normalize by themselves
        self.rule = made.rule if made else default

    @cached_property
    def contents(self) -> dict[str, tuple[int, str]]:
        """The number of pairs and their digest, by split. Refuses files that cannot be read."""
        skip = self.options.skip_invalid
        self.states = self._states()
        return {
            split: inspect(corpus, check_utf8=not skip or split in self.held_out)
            for split, corpus in self.corpora.items()
        }

    def _states(self) -> dict[Path, tuple]:
        """What tells whether a file has been changed since."""
        paths = [path for corpus in self.corpora.values() for path in corpus[1:]]
        stats = {path: path.stat() for path in paths}
        return {path: (s.st_ino, s.st_size, s.st_mtime_ns) for path, s in stats.items()}

    @property
    def identity(self) -> dict:
        """All that the data depend on: the options and the text."""
        files = {"subword_model": self.subword_model, "dictionary": self.dictionary}
        return {
            **asdict(self.options),
            "rule": self.rule,
            **{name: sha256_of(path) for name, path in files.items() if path is not None},
            **{f"text of {split}": digest for split, (_, digest) in self.contents.items()},
        }

    def run(self, indent: str = "") -> None:
        """Run the steps that are not done yet."""
        # before anything is written, so that a bad file leaves nothing behind
        identity = self.identity
        steps = {
            "text": ("clean", self._make_text),
            "subwords": ("learn subwords", self._make_subwords),
            "data-bin": ("encode", self._encode),
        }
        with Steps(self.out, identity, len(steps), indent).locked() as folder:
            try:
                for name, (title, make) in steps.items():
                    folder.step(name, title, make)
            except OptionError:
                # else the folder would refuse other options than those that do not fit
                for name in steps:
                    shutil.rmtree(self.out / name, ignore_errors=True)
                raise

    def summary(self) -> list[str]:
        """In a few lines, what was read, what was left out and why, and what there is."""
        paths = [self.out / name / REPORT for name in ("text", "data-bin")]
        text, data = map(read_json, paths)
        with as_written(paths[0]), as_written(paths[1]):
            lines = [_counted(*each) for each in text["corpora"].items()]
            if added := text.get("augmented"):
                lines.append(f"augmented: {sum(added.values()):,} pairs added: {_numbered(added)}")
            lines.append(f"all: {text['pairs']:,} pairs encoded{_listed(data['dropped'])}")
            for name, (unknown, tokens) in data.get("unknown", {}).items():
                count = f"{unknown:,} of {tokens:,}"
                lines.append(f"note: {name}: {count} tokens are unknown")
            first = {content: name for name, content in reversed(self.contents.items())}
            for name in self.held_out:
                if (same := first[self.contents[name]]) != name:
                    lines.append(f"warning: {name} is the same text as {same}")
            splits = ", ".join(f"{name} {pairs:,}" for name, pairs in data["pairs"].items())
            lines.append(f"{self.out / 'data-bin'}: {splits} pairs, {data['types']:,} types")
        return lines

    def _make_text(self, folder: Path) -> None:
        options, plain = self.options, RULES[self.rule]
        for split in self.held_out:
            corpus = self.corpora[split]
            for language, path in zip(self.languages, (corpus.source, corpus.target)):
                lines = read_lines(path)
                if self.rule == NFC:  # what is translated is NFC, and references are to be, too
                    lines = (unicodedata.normalize("NFC", line) for line in lines)
                write_lines(folder / f"{split}.{language}", lines)
        train = [
            (corpus, min(self.contents[split][0], options.limit or sys.maxsize))
            for split, corpus in self.corpora.items()
            if split not in self.held_out
        ]
        files = [folder / f"train.{language}" for language in self.languages]
        corpora = clean(train, Cleaner(plain, options), self.processes, files)
        for path, state in self._states().items():
            if state != self.states[path]:
                raise UserError(f"{path} changed while being read: run the command again")
        if not (kept := sum(counts["kept"] for counts in corpora.values())):
            counts = "; ".join(_counted(*each) for each in corpora.items())
            raise UserError(f"no training pair is left: {counts}")
        report: dict = {"corpora": corpora, "pairs": kept}
        if options.augment:
            added = augment(files, self.languages, plain, kept)
            report |= {"augmented": added, "pairs": kept + sum(added.values())}
        write_json(folder / REPORT, report)

    def _clean_corpus(self, name: str) -> Corpus:
        return Corpus(name, *(self.out / "text" / f"{name}.{side}" for side in self.languages))

    def _make_subwords(self, folder: Path) -> None:
        if self.subword_model is not None:
            shutil.copyfile(self.subword_model, folder / SUBWORDS)
        else:
            text = read_json(self.out / "text" / REPORT)
            numbers = text["pairs"], sum(text.get("augmented", {}).values())
            learn_subwords(self._clean_corpus("train"), *numbers, folder / "spm", self.options)

    def _encode(self, folder: Path) -> None:
        model = self.out / "subwords" / SUBWORDS
        settings = TextSettings(*self.languages, model, self.rule)
        pairs = read_json(self.out / "text" / REPORT)["pairs"]
        pairs += sum(self.contents[name][0] for name in self.held_out)
        texts = {name: self._clean_corpus(name) for name in ["train", *self.held_out]}
        encoder = Encoder(settings, self.options, self.dictionary)
        write_json(folder / REPORT, encode(texts, pairs, encoder, self.processes, folder))


def _counted(name: str, counts: dict[str, int]) -> str:
    dropped = {k: v for k, v in counts.items() if k not in ("read", "kept")}
    return f"{name}: {counts['read']:,} pairs read{_listed(dropped)}"


def _listed(dropped: dict[str, int]) -> str:
    return f", dropped: {_numbered(dropped)}" if dropped else ", none dropped"


def _numbered(counts: dict[str, int]) -> str:
    """The most frequent first."""
    found = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{number:,} {name}" for name, number in found)
