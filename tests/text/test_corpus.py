"""Parallel text: what is read as it stands, and what is refused in one line."""

import gzip

import pytest
from prepare_text import read_parallel

from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import write_lines


def test_gzip_and_windows_line_ends(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress("\ufeffü\r\n\ufeffb\r\n".encode()))
    (tmp_path / "b").write_bytes(b"1\n2")
    assert read_parallel(tmp_path / "a.gz", tmp_path / "b") == [("ü", "1"), ("\ufeffb", "2")]


WHOLE = gzip.compress(b"".join(b"%d some text\n" % i for i in range(500)))


@pytest.mark.parametrize(
    "name, content, said",
    [
        ("none.en", None, "none.en: No such file"),
        ("a.en", b"", "a.en: empty file"),
        ("a.en", b"1\n2\n", "a.en has 2 lines but"),
        ("cut.gz", WHOLE[: len(WHOLE) // 2], "cut.gz: damaged gzip file"),
        ("changed.gz", WHOLE[:-9] + bytes(9), "changed.gz: damaged gzip file"),
        ("none.gz", b"plain text\n", "none.gz: damaged gzip file"),
    ],
)
def test_text_that_is_refused(tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    write_lines(tmp_path / "b.de", "1")
    with pytest.raises(UserError) as error:
        read_parallel(tmp_path / name, tmp_path / "b.de")
    assert said in str(error.value) and "\n" not in str(error.value)
