"""No line of text is lost, shifted or split, whatever is in it; the soak tries thousands more."""

import os
import sys

import hostile_lines
import pytest
from hostile_functions import Functions
from hostile_programs import ATTENTION, INTERACTIVE, PREPROCESS, Programs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resmlp_mt.errors import UserError
from resmlp_mt.score.generated import read_system
from resmlp_mt.text.subwords import MAX_BYTES, Subwords, train_subwords

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
    programs.long_line(b"\xcc\x81w01 " * 15_000)


def test_what_is_not_utf8(programs):
    programs.not_utf8(b"w01 \xed\xa0\x80")


def test_held_out_and_truncated_lines(programs):
    programs.run("prepare", FIXED[:50], held_out=FIXED)
    programs.run("translate", [b"w01", b"w02 " * 20_000, b"\r", b"w03"], truncate=True)


def test_a_sentence_on_the_command_line(programs):
    """It may be what the shell could not decode."""
    programs.run(ATTENTION, [b"w01 </s>\xe2\x80\xa8w02", b"\xe2\x96\x81"])
    programs.refuse(ATTENTION, [b"w01 \xff"], "invalid UTF-8")


@pytest.mark.parametrize(
    "lines, said",
    [
        ([], "no line to learn subwords from (0 that are too long)"),
        (["", " ", "\t"], "no line to learn subwords from"),
        (["w" * MAX_BYTES, "w" * (MAX_BYTES + 1)], "at most"),
        (["w" * (MAX_BYTES + 1), ""], "(1 that are too long)"),
    ],
)
def test_text_that_nothing_is_learnt_from(tmp_path, lines, said):
    with pytest.raises(UserError) as error:
        train_subwords(lines, tmp_path / "spm", 40)
    assert said in str(error.value) and not list(tmp_path.iterdir())


def test_lines_that_nothing_is_learnt_from_are_counted(tmp_path, capsys):
    learnt = [f"w{n % 7:02d} w{n % 5:02d}" for n in range(40)]
    train_subwords(learnt, tmp_path / "spm", 17)
    assert not capsys.readouterr().err
    train_subwords([*learnt, "w01 " * 2000, "", "▅"], tmp_path / "spm", 17)
    assert "without 2 lines" in capsys.readouterr().err


def test_a_place_that_cannot_be_written(tmp_path):
    with pytest.raises(UserError, match=r"none/spm.model could not be written: No such file"):
        train_subwords(["w01 w02"] * 9, tmp_path / "none" / "spm", 8)


def test_names_of_special_symbols_are_text(tmp_path):
    """A model that knows no Latin letter leaves each in one piece."""
    text = [f"{number} слово" for number in range(100, 200)]
    subwords = Subwords(train_subwords(text, tmp_path / "spm", 30))
    assert "</s>" in subwords.processor.encode("</s>", out_type=str)
    assert subwords.encode("</s> 1<pad>") == "▁ < / s > ▁1 < p a d >"


def test_translations_that_look_like_a_log(tmp_path):
    lines = ["D-0\t-0.5\ttext", "H-1\t-0.1\ttext", "S-0", "Translated 4 sentences"]
    (tmp_path / "text").write_text("\n".join(lines) + "\n")
    assert read_system(tmp_path / "text") == lines


def test_no_text_of_python(functions):
    """A lone surrogate is no text; the command line makes one of a byte that is not UTF-8."""
    for wrong in ("\udcff", os.fsdecode(b"w01 \xff")):
        with pytest.raises(UserError, match="invalid UTF-8"):
            functions.models[0].encode(wrong)
    assert sys.getfilesystemencoding() == "utf-8"
