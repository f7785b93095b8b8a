"""Which models translate and how they search; nothing here loads PyTorch."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import resmlp_mt
from resmlp_mt.model_folder import LENPEN, TEXT, check_name, model_of_run, read_lenpen
from resmlp_mt.text import TextSettings
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.folder import CONFIG, SEARCH_OPTIONS
from resmlp_mt_runtime.lines import sha256_of


@dataclass
class SearchOptions:
    """Checkpoints (several are an ensemble) and their search, by the names of fairseq-generate."""

    paths: tuple[Path, ...]
    data: Path  # dictionaries and, if resmlp-mt prepare made it, how the text is read
    spm: Path | None = None  # SentencePiece model in place of that of the data
    beam: int = 4
    lenpen: float = LENPEN
    nbest: int = 1
    max_len_a: float = 0.0  # a translation has at most A x source + B tokens
    max_len_b: int = 10_000  # by default, and at most, as many as it has positions
    no_repeat_ngram_size: int = 0
    max_tokens: int = 4096  # source tokens per batch, padding included
    fp16: bool = False
    cpu: bool = False
    threads: int | None = None
    user_dir: str | Path | None = None  # code of the user's that registers the model
    text: TextSettings = field(init=False)  # how the text of the data was made

    def __post_init__(self):
        if self.nbest > self.beam:
            raise UserError(f"--nbest {self.nbest}: more than --beam {self.beam}: raise --beam")
        for path in self.paths:
            if not path.is_file():
                raise UserError(f"{path}: no such file: give a checkpoint or a folder of a model")
        check_name(self.data)
        text = TextSettings.load(self.data, self.spm)
        if text is None and self.spm is not None:
            text = TextSettings("", "", self.spm)
        if text is None:
            from resmlp_mt.checkpoints.files import read_checkpoint  # imports PyTorch

            for path in self.paths:
                read_checkpoint(path)  # refuses first what is not a checkpoint
            wrong = f"{self.data} has no {TEXT}, which says how its text was prepared"
            remedy = "give the folder of binary data (--data) or its SentencePiece model (--spm)"
            raise UserError(f"{wrong}: {remedy}")
        self.text = text

    @classmethod
    def beside(cls, path: str, **given) -> "SearchOptions":
        """For ``--path`` *path*: what is None is that beside the first checkpoint, or default."""
        paths = checkpoint_paths(path)
        folder = paths[0].parent
        given = {name: value for name, value in given.items() if value is not None}
        return cls(paths, **{"data": folder, "lenpen": read_lenpen(folder), **given})

    def source(self) -> dict:
        """What translations by these options are made from, beside the text: see ``source_of``."""
        return {
            "model": [sha256_of(path) for path in self.paths],
            "subwords": sha256_of(self.text.subword_model),
            "rule": self.text.rule,
            **{name: getattr(self, name) for name in (*SEARCH_OPTIONS, "nbest", "fp16")},
        }


def checkpoint_paths(given: str) -> tuple[Path, ...]:
    """The checkpoints of ``--path A:B``. A folder is that of a run or of a published model, which
    is downloaded for a name such as ``resmlp_mt.en-de``."""
    names = [given] if os.path.exists(given) else given.split(os.pathsep)
    paths = [_published(name) or Path(name) for name in names]
    for path in paths:
        if (path / CONFIG).is_file():
            raise UserError(f"{path} is an export: give a checkpoint or the folder of a run")
    return tuple(model_of_run(path) / "model.pt" if path.is_dir() else path for path in paths)


def _published(name: str) -> Path | None:
    if not name.startswith("resmlp_mt.") or os.path.exists(name):
        return None
    from resmlp_mt.model.hub import FOLDERS, fetch  # imports PyTorch

    if name not in FOLDERS:
        raise UserError(f"{name}: no such file: the published models are {', '.join(FOLDERS)}")
    return fetch(name)


def published_model() -> str:
    """The folder of the published model, which a clone has beside the package, or its name."""
    folder = Path(resmlp_mt.__file__).parent.parent / "examples" / "mixed" / "model"
    return str(folder) if (folder / "model.pt").is_file() else "resmlp_mt.en-de"
