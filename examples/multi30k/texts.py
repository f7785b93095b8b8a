"""The training texts of the study: Multi30k's own, a teacher's translations, longer sentences."""

import random
from pathlib import Path
from typing import Callable, Dict, List, Tuple

from resmlp_mt.errors import UserError
from resmlp_mt.pipeline.corpus import read_parallel, write_lines
from resmlp_mt.pipeline.distillation import Targets, distill
from resmlp_mt.pipeline.search import Search

Files = Tuple[Path, Path]
# whose translations the students learn: of Table 5, English to German, seed 1
TEACHERS = ("table5.en-de.transformer-3.1", "table5.en-de.toeplitz-3.1")


def concatenate(
    pairs: List[Tuple[str, str]], most: int, number: int, seed: int
) -> List[Tuple[str, str]]:
    """Longer pairs, each of 2 to *most* pairs drawn at random and joined by a space.

    Args:
        pairs: source and target sentences.
        most: pairs in one, at most.
        number: how many longer pairs.
        seed: of the drawing.
    """
    draw = random.Random(seed)
    joined = []
    for _ in range(number):
        chosen = draw.sample(pairs, draw.randint(2, most))
        joined.append(tuple(" ".join(side) for side in zip(*chosen)))
    return joined


def concatenated(train: Files, out: Path) -> Files:
    """The text and, behind it, half as many pairs made of two to four of its own."""
    pairs = read_parallel(*train)
    longer = concatenate(pairs, most=4, number=len(pairs) // 2, seed=1)
    return _write(out / "text.concatenated", train, [*pairs, *longer])


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
    return tuple(prefix.with_name(f"train.{_language(file)}") for file in train)


# by a row's `text`
TEXTS: Dict[str, Callable[[Files, Path], Files]] = {
    "original": lambda train, out: train,
    "distilled": distilled,
    "concatenated": concatenated,
}


def _language(file: Path) -> str:
    return Path(file.name.removesuffix(".gz")).suffix[1:]


def _write(folder: Path, train: Files, pairs: List[Tuple[str, str]]) -> Files:
    folder.mkdir(parents=True, exist_ok=True)
    files = tuple(folder / f"train.{_language(file)}" for file in train)
    for file, side in zip(files, zip(*pairs)):
        write_lines(file, side)
    return files
