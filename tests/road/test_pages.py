"""Every command in a page is run as it stands there, by a user who has installed the package."""

import shutil

import pytest
from pages import PAGES, REASONS, ROOT, blocks, cut, write_text

from resmlp_mt.files import read_json

NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


@pytest.fixture(scope="session")
def after_the_readme(installed, tmp_path_factory):
    """A folder in which the README has been followed: ``text/`` and ``run/`` are there."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "examples").symlink_to(ROOT / "examples")
    write_text(folder / "text")
    _follow(ROOT / "README.md", installed, folder)
    return folder


def _follow(page, installed, folder, done_before=()):
    for block in to_run(page):
        if block in done_before:
            continue
        text = cut(block.text)
        command = text if block.language == "sh" else f"python - <<'END'\n{text}END"
        done = installed.shell(command, folder)
        assert done.returncode == 0, f"{page.name}:\n{text}\n{done.stdout}\n{done.stderr}"


def test_readme_ends_with_a_score(after_the_readme):
    result = read_json(after_the_readme / "run" / "scores.json")
    assert set(result["scores"]) == {"valid", "test"}
    bleu = result["lenpen"]["valid_bleu"]  # by length penalty: the best is chosen
    assert len(bleu) > 1 and bleu[f"{result['lenpen']['chosen']:g}"] == max(bleu.values())


def to_run(page):
    """The commands of a page that are run here."""
    return [b for b in blocks(page) if b.language in ("sh", "python") and not b.reason]


@pytest.mark.parametrize("name", [n for n in NAMES if n != "README.md" and to_run(ROOT / n)])
def test_page(name, installed, after_the_readme, tmp_path):
    folder = tmp_path / "here"
    shutil.copytree(after_the_readme, folder, symlinks=True)
    (folder / "scripts").symlink_to(ROOT / "scripts")
    _follow(ROOT / name, installed, folder, done_before=blocks(ROOT / "README.md"))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_run_says_why(name):
    for block in blocks(ROOT / name):
        assert not block.reason or block.reason in REASONS
        assert block.language in ("sh", "python", "text", "bibtex", "toml"), block.text
