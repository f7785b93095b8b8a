"""The commands in the pages of the project, and a small world to run them in."""

import random
import re
from pathlib import Path
from typing import List, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.md")])
# why a block is not run: a page says so in a comment above it
REASONS = {
    "asks a package registry",
    "downloads",
    "is a test by itself",
    "runs the tests",
    "is for several machines",
    "is what releasing takes",
    "trains for hours",
}
_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^\n]*?) -->\n+)?```(?P<language>\w*)\n(?P<text>.*?)```", re.S
)


def _updates(option) -> str:
    """So few that a page is fast. What stands above 100,000 keeps its order."""
    return f"--{option[1]}-update{option[2]} {int(option[3]) // 100_000 or 6}"


# a stand-in for each size: numbers, and the architecture, whose name is one
_CUTS = [
    (r"--vocab-size \d+", "--vocab-size 120"),
    (r"--arch resmlp_mt_\w+", "--arch resmlp_mt_tiny"),
    (r"--(max|warmup|total-num)-update(s?) (\d+)", _updates),
    (r"_name=resmlp_mt_6", "_name=resmlp_mt_tiny"),
    (r"(optimization\.max_update)=\d+", r"\1=3"),
    (r"--quick\b", "--quick --repeats 1"),
]
_WORDS = ["ein", "Mann", "Frau", "Hund", "Kind", "spielt", "läuft", "sitzt", "im", "Park", "Wald"]


class Block(NamedTuple):
    """One block of code in a page.

    Attributes:
        language: ``sh``, ``python`` or what is not run.
        text: the block.
        reason: why it is not run, if the page says so.
    """

    language: str
    text: str
    reason: str


def blocks(page: Path) -> List[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["language"], found["text"], found["reason"] or "")
        for found in _BLOCK.finditer(text)
    ]


def cut(text: str) -> str:
    """A block with small numbers in the place of sizes."""
    for pattern, small in _CUTS:
        text = re.sub(pattern, small, text)
    return text


def write_text(folder: Path) -> None:
    """``train``, ``valid`` and ``test`` in German and English, as the pages name them."""
    folder.mkdir()
    draw = random.Random(1)
    for split, size in (("train", 120), ("valid", 12), ("test", 10)):
        pairs = [draw.choices(_WORDS, k=draw.randint(3, 9)) for _ in range(size)]
        for language, line in (("de", list), ("en", lambda words: [w[::-1] for w in words])):
            lines = (" ".join(line(words)) + ".\n" for words in pairs)
            (folder / f"{split}.{language}").write_text("".join(lines), encoding="utf-8")
