"""Made-up parallel text."""

import random
from pathlib import Path

from resmlp_mt_runtime.lines import read_text

SYLLABLES = ["ka", "lo", "mi", "ru", "ste", "für", "dä", "öse", "ner", "tion"]
SYLLABLES += ["ge", "ver", "ou", "é"]


def sentences(count: int, seed: int, suffix: str) -> list[str]:
    """Sentences of 4 to 12 made-up words; the same seed gives sentences of the same lengths."""
    draw, found = random.Random(seed), []
    for _ in range(count):
        lengths = (draw.randint(1, 3) for _ in range(draw.randint(4, 12)))  # in syllables
        words = " ".join("".join(draw.choices(SYLLABLES, k=n)) + suffix for n in lengths)
        found.append(words.capitalize() + draw.choice([".", "?", " ."]))
    return found


def pairs_of(count: int, seed: int) -> list[tuple[str, str]]:
    return list(zip(sentences(count, seed, ""), sentences(count, seed, "en")))


def write_side(path: Path, lines) -> None:
    """Write lines of bytes or text, each with a line break and nothing else added."""
    encoded = [line if isinstance(line, bytes) else line.encode() for line in lines]
    path.write_bytes(b"".join(line + b"\n" for line in encoded))


def write_pairs(folder: Path, name: str, languages: tuple[str, str], pairs) -> Path:
    """Two files; gives their prefix."""
    folder.mkdir(parents=True, exist_ok=True)
    for language, lines in zip(languages, zip(*pairs)):
        write_side(folder / f"{name}.{language}", lines)
    return folder / name


def write_corpus(folder: Path, languages: tuple[str, str], **sizes: int) -> None:
    """Made-up pairs for each split."""
    for seed, (split, size) in enumerate(sizes.items()):
        write_pairs(folder, split, languages, pairs_of(size, seed))


def read_parallel(source, target):
    """All sentence pairs of two files."""
    return list(zip(read_text(source), read_text(target), strict=True))
