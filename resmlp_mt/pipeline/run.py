"""From raw text to BLEU: prepare, train, average, translate, score, as one resumable run.

OUT/data is what ``resmlp-mt prepare`` writes, OUT/checkpoints the training run, OUT/model all that
is needed to translate. OUT/translations and OUT/scores.json are the results. The model, the
translations and the scores record what they were made from, and are made again if that changes.
"""

import shutil
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

from resmlp_mt import __version__
from resmlp_mt.checkpoints.averaging import average_checkpoints, last_checkpoints
from resmlp_mt.model_folder import SEARCH, SUBWORDS, TEXT
from resmlp_mt.pipeline.prepare.preparation import Preparation
from resmlp_mt.pipeline.score import LANGUAGES, check_tokenizer, score
from resmlp_mt.pipeline.steps import Steps
from resmlp_mt.pipeline.train.command import TrainingOptions
from resmlp_mt.pipeline.train.training import Training, warn_of_other_code
from resmlp_mt.pipeline.translate.options import SearchOptions
from resmlp_mt.pipeline.translate.translator import Translator
from resmlp_mt_runtime.driver import translate
from resmlp_mt_runtime.errors import UserError, say
from resmlp_mt_runtime.files import read_json, record_source, source_of, write_json
from resmlp_mt_runtime.languages import two_letters
from resmlp_mt_runtime.lines import read_text, sha256_of


@dataclass
class Run:
    """One run in a folder."""

    out: Path
    preparation: Preparation  # makes OUT/data
    training: TrainingOptions
    beam: int
    lenpen: list[float]  # the validation set chooses one

    def __post_init__(self):
        self.recipe = self.training.recipe
        self.data = self.out / "data"
        self.data_bin = self.data / "data-bin"
        self.source_lang, self.target_lang = self.preparation.languages
        # messages name the splits like their files, if these have different names
        corpora = self.preparation.corpora
        self.names = {x: Path(corpora[x].name).name for x in self.preparation.held_out}
        if len(set(self.names.values())) < len(self.names):
            self.names = {split: split for split in self.names}
        self.tests = [split for split in self.preparation.held_out if split != "valid"]
        self.checkpoints, self.model = self.out / "checkpoints", self.out / "model"
        self.translations, self.scores = self.out / "translations", self.out / "scores.json"
        # a missing package or a bad option is an error now, not after hours of preparing
        if self.tests or len(self.lenpen) > 1:
            check_tokenizer(self.target_lang, read_text(corpora["valid"].target))
        if not self.model.exists():
            self._training()

    def run(self) -> dict:
        """Make what is missing or made from something else; returns what OUT/scores.json has."""
        averaged = f"up to {self.recipe.average_count} checkpoints by {self.recipe.average_by}"
        arch, updates = self.training.arch, self.training.max_update
        options, free = self._options(), ("beam", "lenpen")
        with Steps(self.out, options, 5, free=free, grows="max_update").locked() as steps:
            steps.announce("prepare")
            self.preparation.run(indent="    ")
            done = ": already done" if self._is_trained() else ""
            for line in self.preparation.summary():
                say(f"    {line}")
            steps.announce(f"train {arch} for {updates:,} updates{done}")
            if done:
                warn_of_other_code(self.checkpoints, self.training.user_dir)
            else:
                self._training().run()
            steps.step("model", f"average {averaged}", self._average, self._model_source())
            steps.announce("translate")
            self.translations.mkdir(exist_ok=True)
            bleu = self._validate()
            best = max(self.lenpen, key=lambda lenpen: bleu.get(f"{lenpen:g}", 0))
            write_json(self.model / SEARCH, {"lenpen": best})
            for test in self.tests:
                self._translate(test, best, test)
            steps.announce("score")
            self._write_scores(best, bleu)
        return read_json(self.scores)

    def example(self) -> list[tuple[str, str]]:
        """A line of the first test set and its translation, if there are any."""
        if not self.tests:
            return []
        files = self._text(self.tests[0], self.source_lang), self._translation(self.tests[0])
        return [pair for pair in zip(*map(read_text, files)) if all(pair)][:1]

    def _options(self) -> dict:
        """Everything that the results depend on."""
        data = {f"data {name}": value for name, value in self.preparation.identity.items()}
        training = asdict(self.training)
        for name in ("gpus", "cpu", "max_tokens", "threads", "user_dir"):
            del training[name]
        del training["recipe"]["name"]
        return {**training, **data, "beam": self.beam, "lenpen": self.lenpen}

    def _training(self) -> Training:
        languages = self.source_lang, self.target_lang
        return Training(self.data_bin, self.checkpoints, self.training, *languages)

    def _model_source(self) -> dict:
        """What OUT/model is made from. Without the last checkpoint, that of the record counts."""
        last, recorded = self.checkpoints / "checkpoint_last.pt", source_of(self.model) or {}
        digest = sha256_of(last) if last.is_file() else recorded.get("checkpoint")
        average = [self.recipe.average_by, self.recipe.average_count]
        return {"max_update": self.training.max_update, "checkpoint": digest, "average": average}

    def _is_trained(self) -> bool:
        if not self.model.exists():
            return False
        trained = source_of(self.model) == self._model_source()
        if not trained and not (self.checkpoints / "checkpoint_last.pt").is_file():
            wrong = f"{self.checkpoints} has no checkpoint_last.pt to continue from"
            raise UserError(f"{wrong}: choose another --out, or delete {self.model} to train again")
        return trained

    def _average(self, folder: Path) -> None:
        recipe = self.recipe
        paths = last_checkpoints(self.checkpoints, recipe.average_count, recipe.average_by)
        say(f"    {', '.join(path.name for path in paths)}")
        average_checkpoints(paths, folder / "model.pt")
        for name in (*(path.name for path in self.data_bin.glob("dict.*.txt")), TEXT, SUBWORDS):
            shutil.copyfile(self.data_bin / name, folder / name)

    def _validate(self) -> dict[str, float]:
        """BLEU of the validation set by length penalty; ``{}`` where there is no choice."""
        bleu: dict[str, float] = {}
        if len(self.lenpen) == 1:
            return bleu
        for lenpen in self.lenpen:
            lines = self._translate("valid", lenpen, f"valid.lenpen-{lenpen:g}")
            references = read_text(self._text("valid", self.target_lang))
            bleu[f"{lenpen:g}"] = score(lines, references, self.target_lang)["bleu"]
        return bleu

    def _text(self, split: str, language: str) -> Path:
        return self.data / "text" / f"{split}.{language}"

    def _translation(self, name: str) -> Path:
        return self.translations / f"{name}.{self.target_lang}"

    def _translate(self, split: str, lenpen: float, name: str) -> list[str]:
        """Translations of a split; those made from the same model, text and options are kept."""
        output, source = self._translation(name), self._text(split, self.source_lang)
        title = f"    {self.names[split]}"
        say(f"{title}, length penalty {lenpen:g}")
        same = {each: getattr(self.training, each) for each in ("cpu", "threads", "user_dir")}
        paths = (self.model / "model.pt",)
        options = SearchOptions(paths, self.model, beam=self.beam, lenpen=lenpen, **same)
        made_from = {"source": sha256_of(source), **options.source()}
        recorded = {**(source_of(output) or {}), "text": None}  # of this, translate compares it
        load, same = partial(Translator, options), recorded == {**made_from, "text": None}
        translate(load, source, output, resume=same, title=title, made_from=made_from)
        return read_text(output)

    def _write_scores(self, lenpen: float, bleu: dict[str, float]) -> None:
        """Write OUT/scores.json, unless it is of the same model, translations and references."""
        names = {"valid": f"valid.lenpen-{lenpen:g}"} if bleu else {}
        names |= {test: test for test in self.tests}
        files = {  # translations and references by split
            split: (self._translation(name), self._text(split, self.target_lang))
            for split, name in names.items()
        }
        source = {"model": self._model_source(), "lenpen": lenpen}
        source |= {split: [*map(sha256_of, pair)] for split, pair in files.items()}
        if source_of(self.scores) == source:
            return
        chosen = {"chosen": lenpen, "valid_bleu": bleu} if bleu else {"chosen": lenpen}
        tokenized = two_letters(self.target_lang) in LANGUAGES
        scored = partial(score, target_lang=self.target_lang, tokenized=tokenized)
        result = {
            "scores": {split: scored(*map(read_text, pair)) for split, pair in files.items()},
            "lenpen": chosen,
            "versions": {"resmlp_mt": __version__, "torch": torch.__version__},
            "made_with": {"recipe_name": self.recipe.name, **self._options()},
        }
        write_json(self.scores, result)
        record_source(self.scores, source)
