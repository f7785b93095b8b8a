"""Reading fairseq-generate's output, and scores with signatures."""

import json
import subprocess
import sys

import pytest
from score_text import drop_words, generate_log, next_lines, sentences

from resmlp_mt.errors import UserError
from resmlp_mt.score.scoring import read_generated, read_system, score

HEAD, END = "INFO:loading\n", "INFO:Translated 3 sentences (9 tokens) in 1s\nGenerate test: BLEU\n"


def sentence(number, text, second="other"):
    lines = [f"S-{number}\tsource", f"T-{number}\ttarget", f"H-{number}\t-0.5\tpieces"]
    lines += [f"D-{number}\t-0.5\t{text}", f"P-{number}\t-0.5", f"D-{number}\t-0.9\t{second}"]
    return "\n".join(lines) + "\n"


def test_corpus_order_first_of_n_best_and_empty_translations(tmp_path):
    log = tmp_path / "log"
    log.write_text(HEAD + sentence(2, "two") + sentence(0, "zero D-1\tx") + sentence(1, "") + END)
    assert read_generated(log) == ["zero D-1\tx", "", "two"]


def test_logs_of_shards_in_one_file(tmp_path):
    end = "INFO:Translated {} sentences (9 tokens) in 1s\nGenerate test: BLEU\n"
    first = HEAD + sentence(2, "two") + sentence(0, "zero") + end.format(2)
    log = tmp_path / "log"
    log.write_text(first + HEAD + sentence(1, "one") + end.format(1))
    assert read_generated(log) == ["zero", "one", "two"]


def test_a_thousand_sentences(tmp_path):
    texts = sentences(1001)
    (tmp_path / "log").write_text(generate_log(texts), encoding="utf-8")
    assert "Translated 1,001 sentences" in generate_log(texts)
    assert read_generated(tmp_path / "log") == texts


@pytest.mark.parametrize(
    "text, said",
    [
        (HEAD, "no translations"),
        (HEAD + sentence(0, "a") + sentence(2, "b") + END, "sentence 1 is missing"),
        (HEAD + sentence(0, "a") + sentence(1, "b"), "cut off after 2 translations"),
        (
            HEAD + sentence(0, "a") + sentence(1, "b") + END,
            "2 translations, but it says 'Translated 3 sentences'",
        ),
        # what a sentence says is not how a log ends
        (HEAD + sentence(0, "Translated 1 sentences"), "cut off after 1 translations"),
        (sentence(0, "a").replace("source", "Translated 1 sentences"), "cut off after 1 trans"),
    ],
)
def test_a_log_that_is_not_whole_is_refused(tmp_path, text, said):
    log = tmp_path / "generate.log"
    log.write_text(text)
    for read in (read_generated, read_system):
        if read is read_generated or "D-0" in text:
            with pytest.raises(UserError, match=f"generate.log: .*{said}"):
                read(log)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_a_log_cut_off_in_the_middle(tmp_path, share):
    whole = generate_log(sentences(40))
    log = tmp_path / "generate.log"
    log.write_text(whole[: int(share * len(whole))], encoding="utf-8")
    with pytest.raises(UserError, match="generate.log: cut off"):
        read_generated(log)


def test_a_system_is_a_log_or_lines(tmp_path):
    texts = sentences(20)
    (tmp_path / "log").write_text(generate_log(texts), encoding="utf-8")
    (tmp_path / "text").write_text("\n".join(texts) + "\n", encoding="utf-8")
    assert read_system(tmp_path / "log") == read_system(tmp_path / "text") == texts


def test_scores_are_those_of_sacrebleus_command_line(tmp_path):
    references = sentences(60)
    hypotheses = drop_words(references, 2)
    (tmp_path / "ref").write_text("\n".join(references) + "\n", encoding="utf-8")
    (tmp_path / "hyp").write_text("\n".join(hypotheses) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", tmp_path / "ref", "-i", tmp_path / "hyp"]
    command += ["-m", "bleu", "chrf", "-w", "2", "-f", "json"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    bleu, chrf = json.loads(run.stdout)
    result = score(hypotheses, references)
    assert (result["bleu"], result["chrf"]) == (bleu["score"], chrf["score"])
    assert (result["bleu_signature"], result["chrf_signature"]) == (
        bleu["signature"],
        chrf["signature"],
    )
    assert 0 < result["bleu"] < 100


def test_itself_the_next_line_and_a_word_less():
    references = sentences()
    same = score(references, references)
    other = score(next_lines(references), references)
    less = score(drop_words(references), references)
    assert (same["bleu"], same["chrf"]) == (100, 100)
    assert other["bleu"] < 5 and other["chrf"] < 40
    assert 60 < less["bleu"] < 95 and 60 < less["chrf"] < 99


def test_different_numbers_of_lines_or_none_are_refused():
    with pytest.raises(UserError, match="2 hypotheses but 1 references"):
        score(["a", "b"], ["a"])
    with pytest.raises(UserError, match="nothing to score"):
        score([], [])
