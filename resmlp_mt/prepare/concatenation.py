"""Training text with longer lines: pairs joined at random, for models that meet long lines."""

import mmap
import random
from array import array
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Iterator, List, Tuple

from resmlp_mt.errors import UserError
from resmlp_mt.files import make_folder, whole_file
from resmlp_mt.text.lines import check_same_lines, language_of, read_lines


def drawn(pairs: int, most: int, number: int, seed: int) -> Iterator[List[int]]:
    """What longer pairs are made of: numbers of 2 to *most* pairs, drawn at random.

    Args:
        pairs: how many there are, at least *most*.
        most: pairs in one, at most; 2 or more.
        number: how many longer pairs.
        seed: of the drawing.
    """
    draw = random.Random(seed)
    for _ in range(number):
        yield draw.sample(range(pairs), draw.randint(2, most))


def concatenate(
    source: Path, target: Path, prefix: Path, most: int = 4, share: float = 0.5, seed: int = 1
) -> Tuple[Path, Path]:
    """Write a text and, behind it, longer pairs made of its own.

    In memory there are 16 bytes a pair. The lines are read again from what is written.

    Args:
        source, target: one sentence a line, plain or ``.gz``, named by language: ``train.en``.
        prefix: folder and first part of the names of the outputs, which end in the languages.
        most, seed: as of :func:`drawn`.
        share: longer pairs for each pair of the text.

    Returns:
        the two files.

    Raises:
        UserError: what :func:`~resmlp_mt.text.lines.read_lines` raises; sides of different lengths,
            or fewer pairs than *most*; a file without a language in its name, or one that would be
            written over; a place that cannot be written.
    """
    languages = [language_of(file) for file in (source, target)]
    if not all(languages) or languages[0] == languages[1]:
        raise UserError(f"{source} {target}: name them by two languages, such as train.en train.de")
    outputs = tuple(Path(f"{prefix}.{name}") for name in languages)
    for output in outputs:
        if output.resolve() in (Path(source).resolve(), Path(target).resolve()):
            raise UserError(f"{output} is read: choose another --output-prefix")
    pairs, others = (sum(1 for _ in read_lines(path)) for path in (source, target))
    check_same_lines(source, pairs, target, others)
    if not 2 <= most <= pairs:
        raise UserError(f"--most {most}: must be at least 2 and at most the {pairs} pairs")
    make_folder(outputs[0].parent)
    with ExitStack() as stack:
        temporary = [stack.enter_context(whole_file(output)) for output in outputs]
        files = [stack.enter_context(open(path, "w+b")) for path in temporary]
        begins = [_copy(*side) for side in zip((source, target), files)]
        texts = [
            stack.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            for file in files
        ]
        for chosen in drawn(pairs, most, int(share * pairs), seed):
            for text, begin, file in zip(texts, begins, files):
                lines = (text[begin[n] : begin[n + 1] - 1] for n in chosen)
                file.write(b" ".join(lines) + b"\n")
    return outputs


def _copy(path: Path, file: BinaryIO) -> array:
    """Write one side; gives the byte at which each line begins, and the end."""
    begins = array("Q", [0])
    for line in read_lines(path):
        begins.append(begins[-1] + file.write(line.encode() + b"\n"))
    file.flush()
    return begins
