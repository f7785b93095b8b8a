"""Parallel text: what is read as it stands, and what is refused in one line."""

import gzip
import io

import pytest

from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import (
    one_line,
    read_lines,
    read_parallel,
    read_text,
    write_lines,
)

ODD = ["one\u2028still one", "a lone\rreturn", "", "  spaces ", "\u0085next", "emoji 🙂"]


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refused(source, target):
    with pytest.raises(UserError) as error:
        read_parallel(source, target)
    message = str(error.value)
    assert "\n" not in message
    return message


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


def test_missing_file(tmp_path):
    good = write(tmp_path / "b", "1\n")
    assert "none.en" in refused(tmp_path / "none.en", good)


def test_empty_file(tmp_path):
    good, empty = write(tmp_path / "b", "1\n"), write(tmp_path / "empty.en", "")
    assert "empty.en: empty file" in refused(empty, good)


def test_different_lengths_name_both_files_and_numbers(tmp_path):
    a, b = write(tmp_path / "a.en", "1\n2\n"), write(tmp_path / "b.de", "1\n")
    message = refused(a, b)
    assert all(part in message for part in ("a.en has 2 lines", "b.de has 1"))


def test_invalid_utf8_names_the_line(tmp_path):
    a, b = write(tmp_path / "a.en", b"fine\nbro\xffken\n"), write(tmp_path / "b", "1\n2\n")
    assert "a.en, line 2: invalid UTF-8 (byte 4" in refused(a, b)


@pytest.mark.parametrize("damage", ["cut", "changed", "no gzip at all"])
def test_damaged_gzip(tmp_path, damage):
    data = bytearray(gzip.compress(b"".join(b"%d some text\n" % i for i in range(500))))
    if damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "changed":
        data[len(data) // 2] ^= 255
    else:
        data = b"plain text\n"
    a, b = write(tmp_path / "a.gz", bytes(data)), write(tmp_path / "b", "1\n")
    assert "a.gz" in refused(a, b)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    write_lines(tmp_path / "a", ["old"])

    def lines():
        yield "new"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_lines(tmp_path / "a", lines())
    assert (tmp_path / "a").read_text() == "old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_write_that_the_system_refuses(tmp_path):
    """There is nothing to remove then: the error is the system's own."""
    with pytest.raises(FileNotFoundError, match="none/a"):
        write_lines(tmp_path / "none" / "a", ["new"])
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_lines(tmp_path / "folder", ["new"])
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
