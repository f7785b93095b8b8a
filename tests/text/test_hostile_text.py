"""No line of text is lost, shifted or split, whatever is in it; the soak tries thousands more."""

import hostile_lines
import pytest
from hostile_functions import Functions
from hostile_programs import INTERACTIVE, PREPROCESS, Programs
from hostile_text import by_hypothesis

FIXED = [line.encode() for line in hostile_lines.FIXED]
PROGRAMS = [PREPROCESS, INTERACTIVE, "translate", "score", "prepare"]


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    return Functions(tmp_path_factory.mktemp("functions"))


@pytest.fixture(scope="module")
def programs(world, tmp_path_factory):
    made = Programs(world, tmp_path_factory.mktemp("programs"))
    assert made.names == tuple(PROGRAMS)
    return made


@pytest.mark.parametrize(
    "name, strategies",
    {
        "reading": [hostile_lines.files()],
        "subwords": [hostile_lines.lines()],
        "cleaning": [hostile_lines.lines(), hostile_lines.lines()],
        "scoring": [hostile_lines.texts(5), hostile_lines.texts(5)],
    }.items(),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_functions(functions, name, strategies):
    by_hypothesis(60, getattr(functions, name), *strategies)


def test_fixed_lines(functions):
    for line in hostile_lines.FIXED:
        functions.subwords(line)
        functions.cleaning(line, "w01")
        functions.reading(f"{line}\r\nw01".encode())
    functions.scoring(hostile_lines.FIXED, hostile_lines.FIXED[::-1])


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program(programs, name):
    """Fixed lines, hundreds of empty ones."""
    programs.run(name, [*FIXED, *[b""] * 300])


def test_a_long_line(programs):
    programs.long_line(b"\xcc\x81w01 " * 4_000)


def test_what_is_not_utf8(programs):
    programs.not_utf8(b"w01 \xed\xa0\x80")


def test_held_out_and_truncated_lines(programs):
    programs.run("prepare", FIXED[:50], held_out=FIXED)
    programs.run("translate", [b"w01", b"w02 " * 20_000, b"\r", b"w03"], truncate=True)
