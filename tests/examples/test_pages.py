"""Every command of the pages that a user follows is run as it stands. Links and numbers hold."""

import re
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest
import tables
from command import shell
from fairseq_programs import ROOT
from prepare_text import write_corpus

from resmlp_mt_runtime.native import load_library

FOLLOWED = ("getting-started", "training", "translating", "deploying", "options", "iwslt14")
FOLLOWED = ["README.md", *(f"docs/{page}.md" for page in FOLLOWED)]
PAGES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in tables.pages()}
BLOCK = re.compile(r"(<!-- not run[^\n]*-->\n)?```(\w+)\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.S)
# a stand-in for each size, so that a page is fast
CUTS = {
    r"--arch resmlp_mt_(?!iwslt)\w+": "--arch resmlp_mt_tiny",
    r"--recipe trial\b": "--recipe small.toml",
    r"--max-update 5000": "--max-update 2 --max-source-positions 64 --max-target-positions 64",
    r"--max-update 500\b": "--max-update 2",
    r"benchmark --arch \S+ \S+": "benchmark --quick --repeats 1",
    r"(--recipe iwslt)( --out .*)": r"\1 --max-update 3\2 -- --encoder-embed-dim 64 "
    "--encoder-layers 1 --decoder-layers 1",
}
SMALL = {r"(max-\w+-positions) = \d+": r"\1 = 64", r"\bmax-update = \d+": "max-update = 3"}
SMALL |= {r"\btokens = \d+": "tokens = 256"}
LINK = re.compile(r"\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")


Step = namedtuple("Step", "page command prints")  # of the page's: "" if it does not say


def steps() -> Iterator[Step]:
    """What the pages say to run: each command of a shell, and each block of Python."""
    for page in FOLLOWED:
        blocks = BLOCK.findall(PAGES[page])
        seen = sum(2 if prints else 1 for *_, prints in blocks)
        assert 2 * seen == PAGES[page].count("```"), f"{page}: a block would not be run"
        for skipped, language, text, prints in blocks:
            text = small(text, CUTS)
            assert language in ("sh", "python", "text"), f"{page}: {language} would not be run"
            if language == "sh" and not skipped:
                for command in re.split(r"(?<!\\)\n", text.strip()):
                    yield Step(page, command, prints)
            elif language == "python" and not skipped:
                yield Step(page, f"python - <<'END'\n{text}END", prints)


def small(text: str, sizes: dict) -> str:
    for pattern, size in sizes.items():
        text = re.sub(pattern, size, text)
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Text as the pages name it, in a folder with a space, where the package can be seen."""
    folder = tmp_path_factory.mktemp("a user")
    write_corpus(folder / "text", ("de", "en"), train=150, valid=4, test=4)
    (folder / "iwslt14.tokenized.de-en").symlink_to("text")
    for name in ("resmlp_mt", "scripts", "examples"):
        (folder / name).symlink_to(ROOT / name)
    trial = (ROOT / "resmlp_mt/pipeline/train/recipes/trial.toml").read_text(encoding="utf-8")
    (folder / "small.toml").write_text(small(trial, SMALL), encoding="utf-8")
    return folder


STEPS: dict = {}
for step in steps():
    STEPS.setdefault(step[1:], step)  # what several pages say is run once


@pytest.mark.parametrize("step", STEPS.values(), ids=lambda step: step.page.rpartition("/")[2])
def test_step(step, folder, programs, trained_here):
    """In order: each uses what those before it made. Forks save imports, but not for the README."""
    begun = step.page == "README.md" and "python" not in step.command
    begun = begun or "resmlp_mt_runtime" in step.command
    if "--exported" in step.command and load_library() is None:
        pytest.skip("the benchmark measures the engine in C++, which is not built")
    done = shell(step.command, folder, first=None if begun else programs)
    assert done.returncode == 0, f"{step.command}\n{done.stdout}\n{done.stderr}"
    noise = "Traceback" if "fairseq-" in step.command else "Traceback|Warning"
    assert not re.search(noise, done.stderr)
    if step.prints:
        assert done.stdout == step.prints


def anchors(page: Path) -> set:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", PAGES[page], flags=re.DOTALL)
    for link in map("".join, LINK.findall(text)):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert target.exists() and target.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES)
def test_numbers_are_those_of_the_results(page):
    text, results = PAGES[page], tables.load()
    assert tables.fill(page, text, results) == text
    assert text.count("<!-- table ") == len(tables.MARK.findall(text)) == text.count("<!-- / -->")
    assert page not in tables.CHECKED or not tables.loose_numbers(page, text)
