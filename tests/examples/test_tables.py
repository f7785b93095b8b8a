"""Every table and number between marks is what the result files say."""

import re

import pytest
import tables

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError

FOUND = tables.texts()
PAGES = {path: path.read_text(encoding="utf-8") for path in tables.pages()}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(tables.ROOT)))
def test_every_mark_is_as_the_results_say(path):
    assert tables.fill(PAGES[path], FOUND) == PAGES[path]


def test_no_line_begins_with_a_mark_and_a_text():
    """A comment at the beginning of a line ends a paragraph, and what follows is not Markdown."""
    for path, text in PAGES.items():
        assert not re.search(r"(?m)^[ >*-]*<!--.*?-->[^\n]*\w", text), path


def test_every_table_stands_in_a_page():
    assert {name for text in PAGES.values() for name in tables.marks(text)} == set(FOUND)


def test_no_table_of_results_is_without_marks():
    """A number with a decimal point in a table is a result, defaults of options apart."""
    for path, text in PAGES.items():
        for name in tables.marks(text):
            text = re.sub(rf"<!-- {name} -->.*?<!-- /{name} -->", "", text, flags=re.DOTALL)
        rows = [line for line in text.splitlines() if re.match(r"\|.*\| \d[\d,]*\.\d+ ", line)]
        assert [row for row in rows if not row.startswith("| `--")] == [], path


def test_check_names_the_file_and_writes_nothing(monkeypatch, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("a <!-- x -->1<!-- /x -->\n<!-- y --><!-- /y -->\nb\n")
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    monkeypatch.setattr(tables, "texts", lambda: {"x": "2", "y": "| 1 |\n| 2 |"})
    monkeypatch.setattr("sys.argv", ["tables.py", "--check"])
    assert run_main(tables.main) == 1 and "page.md: make tables" in capsys.readouterr().err
    assert "1<!-- /x -->" in page.read_text()
    monkeypatch.setattr("sys.argv", ["tables.py"])
    assert run_main(tables.main) == 0
    filled = "a <!-- x -->2<!-- /x -->\n<!-- y -->\n| 1 |\n| 2 |\n<!-- /y -->\nb\n"
    assert page.read_text() == filled
    monkeypatch.setattr(tables, "texts", lambda: {"x": "2", "y": "3", "z": "4"})
    assert run_main(tables.main) == 1 and "marks of z" in capsys.readouterr().err


def test_marks_and_tables_belong_together():
    with pytest.raises(UserError, match="nothing is known of the mark <!-- y -->"):
        tables.fill("<!-- y -->1<!-- /y -->", {})
    with pytest.raises(UserError, match="<!-- /y --> has no <!-- y --> before it"):
        tables.fill("1<!-- /y -->", {"y": "1"})
