"""Translations out of what the real fairseq-generate prints, whole and cut off."""

import re

import pytest
from fairseq_programs import generate
from fairseq_programs import lines as lines_of

from resmlp_mt.pipeline.score import read_system
from resmlp_mt_runtime.errors import UserError

NUMBER = 11  # sentences of the test set
MESSAGE = "2026-01-01 00:00:00 | INFO | fairseq_cli.generate | Translated 61 sentences\n"


@pytest.fixture(scope="module")
def log(trained):
    return generate(trained.data, trained.path, "--nbest", 2)


@pytest.fixture
def read(tmp_path):
    """Read a file with this text; gives its translations, or the error."""

    def read(text, sentences=NUMBER):
        (tmp_path / "log").write_text(text, encoding="utf-8")
        try:
            return read_system(tmp_path / "log", sentences)
        except UserError as error:
            return str(error)

    return read


def test_a_log_is_read_whole_or_not_at_all(log, read):
    printed = lines_of(log, "D")
    texts = [printed[number][0][1] for number in range(NUMBER)]
    for end in [*range(log.index("\nP-"), len(log), max(1, len(log) // 200)), len(log)]:
        whole = all(f"\nP-{number}\t" in log[:end] for number in range(NUMBER))
        assert read(log[:end]) == texts if whole else "complete translations" in read(log[:end])
    # a message between the sentences changes nothing
    start = log.index("\nS-") + 1
    assert read(log[:start] + MESSAGE + log[start:] + MESSAGE) == texts
    # a text that reads like a log is a text
    lines = ["D-0\t-0.5\ta", "P-0\t-0.5", "H-0\t-0.5\ta", "H-1\t-0.5\tb", "D-2\t-0.5\tb"]
    long = [f"H-{9**999}\t-0.5\ta", f"D-{9**999}\t-0.5\ta"]
    for text in ([*lines, "Translated 1 sentences"], long, texts):
        assert read("".join(f"{line}\n" for line in text)) == text


def test_a_log_that_lacks_lines_has_other_references_or_subwords_is_refused(log, read):
    for kind in "DP":
        damaged = re.sub(rf"(?m)^{kind}-7\t.*\n", "", log)
        assert f"log: {NUMBER - 1} complete translations for {NUMBER} ref" in read(damaged)
    other = re.sub(r"(?m)^([STHDP])-7\t", r"\1-99\t", log)
    assert f"{NUMBER} complete translations for {NUMBER} ref" in read(other)
    for number in (NUMBER + 1, NUMBER - 1):
        assert f"log: {NUMBER} complete translations for {number} ref" in read(log, number)
    pieces = re.sub(r"(?<=[\t ])(?=[a-z])", "\u2581", log)
    assert "its translations are subwords: run fairseq-generate with --remove-bpe" in read(pieces)


@pytest.mark.parametrize("number", [0, 7])
def test_a_log_with_messages_inside_lines_is_refused(log, read, number):
    """Lines of standard error can cut those of standard output: no part is taken for the whole."""
    line = re.search(rf"\nD-{number}\t[^\n]+\n", log)
    for place in (line.end() - 1, line.end() - 3, line.start() + 3):
        damaged = log[:place] + MESSAGE + log[place:]
        assert "run fairseq-generate again, without 2>&1" in read(damaged)
