"""fairseq-generate with a ResMLP: the alignments that it prints."""

import pytest
from fairseq_programs import generate, hypotheses, lines


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_alignment(trained, corpus, kind):
    """The same for either padding side and any batch; a soft one sums to 1 for each word."""

    def aligned(*options):
        out = generate(trained.data, trained.path, "--print-alignment", kind, *options)
        return out, {
            number: [[float(x) for x in row.replace("-", ",").split(",")] for row in words.split()]
            for number, ((words,),) in lines(out, "A").items()
        }

    out, first = aligned("--batch-size", 64)
    words, sources = hypotheses(out), lines(out, "S")
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
        for number, rows in aligned(*options)[1].items():
            assert sum(rows, []) == pytest.approx(sum(first[number], []), abs=1e-3)
