"""The road from raw text to BLEU: prepare, train, average, translate, score, as one resumable run.

OUT/data is what ``resmlp-mt prepare`` writes, OUT/checkpoints the training, OUT/model all that
translates. OUT/translations and OUT/scores.json are the results.
"""

import shutil
import sys
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import torch

from resmlp_mt import __version__
from resmlp_mt.checkpoints import average_checkpoints, last_checkpoints, read_checkpoint
from resmlp_mt.files import Steps, make_folder, read_json, write_json
from resmlp_mt.model_folder import SEARCH, SUBWORDS, TEXT
from resmlp_mt.pipeline.prepare.preparation import Preparation
from resmlp_mt.pipeline.score.sacre import score
from resmlp_mt.pipeline.score.tokenized_bleu import LANGUAGES, tokenized_scores
from resmlp_mt.pipeline.train.log import read_curve
from resmlp_mt.pipeline.train.recipe import Recipe
from resmlp_mt.pipeline.train.training import Training
from resmlp_mt.pipeline.translate.driver import translate
from resmlp_mt.pipeline.translate.options import SearchOptions
from resmlp_mt.pipeline.translate.translator import Translator
from resmlp_mt.text.lines import read_text, without_region


@dataclass
class Run:
    """One run in a folder. None for an option takes what the recipe says."""

    out: Path
    recipe: Recipe
    preparation: Preparation  # makes OUT/data
    arch: str = "resmlp_mt_6"
    max_update: int | None = None
    training: dict = field(default_factory=dict)  # further arguments of Training
    beam: int | None = None
    lenpen: list[float] | None = None  # the validation set chooses one
    search: dict = field(default_factory=dict)  # further arguments of SearchOptions

    def __post_init__(self):
        self.out = Path(self.out)
        self.data = self.out / "data"
        self.data_bin = self.data / "data-bin"
        self.source_lang, self.target_lang = self.preparation.languages
        # what messages call the splits: by their files, if these have different names
        self.names = {
            x: Path(self.preparation.corpora[x].name).name for x in self.preparation.held_out
        }
        if len(set(self.names.values())) < len(self.names):
            self.names = {split: split for split in self.names}
        self.tests = [split for split in self.preparation.held_out if split != "valid"]
        self.beam = self.beam or self.recipe.beam
        self.lenpen = self.lenpen or list(self.recipe.lenpen)
        self.max_update = self.max_update or self.recipe.max_update
        self.checkpoints, self.model = self.out / "checkpoints", self.out / "model"
        self.translations, self.scores = self.out / "translations", self.out / "scores.json"
        if not self.model.exists():  # a bad option is refused before hours of preparing
            self._training()

    def run(self) -> dict:
        """Make what is not there yet; gives what is in ``OUT/scores.json``."""
        averaged = f"the last {self.recipe.average_count} checkpoints by {self.recipe.average_by}"
        if self.recipe.average_count == 1:
            averaged = "the last checkpoint"
        with Steps(self.out, self._options(), 5) as steps:
            steps.announce("prepare")
            self.preparation.run(indent="    ")
            done = ": done before" if self.model.exists() else ""
            steps.announce(f"train {self.arch} for {self.max_update:,} updates{done}")
            if not done:
                self._training().run()
            steps.step("model", f"average {averaged}", self._average)
            steps.announce("translate")
            make_folder(self.translations)
            bleu = self._validated()
            best = max(self.lenpen, key=lambda lenpen: bleu.get(f"{lenpen:g}", 0))
            write_json(self.model / SEARCH, {"lenpen": best})
            for test in self.tests:
                self._translated(test, best, test)
            steps.announce("score")
            if not self.scores.exists():
                write_json(self.scores, self._result(best, bleu))
        return read_json(self.scores)

    def _options(self) -> dict:
        """Everything that the results depend on."""
        recipe = {name: value for name, value in asdict(self.recipe).items() if name != "name"}
        training = {**self.training, "tokens": self.training.get("tokens") or self.recipe.tokens}
        words = [word for word in training.get("fairseq_options", []) if word != "--cpu"]
        return {
            **{f"data {name}": value for name, value in self.preparation.identity.items()},
            **{name: training.get(name) for name in ("seed", "precision", "tokens", "max_tokens")},
            "recipe": recipe,
            "fairseq_options": words,
            **{name: getattr(self, name) for name in ("arch", "max_update", "beam", "lenpen")},
        }

    def _training(self) -> Training:
        return Training(
            self.data_bin,
            self.checkpoints,
            self.arch,
            self.recipe,
            max_update=self.max_update,
            source_lang=self.source_lang,
            target_lang=self.target_lang,
            **self.training,
        )

    def _average(self, folder: Path) -> None:
        self.scores.unlink(missing_ok=True)  # of another model
        recipe = self.recipe
        paths = last_checkpoints(self.checkpoints, recipe.average_count, recipe.average_by)
        print(f"    {', '.join(path.name for path in paths)}", file=sys.stderr)
        average_checkpoints(paths, folder / "model.pt")
        for name in (*(path.name for path in self.data_bin.glob("dict.*.txt")), TEXT, SUBWORDS):
            shutil.copyfile(self.data_bin / name, folder / name)

    def _validated(self) -> dict[str, float]:
        """BLEU of the validation set by length penalty; nothing where there is no choice."""
        bleu = {}
        for lenpen in self.lenpen if len(self.lenpen) > 1 else ():
            lines = self._translated("valid", lenpen, f"valid.lenpen-{lenpen:g}")
            references = self._references("valid")
            bleu[f"{lenpen:g}"] = score(lines, references, self.target_lang, ("bleu",))["bleu"]
        return bleu

    def _translated(self, split: str, lenpen: float, name: str) -> list[str]:
        """Translations of a split; what an earlier call has made stays."""
        output = self.translations / f"{name}.{self.target_lang}"
        if not output.exists():
            self.scores.unlink(missing_ok=True)
        title = f"    {self.names[split]}"
        print(f"{title}, length penalty {lenpen:g}", file=sys.stderr)
        paths = (self.model / "model.pt",)
        options = SearchOptions(paths, self.model, beam=self.beam, lenpen=lenpen, **self.search)
        source = self.data / "text" / f"{split}.{self.source_lang}"
        translate(partial(Translator, options), source, output, resume=True, title=title)
        return read_text(output)

    def _references(self, split: str) -> list[str]:
        return read_text(self.data / "text" / f"{split}.{self.target_lang}")

    def _score(self, split: str, name: str) -> dict[str, object]:
        language, references = self.target_lang, self._references(split)
        hypotheses = read_text(self.translations / f"{name}.{language}")
        scores = score(hypotheses, references, language)
        language = without_region(language)
        if language in LANGUAGES:
            scores.update(tokenized_scores(hypotheses, references, language))
        return scores

    def _result(self, lenpen: float, bleu: dict[str, float]) -> dict:
        scores = {"valid": self._score("valid", f"valid.lenpen-{lenpen:g}")} if bleu else {}
        scores.update((test, self._score(test, test)) for test in self.tests)
        curve = read_curve(self.checkpoints / "train.log")["valid"]
        nll = [nll for _, nll in curve]
        weights = read_checkpoint(self.model / "model.pt")["model"]
        # a matrix that is shared counts once
        sizes = {w.data_ptr(): w.numel() for name, w in weights.items() if name[-7:] != "version"}
        return {
            "made_with": {"recipe_name": self.recipe.name, **self._options()},
            "train_options": read_json(self.checkpoints / "train.json")["settings"],
            # none with --disable-validation or another --log-format
            "valid_nll": {"last": nll[-1], "best": min(nll)} if nll else None,
            "valid_curve": curve,
            "parameters": sum(sizes.values()),
            "cost": read_json(self.checkpoints / "cost.json"),
            "versions": {"resmlp_mt": __version__, "torch": torch.__version__},
            "lenpen": {"chosen": lenpen, **({"valid_bleu": bleu} if bleu else {})},
            "scores": scores,
        }
