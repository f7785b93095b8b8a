"""Plain words in every page, help text and error: a list of what is not written."""

import ast
import re

import pytest
from pages import PAGES, ROOT

from resmlp_mt.cli.main import SUBCOMMANDS, build_parser

NOT_WRITTEN = {
    "a word": r"\b(warned of|wants?|wanted|to be had|goes on|told|sees? to it)\b",
    "a possessive on a thing": r"\w(?<!oday)(?:'s|s')(?= )",
    "a semicolon": r"\w; \w",
}


def found(text):
    """Each thing in *text* that is not written, with some words around it."""
    text = " ".join(text.split())
    return [
        f"{name}: {text[max(0, match.start() - 30) : match.end() + 20]}"
        for name, pattern in NOT_WRITTEN.items()
        for match in re.finditer(pattern, text)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages(page):
    text = page.read_text(encoding="utf-8")
    # neither code nor what was measured is a sentence of ours, nor what is translated
    for other in (r"```.*?```", r"<!-- model sentences -->.*?<!-- /"):
        text = re.sub(other, "", text, flags=re.DOTALL)
    for other in (r"`[^`]*`", r"\]\([^)]*\)", r"(?m)^\|.*(p [<=] ).*$"):
        text = re.sub(other, "", text)
    assert found(text) == []


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_help(name):
    assert found(build_parser(name).format_help()) == []


def test_errors():
    """Every text in the code, what is filled in left out. Of docstrings the words alone."""
    files = sorted(ROOT.glob("resmlp_mt/**/*.py"))
    assert ROOT / "resmlp_mt" / "run.py" in files
    for file in files:
        sentences, docstrings = texts(file)
        for text in sentences:
            assert found(text) == [], file
        assert not any(re.search(NOT_WRITTEN["a word"], text) for text in docstrings), file


def texts(file):
    """The texts of a Python file, and apart from them its docstrings."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    documented = (ast.ClassDef, ast.FunctionDef, ast.Module)
    docstrings = [
        node.body[0].value
        for node in nodes
        if isinstance(node, documented) and ast.get_docstring(node)
    ]
    others = [node for node in nodes if isinstance(node, ast.Constant) and node not in docstrings]
    return [str(node.value) for node in others], [node.value for node in docstrings]


def test_a_word_of_the_list_is_found():
    for text in ("It is warned of.", "The model's A.", "fairseq's own", "Stop; start."):
        assert len(found(text)) == 1, text
    assert found("Today's bugs. It warns.") == found("today's bugs") == []
