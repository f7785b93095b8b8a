"""Translations out of what the real fairseq-generate prints, whole and cut off."""

import gzip
import re
import shlex

import pytest
from command import shell
from fairseq_programs import PACKAGE, ROOT
from fairseq_programs import lines as lines_of

from resmlp_mt.errors import UserError
from resmlp_mt.pipeline.score.generated import read_system

OPTIONS = ("--beam", 4, "--nbest", 2, "--gen-subset", "train", "--max-tokens", 60)
NUMBER = 61  # sentences of the training text


@pytest.fixture(scope="module")
def logs(trained, tmp_path_factory):
    """A folder with ``out``, what fairseq-generate printed, and the translations in it."""
    folder = tmp_path_factory.mktemp("logs")
    words = ("fairseq-generate", trained.data, "--user-dir", PACKAGE, "--path", trained.path)
    words += ("--cpu", "--num-workers", 0, *OPTIONS)
    done = shell(f"{shlex.join(map(str, words))} > out", folder, PYTHONPATH=str(ROOT))
    assert done.returncode == 0
    printed = lines_of((folder / "out").read_text(encoding="utf-8"), "D")
    texts = [printed[number][0][1] for number in sorted(printed)]
    assert len(texts) == NUMBER and sorted(printed) == list(range(NUMBER))
    return folder, texts


def test_the_best_translations_of_a_complete_log_are_read(logs, tmp_path):
    """Also in gzip; a log that is cut off is refused, at some 200 places."""
    folder, texts = logs
    content = (folder / "out").read_text(encoding="utf-8")
    zipped, cut, whole = tmp_path / "log.gz", tmp_path / "cut.log", 0
    zipped.write_bytes(gzip.compress(content.encode()))
    assert read_system(folder / "out", NUMBER) == read_system(zipped, NUMBER) == texts
    for end in range(content.index("\nP-"), len(content), max(1, len(content) // 200)):
        cut.write_text(content[:end], encoding="utf-8")
        if all(f"\nP-{number}\t" in content[:end] for number in range(NUMBER)):
            assert read_system(cut, NUMBER) == texts
            whole += 1
        else:
            with pytest.raises(UserError, match="cut.log: cut off or damaged"):
                read_system(cut, NUMBER)
    assert whole < 20


@pytest.mark.parametrize("kind", ["D", "P", "subwords"])
def test_an_incomplete_log_is_refused(logs, kind, tmp_path):
    """One that lacks a line; one of subwords."""
    content = (logs[0] / "out").read_text(encoding="utf-8")
    changed = re.sub(rf"(?m)^{kind}-17\t.*\n", "", content)
    refusals = {
        61: "60 of 61 translations are complete, sentence 17 is missing",
        62: "60 of 62 translations are complete, sentence 17 is missing",
        17: "log: 60 translations but 17 references",
    }
    if kind == "subwords":
        changed = re.sub(r"(?<=[\t ])(?=[a-z])", "\u2581", content)
        refusals = {61: "log: its translations are subwords: .* --remove-bpe"}
    (tmp_path / "log").write_text(changed, encoding="utf-8")
    for sentences, said in refusals.items():
        with pytest.raises(UserError, match=said):
            read_system(tmp_path / "log", sentences)


MESSAGE = "2026-01-01 00:00:00 | INFO | fairseq_cli.generate | Translated 61 sentences\n"


def test_a_log_with_messages_inside_lines_is_refused(logs, tmp_path):
    """Lines of standard error can cut those of standard output: no part is taken for the whole."""
    folder, texts = logs
    content, log = (folder / "out").read_text(encoding="utf-8"), tmp_path / "log"
    for number in (0, 30):
        line = re.search(rf"\nD-{number}\t[^\n]+\n", content)
        for place in (line.end() - 1, line.end() - 3, line.start() + 3):
            log.write_text(content[:place] + MESSAGE + content[place:], encoding="utf-8")
            with pytest.raises(UserError, match="is missing: run fairseq-generate .* without 2>&1"):
                read_system(log, NUMBER)
    # a message between the sentences changes nothing
    start = content.index("\nS-") + 1
    log.write_text(content[:start] + MESSAGE + content[start:] + MESSAGE, encoding="utf-8")
    assert read_system(log, NUMBER) == texts
    # a text that reads like a log is a text
    lines = ["D-0\t-0.5\ta", "P-0\t-0.5", "H-0\t-0.5\ta", "H-1\t-0.5\tb", "D-2\t-0.5\tb"]
    for text in ([*lines, "Translated 1 sentences"], texts):
        log.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
        assert read_system(log, NUMBER) == text
