"""Training text with longer lines: pairs joined at random, for models that meet long lines."""

import random
from pathlib import Path
from typing import List, Tuple

from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import language_of, read_parallel, write_lines

Pairs = List[Tuple[str, str]]


def joined(pairs: Pairs, most: int, number: int, seed: int) -> Pairs:
    """Longer pairs, each of 2 to *most* pairs drawn at random and joined by a space.

    Args:
        pairs: source and target sentences.
        most: pairs in one, at most; 2 or more.
        number: how many longer pairs.
        seed: of the drawing.

    Raises:
        UserError: if there are fewer pairs than *most*, or that is below 2.
    """
    if not 2 <= most <= len(pairs):
        raise UserError(f"--most {most}: must be at least 2 and at most the {len(pairs)} pairs")
    draw = random.Random(seed)
    longer = []
    for _ in range(number):
        chosen = draw.sample(pairs, draw.randint(2, most))
        longer.append(tuple(" ".join(side) for side in zip(*chosen)))
    return longer


def concatenate(
    source: Path, target: Path, prefix: Path, most: int = 4, share: float = 0.5, seed: int = 1
) -> Tuple[Path, Path]:
    """Write a text and, behind it, longer pairs made of its own; both are held in memory.

    Args:
        source, target: one sentence a line, plain or ``.gz``, named by language: ``train.en``.
        prefix: folder and first part of the outputs' names, which end in the languages.
        most, seed: as of :func:`joined`.
        share: longer pairs for each pair of the text.

    Returns:
        the two files.

    Raises:
        UserError: what :func:`~resmlp_mt.text.lines.read_parallel` and :func:`joined` raise; a
            file without a language in its name, or that would be written over; a place that cannot
            be written.
    """
    languages = [language_of(file) for file in (source, target)]
    if not all(languages) or languages[0] == languages[1]:
        raise UserError(f"{source} {target}: name them by two languages, such as train.en train.de")
    outputs = tuple(Path(f"{prefix}.{name}") for name in languages)
    for output in outputs:
        if output.resolve() in (Path(source).resolve(), Path(target).resolve()):
            raise UserError(f"{output} is read: choose another --output-prefix")
    pairs = read_parallel(source, target)
    text = [*pairs, *joined(pairs, most, int(share * len(pairs)), seed)]
    try:
        outputs[0].parent.mkdir(parents=True, exist_ok=True)
        for output, side in zip(outputs, zip(*text)):
            write_lines(output, side)
    except OSError as error:
        raise UserError(
            f"{outputs[0].parent}: {error.strerror}: choose a folder that can be written"
        ) from None
    return outputs
