"""What a teacher's hypotheses depend on: its checkpoints, its data and how it searches."""

from dataclasses import dataclass
from pathlib import Path
from typing import Tuple

from fairseq.data.data_utils import infer_language_pair
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.translation import TranslationTask

from resmlp_mt.checkpoints.loading import load_checkpoint
from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import sha256_of


@dataclass(frozen=True)
class Search:
    """A teacher and how it searches.

    Attributes:
        checkpoints: one model, or an ensemble, which averages probabilities at each word.
        data: folder of binary data that the models were trained on, for its dictionaries.
        spm: the SentencePiece model of that data.
        beam: hypotheses of the search, all of which are given.
        lenpen: length penalty.
        max_len: longest hypothesis in subwords, the end of sentence not counted; the model's own
            positions limit it too.
        max_tokens: source subwords of a batch, padding included.
        cpu: leave GPUs alone.
    """

    checkpoints: Tuple[Path, ...]
    data: Path
    spm: Path
    beam: int = 4
    lenpen: float = 0.6
    max_len: int = 200
    max_tokens: int = 4096
    cpu: bool = False

    def _common_languages(self) -> Tuple[str, str]:
        """Source and target language."""
        found = [_languages(path, self.data) for path in self.checkpoints]
        for path, languages in zip(self.checkpoints, found):
            if languages != found[0]:
                raise UserError(
                    f"{path} translates {'-'.join(languages)}, but {self.checkpoints[0]} "
                    f"{'-'.join(found[0])}: an ensemble needs models of one language pair"
                )
        return found[0]

    def identity(self) -> dict:
        """What the hypotheses depend on, as JSON values; files by their SHA-256.

        Raises:
            UserError: if a file is not there, a checkpoint is damaged or no translation model's, or
                the checkpoints are of different languages.
        """
        languages = self._common_languages()
        dictionaries = [self.data / f"dict.{language}.txt" for language in languages]
        return {
            "languages": list(languages),
            "teacher": [sha256_of(path) for path in self.checkpoints],
            "dictionaries": [sha256_of(path) for path in dictionaries],
            "spm": sha256_of(self.spm),
            "beam": self.beam,
            "lenpen": self.lenpen,
            "max_len": self.max_len,
        }


def _languages(path: Path, data: Path) -> Tuple[str, str]:
    options = _task_options(load_checkpoint(path))
    task = options.get("_name") or options.get("task")
    if not issubclass(TASK_REGISTRY.get(str(task), object), TranslationTask):
        raise UserError(f"{path} is not a translation model's checkpoint: its task is {task}")
    languages = (options.get("source_lang"), options.get("target_lang"))
    if None not in languages:
        return languages
    # trained without --source-lang and --target-lang: fairseq-train looked at its data
    languages = infer_language_pair(data) if data.is_dir() else (None, None)
    if None in languages:
        raise UserError(f"{data} has no files such as train.en-de.en.idx: give the binary data")
    return tuple(languages)


def _task_options(state: dict) -> dict:
    """Those in a checkpoint; none if it has something else in their place."""
    try:
        # older checkpoints have all options in one namespace
        options = state["cfg"]["task"] if state.get("cfg") else state.get("args")
        return options if isinstance(options, dict) else vars(options)
    except (KeyError, TypeError):
        return {}
