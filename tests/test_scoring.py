"""Reading fairseq-generate's output, and scores with signatures."""

import pytest
import sacrebleu

from resmlp_mt.errors import UserError
from resmlp_mt.pipeline.scoring import read_generated, score

HEAD, END = "INFO:loading\n", "INFO:Translated 3 sentences (9 tokens) in 1s\nGenerate test: BLEU\n"


def sentence(number, text, second="other"):
    lines = [f"S-{number}\tsource", f"T-{number}\ttarget", f"H-{number}\t-0.5\tpieces"]
    lines += [f"D-{number}\t-0.5\t{text}", f"P-{number}\t-0.5", f"D-{number}\t-0.9\t{second}"]
    return "\n".join(lines) + "\n"


def test_corpus_order_first_of_n_best_and_empty_translations(tmp_path):
    log = tmp_path / "log"
    log.write_text(HEAD + sentence(2, "two") + sentence(0, "zero D-1\tx") + sentence(1, "") + END)
    assert read_generated(log) == ["zero D-1\tx", "", "two"]


@pytest.mark.parametrize(
    "text, said",
    [
        (HEAD, "no translations"),
        (HEAD + sentence(0, "a") + sentence(2, "b") + END, "sentence 1 is missing"),
        (HEAD + sentence(0, "a") + sentence(1, "b"), "cut off"),
    ],
)
def test_a_log_that_is_not_whole_is_refused(tmp_path, text, said):
    log = tmp_path / "generate.log"
    log.write_text(text)
    with pytest.raises(UserError, match=f"generate.log: .*{said}"):
        read_generated(log)


def test_scores_are_sacrebleus():
    references = ["The cat sat on the mat today .", "A man plays the guitar .", "Yes , no ?"]
    hypotheses = ["The cat sat on a mat today .", "A man plays guitar .", "Yes , no ?"]
    result = score(hypotheses, references)
    assert result["bleu"] == round(sacrebleu.corpus_bleu(hypotheses, [references]).score, 2)
    assert result["chrf"] == round(sacrebleu.corpus_chrf(hypotheses, [references]).score, 2)
    assert "tok:13a" in result["bleu_signature"] and "nc:6" in result["chrf_signature"]
    assert 0 < result["bleu"] < 100 and score(references, references)["bleu"] == 100


def test_different_numbers_of_lines_are_refused():
    with pytest.raises(UserError, match="2 hypotheses but 1 references"):
        score(["a", "b"], ["a"])
