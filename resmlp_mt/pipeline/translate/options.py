"""Which models translate and how they search; nothing here loads PyTorch."""

import os
from dataclasses import dataclass
from pathlib import Path

from resmlp_mt.errors import UserError
from resmlp_mt.model_folder import LENPEN, TEXT, TextSettings


@dataclass(frozen=True)
class SearchOptions:
    """Checkpoints (several are an ensemble) and their search, by the names of fairseq-generate.

    A translation has at most A x source + B subwords, and no more than the model has positions.
    """

    paths: tuple[Path, ...]
    data: Path  # dictionaries and, if resmlp-mt prepare made it, how the text is read
    spm: Path | None = None  # SentencePiece model in place of that of the data
    beam: int = 4
    lenpen: float = LENPEN
    nbest: int = 1
    max_len_a: float = 0.0
    max_len_b: int = 200
    no_repeat_ngram_size: int = 0
    max_tokens: int = 4096  # source subwords of a batch, padding included
    fp16: bool = False
    cpu: bool = False
    threads: int | None = None

    def __post_init__(self):
        for name in ("max_len_a", "no_repeat_ngram_size"):
            if getattr(self, name) < 0:
                option = name.replace("_", "-")
                raise UserError(f"--{option} {getattr(self, name)}: must be at least 0")
        if self.max_len_a > 1000:
            raise UserError(f"--max-len-a {self.max_len_a:g}: must be at most 1000")
        if self.nbest > self.beam:
            raise UserError(
                f"--nbest {self.nbest}: a search with --beam {self.beam} has no more: raise --beam"
            )

    def text_settings(self) -> TextSettings:
        """How the text of the data was made, once all files are known to be there."""
        for path in self.paths:
            if not path.is_file():
                raise UserError(f"{path}: no such file: give a checkpoint or a folder of a model")
        settings = TextSettings.load(self.data, self.spm)
        if settings is None and self.spm is not None:
            settings = TextSettings("", "", False, self.spm)
        if settings is None:
            raise UserError(
                f"{self.data} has no {TEXT}, which says how its text was made: give the folder of "
                "the binary data with --data, or its SentencePiece model with --spm"
            )
        if not settings.subword_model.is_file():
            raise UserError(f"{settings.subword_model}: no such file: give a SentencePiece model")
        if not any(self.data.glob("dict.*.txt")):
            raise UserError(
                f"{self.data} has no dictionaries such as dict.en.txt: give the folder of the "
                "binary data with --data"
            )
        return settings


def checkpoint_paths(given: str) -> tuple[Path, ...]:
    """The checkpoints of ``--path A:B``. A folder is that of a run or of a published model."""
    paths = map(Path, [given] if os.path.exists(given) else given.split(os.pathsep))
    paths = (path / "model" if (path / "model/model.pt").is_file() else path for path in paths)
    return tuple(path / "model.pt" if path.is_dir() else path for path in paths)


def published_model() -> str:
    """The folder of the published model, which a clone has beside the package."""
    folder = Path(__file__).resolve().parents[3] / "examples" / "mixed" / "model"
    if not (folder / "model.pt").is_file():
        raise UserError(
            "no model is given, and only a clone of the repository has the published one: give a "
            "checkpoint, or the folder of a model"
        )
    return str(folder)
