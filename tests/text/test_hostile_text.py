"""No line of text is lost, shifted or split, whatever is in it; the soak tries thousands more."""

import hostile_lines
import pytest
from hostile_functions import Functions
from hostile_programs import INTERACTIVE, PREPROCESS, Programs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FIXED = [line.encode() for line in hostile_lines.FIXED]
PROGRAMS = [PREPROCESS, INTERACTIVE, "translate", "distill", "score", "prepare"]
SOME = settings(
    max_examples=60,
    database=None,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    return Functions(tmp_path_factory.mktemp("functions"))


@pytest.fixture(scope="module")
def programs(world, tmp_path_factory):
    made = Programs(world, tmp_path_factory.mktemp("programs"))
    assert made.names == tuple(PROGRAMS)
    return made


@SOME
@given(st.data())
def test_reading(functions, data):
    functions.reading(data.draw(hostile_lines.files()))


@SOME
@given(st.data())
def test_subwords(functions, data):
    functions.subwords(data.draw(hostile_lines.lines()))


@SOME
@given(st.data())
def test_cleaning(functions, data):
    functions.cleaning(data.draw(hostile_lines.lines()), data.draw(hostile_lines.lines()))


@SOME
@given(st.data())
def test_scoring(functions, data):
    functions.scoring(data.draw(hostile_lines.texts(5)), data.draw(hostile_lines.texts(5)))


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
