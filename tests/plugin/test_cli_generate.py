"""fairseq-generate with a ResMLP: every option of the search, every sentence, any batch."""

import math

import pytest
from fairseq_programs import assert_same_hypotheses, generate, hypotheses, lines
from reference_scores import assert_same_scores, printed_scores


@pytest.fixture(scope="module")
def plain(trained):
    """Output of a plain run with beam 4, all sentences in one batch."""
    return generate(trained.data, trained.path, "--batch-size", 64)


def test_every_sentence_in_any_batch(trained, corpus, plain):
    """11 sentences: all are answered, alike one by one and where the last batch is incomplete."""
    assert sorted(hypotheses(plain)) == list(range(corpus.sizes["test"]))
    for size in (1, 3, 8):
        out = generate(trained.data, trained.path, "--batch-size", size)
        assert_same_hypotheses(hypotheses(plain), hypotheses(out))
    assert len({tuple(found[0][1]) for found in hypotheses(plain).values()}) > 5


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_alignment(trained, corpus, plain, kind):
    """The same for either padding side and any batch; a soft one sums to 1 for each word."""

    def aligned(*options):
        out = generate(trained.data, trained.path, "--print-alignment", kind, *options)
        return {
            number: [[float(x) for x in row.replace("-", ",").split(",")] for row in words.split()]
            for number, ((words,),) in lines(out, "A").items()
        }

    first, words, sources = aligned("--batch-size", 64), hypotheses(plain), lines(plain, "S")
    assert len(first) == corpus.sizes["test"]
    for number, rows in first.items():
        length, width = len(words[number][0][1]), len(sources[number][0][0].split())
        if kind == "hard":
            assert [target for _, target in rows] == list(range(length))
            assert all(0 <= source < width for source, _ in rows)
        else:  # the end of sentence, too
            assert {len(row) for row in rows} == {width + 1} and len(rows) == length + 1
            assert [sum(row) for row in rows] == pytest.approx([1] * (length + 1), abs=0.01)
    # the option turns padding to the left off in fairseq
    for options in (("--batch-size", 64, "--left-pad-source"), ("--batch-size", 1)):
        for number, rows in aligned(*options).items():
            assert sum(rows, []) == pytest.approx(sum(first[number], []), abs=1e-3)


def test_ensemble(trained, trained2, plain):
    """The probabilities of two models are averaged; two copies decode like one."""
    paths = (trained.path, trained2.path, f"{trained.path}:{trained2.path}")
    one, other, both = (
        printed_scores(generate(trained.data, path, "--score-reference")) for path in paths
    )
    mean = {
        number: [math.log2((2**a + 2**b) / 2) for a, b in zip(one[number], other[number])]
        for number in one
    }
    assert_same_scores(both, mean)
    found = [hypotheses(generate(trained.data, path)) for path in paths[1:]]
    assert len(found[1]) == 11 and found[1] != hypotheses(plain) and found[1] != found[0]
    copies = generate(trained.data, f"{trained.path}:{trained.path}", "--batch-size", 64)
    assert_same_hypotheses(hypotheses(copies), hypotheses(plain))
