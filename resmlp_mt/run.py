"""One experiment: raw parallel text to subwords, training, averaging, beam search and scores."""

import os
import shutil
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from tqdm import tqdm

from resmlp_mt.checkpoints.averaging import average_checkpoints, last_checkpoints
from resmlp_mt.checkpoints.loading import load_checkpoint
from resmlp_mt.files import ResultsFolder, read_json, write_json
from resmlp_mt.provenance import count_parameters, versions
from resmlp_mt.score.generated import read_generated
from resmlp_mt.score.sacre import score
from resmlp_mt.score.tokenized_bleu import LANGUAGES, tokenized_scores
from resmlp_mt.text.lines import drop_empty, read_lines, read_parallel, write_lines
from resmlp_mt.text.subwords import Subwords, train_subwords
from resmlp_mt.train.log import TrainingBar, read_curve
from resmlp_mt.train.programs import cost_added_to, run_program

STEPS = 5


@dataclass
class Recipe:
    """Everything that an experiment's result depends on, its corpora apart.

    Attributes:
        arch: architecture name.
        source, target: languages.
        vocab_size: joint SentencePiece pieces.
        updates: length of training.
        train_options: the rest of ``fairseq-train``'s command line.
        average: how many of the last epochs' checkpoints to average; 1 takes the last as it is.
        beam: hypotheses of the search.
        lenpen: length penalties to try; the one with the best BLEU on ``valid`` is taken.
        seed: of training.
        threads: CPU threads; None takes PyTorch's default.
        matmul_precision: of training, see :func:`resmlp_mt.compat.training.set_matmul_precision`.
    """

    arch: str
    source: str
    target: str
    vocab_size: int
    updates: int
    train_options: List[str] = field(default_factory=list)
    average: int = 1
    beam: int = 4
    lenpen: List[float] = field(default_factory=lambda: [0.6])
    seed: int = 1
    threads: Optional[int] = None
    matmul_precision: str = "highest"


class Experiment:
    """
    Args:
        root: folder for all results.
        recipe: the options.
        corpora: source and target file by split: ``train``, ``valid`` and any number of test sets.
        data_root: folder for pieces and binary data, to be shared by experiments that differ in
            their training alone; default: *root*. Two processes must not make it at a time.
        spm: a SentencePiece model to use in place of one trained on the training text.

    Raises:
        UserError: if *root* holds another experiment or cannot be written, or a corpus file is
            missing, empty, not UTF-8, or shorter on one side.
    """

    def __init__(
        self,
        root: Path,
        recipe: Recipe,
        corpora: Dict[str, Tuple[Path, Path]],
        data_root: Optional[Path] = None,
        spm: Optional[Path] = None,
    ):
        self.recipe, self.corpora = recipe, corpora
        self.tests = [split for split in corpora if split not in ("train", "valid")]
        # read before anything is written, so that a bad file leaves nothing behind
        self._pairs = {split: read_parallel(*files) for split, files in corpora.items()}
        digests = {
            split: sha256("\n".join(map("\t".join, pairs)).encode()).hexdigest()[:16]
            for split, pairs in self._pairs.items()
        }
        self.spm = spm
        if spm is not None:
            digests["spm"] = sha256(Path(spm).read_bytes()).hexdigest()[:16]
        options = {**asdict(recipe), "corpora": digests}
        if data_root is None:
            self.workdir = self.data = ResultsFolder(root, options, STEPS)
        else:
            data = {name: options[name] for name in ("source", "target", "vocab_size", "corpora")}
            self.data = ResultsFolder(data_root, data, STEPS)
            self.workdir = ResultsFolder(root, options, STEPS)
        self.root = self.workdir.root

    def prepare(self) -> Path:
        """The steps before training; gives the folder of binary data."""
        self.subwords = self.data.step("subwords", "SentencePiece", self._make_subwords)
        self.data_bin = self.data.step("data-bin", "fairseq-preprocess", self._make_data_bin)
        self.workdir.number = self.data.number
        return self.data_bin

    def train(self) -> dict:
        """Prepare and train what is not done yet.

        Returns:
            what training alone gives: the recipe, the validation curve, parameters, cost.
        """
        self.prepare()
        title = f"fairseq-train --arch {self.recipe.arch}"
        self.train_dir = self.workdir.step("train", title, self._train, resumable=True)
        curve = read_curve(self.train_dir / "train.log")["valid"]
        weights = load_checkpoint(self.train_dir / "checkpoint_last.pt")["model"]
        return {
            "recipe": asdict(self.recipe),
            "valid_nll": {"last": curve[-1][1], "best": min(nll for _, nll in curve)},
            "valid_curve": curve,
            "parameters": count_parameters(weights),
            "cost": read_json(self.train_dir / "cost.json"),
            "versions": versions(),
        }

    def run(self) -> dict:
        """Run what is not done yet.

        Returns:
            the result, also in ``root/scores/result.json``.
        """
        self.trained = self.train()
        title = f"fairseq-generate --beam {self.recipe.beam}"
        self.generated = self.workdir.step("generate", title, self._generate)
        self.workdir.step("scores", "sacreBLEU", self._score)
        return read_json(self.root / "scores" / "result.json")

    def _make_subwords(self, folder: Path) -> None:
        pairs = drop_empty(self._pairs["train"])
        dropped = len(self._pairs["train"]) - len(pairs)
        if dropped:
            print(f"    {dropped} training pairs with an empty side left out")
        lines = (side for pair in pairs for side in pair)
        if self.spm is None:
            train_subwords(lines, folder / "spm", self.recipe.vocab_size)
        else:
            shutil.copy(self.spm, folder / "spm.model")
        model = Subwords(folder / "spm.model")
        for split, split_pairs in {**self._pairs, "train": pairs}.items():
            for language, side in zip((self.recipe.source, self.recipe.target), zip(*split_pairs)):
                write_lines(folder / f"{split}.{language}", map(model.encode, side))

    def _make_data_bin(self, folder: Path) -> None:
        run_program(
            "preprocess",
            [
                *("--source-lang", self.recipe.source, "--target-lang", self.recipe.target),
                *("--trainpref", self.subwords / "train", "--validpref", self.subwords / "valid"),
                *("--testpref", ",".join(str(self.subwords / split) for split in self.tests)),
                *("--destdir", folder, "--joined-dictionary", "--workers", 2),
            ],
            folder / "preprocess.log",
        )

    def _train(self, folder: Path) -> None:
        recipe = self.recipe
        options = [
            *(self.data_bin, "--save-dir", folder, "--max-update", recipe.updates),
            *("--log-format", "json", "--log-interval", 20, "--num-workers", 0),
            *("--arch", recipe.arch, "--task", "translation", "--seed", recipe.seed),
            *("--source-lang", recipe.source, "--target-lang", recipe.target),
            *("--keep-last-epochs", max(recipe.average, 1)),
            *recipe.train_options,
        ]
        os.environ["RESMLP_MT_MATMUL_PRECISION"] = recipe.matmul_precision
        with cost_added_to(folder / "cost.json"), TrainingBar(recipe.updates) as bar:
            run_program("train", options, folder / "train.log", bar.show, recipe.threads)

    def _generate(self, folder: Path) -> None:
        model = folder / "model.pt"
        if self.recipe.average > 1:
            paths = last_checkpoints(self.train_dir, self.recipe.average)
        else:
            paths = [self.train_dir / "checkpoint_last.pt"]
        average_checkpoints(paths, model)
        # under this name ResMLPModel.from_pretrained(folder) finds it
        shutil.copy(self.subwords / "spm.model", folder / "sentencepiece.bpe.model")
        on_valid, valid_bleu = {}, {}
        for lenpen in self.recipe.lenpen:
            name = f"valid.lenpen-{lenpen:g}"
            on_valid[lenpen] = self._translate(folder, name, "valid", lenpen)
            valid_bleu[lenpen] = score(on_valid[lenpen], self._references("valid"))["bleu"]
        best = max(valid_bleu, key=valid_bleu.get)
        write_json(folder / "lenpen.json", {"chosen": best, "valid_bleu": valid_bleu})
        write_lines(folder / f"valid.{self.recipe.target}", on_valid[best])
        for split in self.tests:
            hypotheses = self._translate(folder, split, split, best)
            write_lines(folder / f"{split}.{self.recipe.target}", hypotheses)

    def _translate(self, folder: Path, name: str, split: str, lenpen: float) -> List[str]:
        """Translations of a split; fairseq-generate's output goes to ``folder/name.log``."""
        subset = "valid"
        if split != "valid":
            # fairseq calls the first test set "test", the others "test1", "test2" ...
            subset = "test" + (str(self.tests.index(split)) if split != self.tests[0] else "")
        options = ["--path", folder / "model.pt", "--gen-subset", subset]
        options += ["--beam", self.recipe.beam, "--lenpen", lenpen, "--num-workers", 0]
        options += ["--remove-bpe", "sentencepiece", "--max-tokens", 4096]
        log = folder / f"{name}.log"
        with tqdm(total=len(self._pairs[split]), desc=f"    {name}", unit="sentence") as bar:
            run_program(
                "generate",
                [self.data_bin, *options],
                log,
                on_line=lambda line: bar.update(line.startswith("H-")),
                threads=self.recipe.threads,
            )
        return read_generated(log)

    def _references(self, split: str) -> List[str]:
        return [target for _, target in self._pairs[split]]

    def _score(self, folder: Path) -> None:
        scores = {}
        for split in ["valid", *self.tests]:
            hypotheses = read_lines(self.generated / f"{split}.{self.recipe.target}")
            texts = list(hypotheses), self._references(split)
            scores[split] = score(*texts)
            if self.recipe.target in LANGUAGES:
                scores[split].update(tokenized_scores(*texts, self.recipe.target))
        lenpen = read_json(self.generated / "lenpen.json")
        write_json(folder / "result.json", {**self.trained, "lenpen": lenpen, "scores": scores})
