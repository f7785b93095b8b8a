"""Translations out of what the real fairseq-generate prints, whole and cut off."""

import gzip
import os
import re
import shlex
import subprocess

import pytest
from fairseq_programs import PACKAGE, ROOT, console_script
from fairseq_programs import lines as lines_of

from resmlp_mt.errors import UserError
from resmlp_mt.score.generated import read_system

OPTIONS = ("--beam", 4, "--nbest", 2, "--gen-subset", "train", "--max-tokens", 60)
NUMBER = 61  # sentences of the training text


@pytest.fixture(scope="module")
def logs(trained, tmp_path_factory):
    """A folder with ``both`` (what a shell wrote: standard output and error) and ``out`` (without
    the messages), and the translations that are in them."""
    folder = tmp_path_factory.mktemp("logs")
    program = [console_script("generate"), trained.data, "--user-dir", PACKAGE]
    program += ["--path", trained.path, "--cpu", "--num-workers", 0, "--log-interval", 3, *OPTIONS]
    command = f"{shlex.join(map(str, program))} > both 2>&1"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, shell=True, check=True, cwd=folder, env=environment, timeout=300)
    both = (folder / "both").read_text(encoding="utf-8").splitlines(keepends=True)
    assert any("Translated 61 sentences" in line for line in both)
    out = "".join(line for line in both if re.match("[STHDP]-|Generate ", line))
    (folder / "out").write_text(out, encoding="utf-8")
    printed = lines_of((folder / "out").read_text(encoding="utf-8"), "D")
    texts = [printed[number][0][1] for number in sorted(printed)]
    assert len(texts) == NUMBER and sorted(printed) == list(range(NUMBER))
    return folder, texts


@pytest.mark.parametrize("name", ["out", "both"])
def test_best_translations_in_corpus_order(logs, name, tmp_path):
    folder, texts = logs
    zipped = tmp_path / "log.gz"
    zipped.write_bytes(gzip.compress((folder / name).read_bytes()))
    for path in (folder / name, zipped):
        assert read_system(path, NUMBER) == texts


@pytest.mark.parametrize("name", ["out", "both"])
def test_a_log_that_is_cut_off_is_refused(logs, name, tmp_path):
    """At some 200 places, unless all translations are complete."""
    folder, texts = logs
    content = (folder / name).read_text(encoding="utf-8")
    cut, whole = tmp_path / "cut.log", 0
    begin = content.index("\nP-")
    for end in range(begin, len(content), max(1, len(content) // 200)):
        cut.write_text(content[:end], encoding="utf-8")
        if all(f"\nP-{number}\t" in content[:end] for number in range(NUMBER)):
            assert read_system(cut, NUMBER) == texts
            whole += 1
        else:
            with pytest.raises(UserError, match="cut.log: cut off or damaged"):
                read_system(cut, NUMBER)
    assert whole < 20


def test_a_log_of_subwords_is_refused(logs, tmp_path):
    folder, _ = logs
    lines = (folder / "out").read_text(encoding="utf-8").splitlines()
    subwords = [re.sub(r"(?<=[\t ])(?=[a-z])", "\u2581", line) for line in lines]
    (tmp_path / "log").write_text("\n".join(subwords), encoding="utf-8")
    with pytest.raises(UserError, match="log: its translations are subwords: .* --remove-bpe"):
        read_system(tmp_path / "log", NUMBER)


@pytest.mark.parametrize("kind", ["D", "P"])
def test_a_log_that_lacks_a_line_is_refused(logs, kind, tmp_path):
    folder, _ = logs
    lines = (folder / "out").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(f"{kind}-17\t")]
    (tmp_path / "log").write_text("".join(kept), encoding="utf-8")
    for sentences, said in (
        (61, "60 of 61 translations are complete, sentence 17 is missing"),
        (62, "60 of 62 translations are complete, sentence 17 is missing"),
        (17, "log: 60 translations but 17 references"),
    ):
        with pytest.raises(UserError, match=said):
            read_system(tmp_path / "log", sentences)


def test_a_message_in_the_middle_of_a_line(logs, tmp_path):
    """Standard output is written in blocks, whose ends the lines of standard error can divide."""
    folder, texts = logs
    both = (folder / "both").read_text(encoding="utf-8")
    message = re.search(r"[^\n]*Translated 61 sentences[^\n]*\n", both)[0]
    others = both.replace(message, "")
    log = tmp_path / "log"
    for number in (0, 30):
        line = re.search(rf"\nD-{number}\t[^\n]+\n", others)
        for place in (line.end() - 1, line.end() - 3, line.start() + 3):
            log.write_text(others[:place] + message + others[place:], encoding="utf-8")
            assert read_system(log, NUMBER) == texts


def test_a_text_is_no_log(logs, tmp_path):
    """Whatever stands in it."""
    folder, texts = logs
    lines = ["D-0\t-0.5\ta", "P-0\t-0.5", "H-0\t-0.5\ta", "H-1\t-0.5\tb", "D-2\t-0.5\tb"]
    lines.append("Translated 1 sentences")
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert read_system(tmp_path / "text", NUMBER) == lines
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in texts), encoding="utf-8")
    assert read_system(tmp_path / "text", NUMBER) == texts


def test_what_a_sentence_says_is_no_message(logs, tmp_path):
    folder, texts = logs
    log = (folder / "both").read_text(encoding="utf-8")
    first = re.search(r"\n(D-0\t\S+\t)[^\n]*\n", log)
    said = "Translated 3 sentences INFO: done"
    log = log[: first.start()] + f"\n{first[1]}{said}\n" + log[first.end() :]
    (tmp_path / "log").write_text(log, encoding="utf-8")
    assert read_system(tmp_path / "log", NUMBER) == [said, *texts[1:]]
