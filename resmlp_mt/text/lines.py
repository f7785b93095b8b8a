"""Text, one sentence per line: what is not needed to translate."""

from collections.abc import Iterable
from pathlib import Path

from resmlp_mt.files import whole_file
from resmlp_mt_runtime.lines import (  # noqa: F401
    MARK,
    STDIN,
    arriving_lines,
    check_same_lines,
    existing,
    name_of,
    read_lines,
    read_raw_lines,
    read_text,
    sha256_of,
    without_region,
)
from resmlp_mt_runtime.pieces import one_line  # noqa: F401


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines atomically: all, or none after an error."""
    with (
        whole_file(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as file,
    ):
        file.writelines(f"{line}\n" for line in lines)
