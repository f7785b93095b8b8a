"""The training texts of the study: Multi30k's own, a teacher's translations, longer sentences."""

from pathlib import Path
from typing import Callable, Dict, Tuple

from resmlp_mt.errors import UserError
from resmlp_mt.prepare.concatenation import concatenate
from resmlp_mt.text.lines import language_of
from resmlp_mt.translate.distillation import Targets, distill
from resmlp_mt.translate.search import Search

Files = Tuple[Path, Path]
# whose translations the students learn: of Table 5, English to German, seed 1
TEACHERS = ("table5.en-de.transformer-3.1", "table5.en-de.toeplitz-3.1")


def concatenated(train: Files, out: Path) -> Files:
    """The text and, behind it, half as many pairs made of two to four of its own."""
    return concatenate(*train, out / "text.concatenated" / "train", most=4, share=0.5, seed=1)


def distilled(train: Files, out: Path) -> Files:
    """The text with the translations of an ensemble, :data:`TEACHERS`, as its target side.

    Raises:
        UserError: if a teacher is not trained yet.
    """
    models = [out / teacher / "generate" / "model.pt" for teacher in TEACHERS]
    for teacher, model in zip(TEACHERS, models):
        if not model.exists():
            raise UserError(f"{model}: no such file: first make its row, study.py run {teacher}")
    data = out / "data.en-de"
    search = Search(tuple(models), data / "data-bin", data / "subwords" / "spm.model", cpu=True)
    prefix = out / "text.distilled" / "train"
    distill(search, *train, prefix, Targets())
    return tuple(prefix.with_name(f"train.{language_of(file)}") for file in train)


# by a row's `text`
TEXTS: Dict[str, Callable[[Files, Path], Files]] = {
    "original": lambda train, out: train,
    "distilled": distilled,
    "concatenated": concatenated,
}
