#!/usr/bin/env python3
"""Every picture in the pages, drawn again from the result files: python scripts/pictures.py"""

import sys
from pathlib import Path
from typing import List

ROOT = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(ROOT / folder) for folder in (".", "examples/multi30k", "examples/quickstart")]

import mixed_tables  # noqa: E402
import run as quickstart  # noqa: E402
import speed_pictures  # noqa: E402
from study import draw, result_files  # noqa: E402

from resmlp_mt.cli.terminal import run_main  # noqa: E402


def draw_all(study: Path, speed: Path, demo: Path, mixed: Path) -> List[Path]:
    """Draw into four folders, that of the study, of speed, of the quickstart and of the mixed
    corpus."""
    files = draw.draw(result_files.load(), study)
    files += speed_pictures.draw(speed)
    files += quickstart.draw(quickstart.RESULT, demo)
    return [*files, *mixed_tables.draw(mixed)]


def main() -> None:
    study = ROOT / "examples" / "multi30k" / "study" / "pictures"
    demo = ROOT / "examples" / "quickstart" / "pictures"
    for file in draw_all(study, ROOT / "scripts" / "results", demo, mixed_tables.RESULTS):
        print(file.relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(run_main(main))
