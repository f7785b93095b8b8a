"""The road from raw text to BLEU: prepare, train, average, translate, score, as one resumable run.

::

    OUT/data/            text and binary data, as ``resmlp-mt prepare`` writes them
    OUT/checkpoints/     the training, with train.log
    OUT/model/           the averaged model, its dictionaries and subwords, the length penalty that
                         the validation set chose: all that translates
    OUT/translations/    of the validation set with each length penalty, of the test sets with one
    OUT/scores.json      scores with signatures, and how they were made
"""

import re
import shlex
import shutil
import sys
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from resmlp_mt.checkpoints import average_checkpoints, final_checkpoints, read_checkpoint
from resmlp_mt.decoding.length_penalty import FILE as SEARCH
from resmlp_mt.errors import UserError
from resmlp_mt.files import ResultsFolder, read_json, read_own, write_json
from resmlp_mt.prepare.preparation import Preparation
from resmlp_mt.provenance import count_parameters, versions
from resmlp_mt.score.sacre import score
from resmlp_mt.score.tokenized_bleu import LANGUAGES, tokenized_scores
from resmlp_mt.text.lines import read_text, without_region
from resmlp_mt.text.settings import FILE, MODEL, TextSettings
from resmlp_mt.train.folder import WITHOUT_EFFECT
from resmlp_mt.train.log import read_curve
from resmlp_mt.train.programs import USER_DIR
from resmlp_mt.train.recipe import Recipe, command_line, parse_options
from resmlp_mt.train.training import Training
from resmlp_mt.translate.driver import translate
from resmlp_mt.translate.options import SearchOptions
from resmlp_mt.translate.translator import Translator


@dataclass
class Run:
    """
    Attributes:
        out: folder for all results.
        recipe: how to train, average and search.
        arch: an architecture of fairseq or ours.
        preparation: what makes ``OUT/data``; None with *data*.
        data: a folder that ``resmlp-mt prepare`` has made, in place of *preparation*.
        max_update: length of the training; None: that of the recipe.
        training: further arguments of :class:`~resmlp_mt.train.training.Training`.
        beam: hypotheses of the search; None: that of the recipe.
        lenpen: length penalties, of which the validation set chooses one; None: of the recipe.
        search: further arguments of :class:`~resmlp_mt.translate.options.SearchOptions`.

    Raises:
        UserError: for an unknown architecture, bad options of fairseq, or both or neither of
            *preparation* and *data*.
    """

    out: Path
    recipe: Recipe
    arch: str = "resmlp_mt_6"
    preparation: Optional[Preparation] = None
    data: Optional[Path] = None
    max_update: Optional[int] = None
    training: dict = field(default_factory=dict)
    beam: Optional[int] = None
    lenpen: Optional[List[float]] = None
    search: dict = field(default_factory=dict)

    def __post_init__(self):
        if (self.preparation is None) == (self.data is None):
            raise UserError("give either text to prepare or --data, a folder that is prepared")
        self.out = Path(self.out)
        if self.data is not None and not (Path(self.data) / "data-bin").is_dir():
            raise UserError(
                f"--data {self.data}: has no data-bin: give a folder of resmlp-mt prepare"
            )
        self.data = self.out / "data" if self.data is None else Path(self.data)
        self.beam = self.beam or self.recipe.beam
        self.lenpen = self.lenpen or list(self.recipe.lenpen)
        self.max_update = self.max_update or self.recipe.max_update
        # a finished training needs nothing: the rest may run on a machine without its GPUs
        self._left_to_train: Optional[Training] = None
        results = ("model", "translations", "scores.json")
        self._complete = all((self.out / name).exists() for name in results)
        if not self._complete and not (self.out / "checkpoints").is_dir():
            # its options are refused before hours of preparing
            self._left_to_train = self._training(self.out / "checkpoints.partial", planned=True)

    @property
    def data_bin(self) -> Path:
        """The binary data."""
        return self.data / "data-bin"

    @cached_property
    def settings(self) -> TextSettings:
        """The languages and subwords of the data, which must be there."""
        return TextSettings.load(self.data_bin)

    def run(self) -> dict:
        """Make what is not there yet.

        Returns:
            the result, which is in ``OUT/scores.json`` too.

        Raises:
            UserError: what the steps raise; results of other options in the folder, or another
                process that works in it.
        """
        if self._left_to_train is not None:
            self._left_to_train.check_machine()
        instead = "choose another folder, delete this one, or translate with its model"
        with ResultsFolder(self.out, self._options(), 5, instead) as folder:
            if self.preparation is not None:
                folder.announce("prepare")
                self.preparation.run()
            else:
                folder.announce(f"prepare: {self.data} is prepared")
            title = f"train {self.arch} for {self.max_update:,} updates"
            if self._complete:  # the checkpoints may be gone
                folder.announce(f"{title}: done before")
            else:
                folder.step("checkpoints", title, lambda p: self._training(p).run(), resumable=True)
            folder.step("model", f"average {self._averaged()}", self._average)
            folder.step("translations", "translate", self._translate, resumable=True)
            folder.announce("score")
            chosen = read_json(self.out / "translations" / "lenpen.json")["chosen"]
            write_json(self.out / "model" / SEARCH, {"lenpen": chosen})
            scores = self.out / "scores.json"
            if not scores.exists():  # its versions and commit are those that made the results
                write_json(scores, self._result())
        return read_json(scores)

    def _options(self) -> dict:
        """Everything that the results depend on."""
        if self.preparation is not None:
            data = self.preparation.identity
        else:
            made_with = self.data / "manifest.json"
            if not made_with.exists():
                raise UserError(f"--data {self.data}: was not made by resmlp-mt prepare")
            data = read_json(made_with)
        names = ("seed", "max_tokens", "precision")
        fairseq = parse_options(self.training.get("fairseq_options", []))
        matter = {name: values for name, values in fairseq.items() if name not in WITHOUT_EFFECT}
        return {
            **{f"data {name}": value for name, value in data.items()},
            "arch": self.arch,
            "recipe": self._recipe_name(),
            "max_update": self.max_update,
            "options": self.recipe.options,
            "average": [self.recipe.average_by, self.recipe.average_count],
            "beam": self.beam,
            "lenpen": self.lenpen,
            "tokens": self.training.get("tokens") or self.recipe.tokens,
            **{name: self.training[name] for name in names if name in self.training},
            "fairseq_options": command_line(matter),
        }

    def _recipe_name(self) -> str:
        """The name that the folder was begun with, if that recipe has the same options: a copy
        under another name is the same."""
        manifest = self.out / "manifest.json"
        before = read_own(manifest, "recipe")
        same = before.get("options") == self.recipe.options
        return before["recipe"] if same else Path(self.recipe.name).name

    def _training(self, folder: Path, planned: bool = False) -> Training:
        source, target, _ = self._languages_and_tests()
        return Training(
            self.data_bin,
            folder,
            self.arch,
            self.recipe,
            max_update=self.max_update,
            source_lang=source,
            target_lang=target,
            planned=planned,
            **self.training,
        )

    def _averaged(self) -> str:
        count, by = self.recipe.average_count, self.recipe.average_by
        return "the last checkpoint" if count == 1 else f"the last {count} checkpoints by {by}"

    def _average(self, folder: Path) -> None:
        (self.out / "scores.json").unlink(missing_ok=True)  # of another model
        recipe = self.recipe
        paths = final_checkpoints(self.out / "checkpoints", recipe.average_count, recipe.average_by)
        print(f"    {', '.join(path.name for path in paths)}", file=sys.stderr)
        average_checkpoints(paths, folder / "model.pt")
        for name in (*(path.name for path in self.data_bin.glob("dict.*.txt")), FILE, MODEL):
            shutil.copyfile(self.data_bin / name, folder / name)

    @property
    def tests(self) -> List[str]:
        """Names of the test sets: ``test``, ``test1`` ..."""
        source = self.settings.source_lang
        found = {path.name.partition(".")[0] for path in (self.data / "text").glob(f"*.{source}")}
        names = [name for name in found if re.fullmatch(r"test\d*", name)]
        return sorted(names, key=lambda name: int(name[4:] or 0))

    def _translate(self, folder: Path) -> None:
        (self.out / "scores.json").unlink(missing_ok=True)  # of translations that are gone
        best = self.lenpen[0]
        if len(self.lenpen) > 1:
            bleu = {}
            for lenpen in self.lenpen:
                lines = self._translated(folder, "valid", lenpen, f"valid.lenpen-{lenpen:g}")
                language = self.settings.target_lang
                scores = score(lines, self._references("valid"), language, ("bleu",))
                bleu[f"{lenpen:g}"] = scores["bleu"]
            best = max(self.lenpen, key=lambda lenpen: bleu[f"{lenpen:g}"])
            write_json(folder / "lenpen.json", {"chosen": best, "valid_bleu": bleu})
        else:
            write_json(folder / "lenpen.json", {"chosen": best})
        for test in self.tests:
            self._translated(folder, test, best, test)

    def _translated(self, folder: Path, split: str, lenpen: float, name: str) -> List[str]:
        """Translations of a split; what an earlier call has made stays."""
        settings = self.settings
        output = folder / f"{name}.{settings.target_lang}"
        print(f"    {split}, length penalty {lenpen:g}", file=sys.stderr)
        options = SearchOptions(
            (self.out / "model" / "model.pt",),
            self.out / "model",
            beam=self.beam,
            lenpen=lenpen,
            **self.search,
        )
        source = self.data / "text" / f"{split}.{settings.source_lang}"
        translate(partial(Translator, options), source, output, resume=True)
        return read_text(output)

    def _references(self, split: str) -> List[str]:
        return read_text(self.data / "text" / f"{split}.{self.settings.target_lang}")

    def _score(self, split: str, hypotheses: List[str]) -> Dict[str, object]:
        language, references = self.settings.target_lang, self._references(split)
        scores = score(hypotheses, references, language)
        language = without_region(language)
        if language in LANGUAGES:
            scores.update(tokenized_scores(hypotheses, references, language))
        return scores

    def _result(self) -> dict:
        settings = self.settings
        checkpoints, translations = self.out / "checkpoints", self.out / "translations"
        lenpen = read_json(translations / "lenpen.json")
        scores = {}
        if "valid_bleu" in lenpen:
            name = f"valid.lenpen-{lenpen['chosen']:g}.{settings.target_lang}"
            scores["valid"] = self._score("valid", read_text(translations / name))
        for test in self.tests:
            hypotheses = read_text(translations / f"{test}.{settings.target_lang}")
            scores[test] = self._score(test, hypotheses)
        curve = read_curve(checkpoints / "train.log")["valid"]
        nll = [nll for _, nll in curve]
        weights = read_checkpoint(self.out / "model" / "model.pt")["model"]
        return {
            "recipe": {
                "name": self.recipe.name,
                "arch": self.arch,
                "source": settings.source_lang,
                "target": settings.target_lang,
                "updates": self.max_update,
                "train_options": read_json(checkpoints / "train.json")["settings"],
                "average": self.recipe.average_count,
                "beam": self.beam,
                "lenpen": self.lenpen,
                "seed": self.training.get("seed", 1),
            },
            # none with --disable-validation or another --log-format
            "valid_nll": {"last": nll[-1], "best": min(nll)} if nll else None,
            "valid_curve": curve,
            "parameters": count_parameters(weights),
            "cost": read_json(checkpoints / "cost.json"),
            "versions": versions(),
            "lenpen": lenpen,
            "scores": scores,
        }

    def describe(self) -> str:
        """Commands for a shell that do the same by the programs of fairseq."""
        checkpoints, model = self.out / "checkpoints", self.out / "model"
        translations = self.out / "translations"
        source, target, tests = self._languages_and_tests()
        lines = []
        if self.preparation is not None:
            lines += ["# text, subwords and pieces, then the binary data"]
            lines += map(shlex.join, self.preparation.commands())
        lines += ["# train", self._training(checkpoints, planned=True).describe()]
        lines += ["# average", shlex.join(["mkdir", "-p", str(model), str(translations)])]
        by, count = self.recipe.average_by, self.recipe.average_count
        if count == 1:
            inputs = [str(checkpoints / "checkpoint_last.pt")]
        else:
            inputs = [str(checkpoints), f"--num-{by}-checkpoints", str(count)]
        average = ["resmlp-mt", "average", "--inputs", *inputs]
        lines += [shlex.join([*average, "--output", str(model / "model.pt")])]
        needed = (f"dict.{source}.txt", f"dict.{target}.txt", FILE, MODEL)
        lines += [shlex.join(["cp", *(str(self.data_bin / name) for name in needed), str(model)])]
        if len(self.lenpen) > 1:
            lines += ["# translate and score the validation set with each length penalty"]
            penalties = " ".join(f"{lenpen:g}" for lenpen in self.lenpen)
            commands = self._generate_and_score("valid", source, target)
            lines += [f"for lenpen in {penalties}; do", *(f"    {c}" for c in commands), "done"]
            lines += ["# set lenpen to the one with the highest BLEU"]
        lines += [f"lenpen={self.lenpen[0]:g}"]
        lines += ["# translate and score the test sets. A line of more pieces than the model has"]
        lines += ["# positions is refused by fairseq-generate and cut by resmlp-mt run"]
        for test in tests:
            lines += self._generate_and_score(test, source, target)
        return "\n".join(lines)

    def _languages_and_tests(self) -> Tuple[str, str, List[str]]:
        if self.preparation is None:
            return self.settings.source_lang, self.settings.target_lang, self.tests
        corpora = self.preparation.corpora
        return *corpora.languages, corpora.tests

    def _generate_and_score(self, split: str, source: str, target: str) -> List[str]:
        """Two command lines, for a shell in which ``lenpen`` is set."""
        log = self.out / "translations" / f"{split}.log"
        generate = [
            *("fairseq-generate", str(self.data_bin), "--user-dir", str(USER_DIR)),
            *("-s", source, "-t", target),
            *("--path", str(self.out / "model" / "model.pt"), "--gen-subset", split),
            *("--beam", str(self.beam), "--remove-bpe", "sentencepiece"),
            *(["--cpu"] if self.search.get("cpu") else []),
        ]
        pair = "-".join(language.replace("-", "_") for language in (source, target))
        score = [
            *("resmlp-mt", "score", "-i", str(log), "-l", pair),
            *("--references", str(self.data / "text" / f"{split}.{target}")),
        ]
        return [
            f'{shlex.join(generate)} --lenpen "$lenpen" > {shlex.quote(str(log))}',
            shlex.join(score),
        ]
