"""Made-up parallel text of any size, and its binary data."""

import random
from pathlib import Path
from typing import Dict

from cli import call

from resmlp_mt.text.lines import write_lines

WORDS = [f"w{number:02d}" for number in range(60)]


def binary_data(folder: Path, sizes: Dict[str, int], longest: int = 12) -> Path:
    """Pairs of languages xx and yy: each target is its source reversed, the next word for each.

    Args:
        folder: to be made, for the text.
        sizes: pairs by split: ``{"train": 200, "valid": 50}``.
        longest: words of a sentence.

    Returns:
        the folder of binary data.
    """
    folder.mkdir(parents=True)
    draw, after = random.Random(0), dict(zip(WORDS, [*WORDS[1:], WORDS[0]]))
    for split, size in sizes.items():
        sources = [draw.choices(WORDS, k=draw.randint(1, longest)) for _ in range(size)]
        targets = [[after[word] for word in reversed(source)] for source in sources]
        for language, sentences in (("xx", sources), ("yy", targets)):
            write_lines(folder / f"{split}.{language}", map(" ".join, sentences))
    prefixes = [word for split in sizes for word in (f"--{split}pref", folder / split)]
    call(
        *("preprocess", "--source-lang", "xx", "--target-lang", "yy", "--joined-dictionary"),
        *("--destdir", folder / "bin", "--workers", 1, *prefixes),
    )
    return folder / "bin"
