"""Parallel text: what is read as it stands, and what is refused in one line."""

import gzip
import io

import pytest

from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import one_line, read_lines, read_parallel, read_text, write_lines

ODD = ["one\u2028still one", "a lone\rreturn", "", "  spaces ", "\u0085next", "emoji 🙂"]


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_line_breaks_of_other_kinds_do_not_split(tmp_path):
    write_lines(tmp_path / "a", ODD)
    write_lines(tmp_path / "b", map(str, range(len(ODD))))
    pairs = read_parallel(tmp_path / "a", tmp_path / "b")
    assert [source for source, _ in pairs] == ODD
    assert [target for _, target in pairs] == list(map(str, range(len(ODD))))


def test_gzip_and_windows_line_ends(tmp_path):
    with gzip.open(tmp_path / "a.gz", "wb") as file:
        file.write("ü\r\nb\r\n".encode())
    write(tmp_path / "b", "1\n2")
    assert read_parallel(tmp_path / "a.gz", tmp_path / "b") == [("ü", "1"), ("b", "2")]


def test_a_byte_order_mark_is_no_text(tmp_path, monkeypatch):
    """One file, read as every reader of the package reads it."""
    content = b"\xef\xbb\xbfA dog .\n\xef\xbb\xbfb\n"
    marked, packed = write(tmp_path / "a", content), tmp_path / "a.gz"
    packed.write_bytes(gzip.compress(content))
    plain = write(tmp_path / "b", "1\n2\n")
    expected = ["A dog .", "\ufeffb"]
    for path in (marked, packed):
        assert list(read_lines(path)) == read_text(path) == expected
        assert read_parallel(path, plain) == list(zip(expected, "12"))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert read_text("-") == expected
    assert list(read_lines(write(tmp_path / "c", b"\xef\xbb\xbf"))) == [""]


def test_one_line_has_no_break_of_any_kind():
    assert one_line("a\u2028b\rc\x0bd\x1ce\u0085f\0g") == "a b c d e f g"


WHOLE = gzip.compress(b"".join(b"%d some text\n" % i for i in range(500)))


@pytest.mark.parametrize(
    "name, content, said",
    [
        ("none.en", None, "none.en: No such file"),
        ("a.en", b"", "a.en: empty file"),
        ("a.en", b"1\n2\n", "a.en has 2 lines but"),
        ("a.en", b"fine\nbro\xffken\n", "a.en, line 2: invalid UTF-8 (byte 4"),
        ("cut.gz", WHOLE[: len(WHOLE) // 2], "cut.gz: damaged gzip file"),
        ("changed.gz", WHOLE[:-9] + bytes(9), "changed.gz: damaged gzip file"),
        ("none.gz", b"plain text\n", "none.gz: damaged gzip file"),
    ],
)
def test_text_that_is_refused(tmp_path, name, content, said):
    if content is not None:
        write(tmp_path / name, content)
    with pytest.raises(UserError) as error:
        read_parallel(tmp_path / name, write(tmp_path / "b.de", "1\n"))
    assert said in str(error.value) and "\n" not in str(error.value)
