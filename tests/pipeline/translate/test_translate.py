"""resmlp-mt translate: the translations of fairseq, a line for a line, in order, and resumed."""

import io
import math
import os
import shutil
from collections import ChainMap
from contextlib import redirect_stderr
from functools import partial
from itertools import count
from pathlib import Path
from unittest import mock

import pytest
import torch
from command import files_up_to, refused, resmlp
from fairseq.tasks.translation import TranslationTask
from fairseq_programs import ROOT, generate, lines, load
from hypothesis import given
from hypothesis import strategies as st
from processes import Forked

from resmlp_mt.pipeline.translate.options import SearchOptions, checkpoint_paths, published_model
from resmlp_mt.pipeline.translate.translator import Translator
from resmlp_mt.text import TextSettings
from resmlp_mt_runtime import Model, UserError, driver
from resmlp_mt_runtime.files import record_source, source_of
from resmlp_mt_runtime.lines import read_text
from resmlp_mt_runtime.pieces import NFC
from resmlp_mt_runtime.sentences import Hypothesis, split

SHORT = ("--max-len-b", 20)


@pytest.fixture
def words(world):

    def words(source, output, *more, path=world.checkpoint, data=world.data):
        files = ("--path", path, "--data", data, "--input", source, "--output", output)
        return ("translate", *files, *SHORT, "--cpu", *more)

    return words


@pytest.fixture
def run(words):
    """Run the command; gives its exit status and what it printed."""
    return lambda *arguments, stdin=b"", **more: resmlp(*words(*arguments, **more), stdin=stdin)


def by_fairseq(world, path, *options):
    """Hypotheses of fairseq-generate for the test set, detokenized, the best first."""
    out = generate(world.data, path, "--remove-bpe", "sentencepiece", *SHORT, *options)
    return [[text for _, text in found] for _, found in sorted(lines(out, "D").items())]


def test_translations_are_those_of_fairseq(world, transformer, run, tmp_path):
    """Of every sentence, by one model, a Transformer, and both; the best and the n best."""
    source, found = world.text / "test.xx", {}
    for path in (world.checkpoint, transformer, f"{world.checkpoint}:{transformer}"):
        expected = by_fairseq(world, path, "--lenpen", 0.6, "--nbest", 3)
        said = run(source, tmp_path / "out", "--nbest", 3, path=path)
        assert said.status == 0 and "out: 33 lines\n" in said.err
        found[path] = read_text(tmp_path / "out")
        assert found[path] == [line for nbest in expected for line in nbest]
        assert run(source, tmp_path / "out", path=path).status == 0
        assert read_text(tmp_path / "out") == [nbest[0] for nbest in expected]
    assert len(set(map(tuple, found.values()))) == 3
    assert {path.name for path in tmp_path.iterdir()} == {"out", ".out.source"}


def test_the_search_is_that_of_the_options(world, run):
    options = ("--beam", 2, "--max-len-a", 0.5, "--max-len-b", 3, "--lenpen", 2.0)
    # one sentence per batch: fairseq's limit A x source is of the longest in the batch
    expected = by_fairseq(world, world.checkpoint, *options, "--batch-size", 1)
    said = run(world.text / "test.xx", "-", *options)
    assert said.out == "".join(f"{nbest[0]}\n" for nbest in expected)


class Engine:
    """Turns the words of a source around; knows no ``x``; has no room for more than four words."""

    languages = "en", "de"

    def __init__(self, limit=6, nbest=2):
        self.limit, self.nbest = limit, nbest

    def pieces(self, line):
        return [f"▁{word}" for word in line.split()]

    def rank(self, piece):
        return math.inf if "x" in piece else 0

    def one(self, source):
        words = [piece.strip("▁") for piece in source][::-1]
        pieces = ["<0xF0>"] if "b" in words else ()
        # written without line breaks and control characters; no second best of one word
        texts = [" ".join(words) + "\x1b", " ".join(words).upper() + "\x07\u2028!"]
        count = min(self.nbest, len(words))
        return [Hypothesis(text, -len(words), len(words) > 4, pieces) for text in texts[:count]]

    def translations(self, sources):
        assert all(0 < len(source) <= self.limit for source in sources)
        for i in sorted(range(len(sources)), key=lambda i: -len(sources[i])):
            yield {i: self.one(sources[i])}

    def expected(self, line, nbest):
        parts = [self.one(part) for part in split(line, self.pieces, self.limit)[0]]
        most = max(map(len, parts), default=0)  # the last of those that have fewer
        texts = [" ".join(p[min(n, len(p) - 1)].text for p in parts) for n in range(most)]
        texts = [*texts, *[""] * nbest][:nbest]
        shown = (text.replace("\x07", "").replace("\x1b", "") for text in texts)
        return [" ".join(text.split()) for text in shown]


WORDS = st.text("abx.\u3000😀", min_size=1, max_size=3)
LINES = st.lists(st.lists(WORDS, max_size=15).map(" ".join), max_size=12)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """``files(text)``: an input file with these lines, and an output that is not there yet."""

    def files(text):
        folder = tmp_path_factory.mktemp("files")
        (folder / "in").write_bytes("".join(f"{line}\n" for line in text).encode())
        return folder / "in", folder / "out"

    return files


@mock.patch.object(driver, "CHUNK", 5)
@given(text=LINES, nbest=st.integers(1, 2), cut=st.floats(0, 1))
def test_every_line_has_its_lines_and_resumes_at_any_byte(files, text, nbest, cut):
    source, output = files(text)
    engine = Engine(nbest=nbest)
    assert driver.translate(lambda: engine, source, output, nbest) == len(text)
    whole = output.read_bytes()
    expected = [t for line in text for t in engine.expected(line, nbest)]
    assert whole.decode().split("\n") == [*expected, ""]
    output.write_bytes(whole[: int(cut * len(whole))])
    driver.translate(lambda: engine, source, output, nbest, resume=True)
    assert output.read_bytes() == whole
    driver.translate(None, source, output, nbest, resume=True)  # no model is loaded
    assert output.read_bytes() == whole


@mock.patch.object(driver, "CHUNK", 5)
@given(text=LINES)
def test_what_may_be_lost_is_named(files, text):
    """Sentences in parts, translations that were cut or have broken bytes, unknown characters."""
    source, output = files(text)
    with redirect_stderr(io.StringIO()) as err:
        driver.translate(Engine, source, output)
    said = err.getvalue()
    parts = [split(line, Engine().pieces, Engine().limit) for line in text]
    long = [n for n, (_, is_long) in enumerate(parts, 1) if is_long]
    cut = [n for n, (found, _) in enumerate(parts, 1) if any(len(part) > 4 for part in found)]
    broken = [n for n, line in enumerate(text, 1) if "b" in line.split()]
    of_lines = ((long, "a sentence of more than"), (cut, "the translation may be truncated"))
    for numbers, what in (*of_lines, (broken, "the translation lacks a character")):
        others = f" and {len(numbers) - 1} more" * (len(numbers) > 1)
        assert f"in, line {numbers[0]}{others}: {what}" in said if numbers else what not in said
    unknown = ["".join(w for w in line.split() if "x" in w) for line in text]
    count, lines = len("".join(unknown)), sum(map(bool, unknown))
    assert (f": {count} unknown characters in {lines} lines" in said) == bool(lines)
    assert said.count("\n") == sum(map(bool, (long, cut, broken, lines)))


def stream(text, output, **options):
    asks, question = os.pipe()
    os.write(question, text.encode(errors="surrogateescape"))
    os.close(question)
    try:
        driver.translate(Engine, Path(f"/dev/fd/{asks}"), output, **options)
    finally:
        os.close(asks)


@pytest.mark.parametrize("piped", [False, True])
def test_resume_mixes_no_two_texts(files, piped):
    """What was translated is compared with the text, and with the model and options; these also
    where the output has fewer lines than one line of the text would get."""
    source, output = files([])

    def translate(text, nbest=1):
        options = {"made_from": {"nbest": nbest}, "nbest": nbest, "resume": True}
        if piped:
            return stream(text, output, **options)
        source.write_text(text)
        return driver.translate(Engine, source, output, **options)

    def refused(said, text, nbest=1):
        before = output.read_bytes(), source_of(output)
        with pytest.raises(UserError, match=said):
            translate(text, nbest)
        assert before == (output.read_bytes(), source_of(output))

    whole = "b a\nd c\nf e\nh g\n"
    translate("a b\nc d\n")
    refused("--resume: .*out is not known to be made with the same text", "a b\nc x\ne f\n")
    refused("--resume: .*out was made from a text with more lines than", "a b\n")
    refused("--resume: .*out is not known to be made with the same nbest", "a b\nc d\n", 3)
    output.write_text(whole[:8] + "not recorded\nf")
    translate("a b\nc d\ne f\n")
    assert output.read_text() == whole[:12]
    output.write_text(whole[:4])  # less than what was recorded
    refused("out is not known to be made with the same text", "a b\nc d\ne x\n")
    translate("a b\nc d\ne f\ng h\n")
    assert output.read_text() == whole
    for number in ("2", -1, 2.0):
        record_source(output, {"nbest": 1, "text": [number, ""]})
        refused("out is damaged or altered", "a b\n")


def test_a_bad_line_is_refused_before_a_model_is_loaded(files):
    """A link to the output stays as it was."""
    source, output = files(["a b"] * 2000)
    source.write_bytes(source.read_bytes() + b"\xff\n")
    output.symlink_to("gone")
    with pytest.raises(UserError, match="in, line 2001: invalid UTF-8"):
        driver.translate(None, source, output)
    assert output.is_symlink() and not output.exists()


def test_lines_before_a_bad_one_of_a_stream_are_translated(files):
    """And what may be lost in them is named."""
    _, output = files([])
    err, bad = io.StringIO(), pytest.raises(UserError, match="line 3: invalid UTF-8")
    with redirect_stderr(err), bad:
        stream("a b\nx c\n\udcff\n", output)
    assert output.read_text() == "b a\nc x\n"
    assert ": 1 unknown characters in 1 lines, first 'x' in line 2\n" in err.getvalue()
    stream("a b\nx c\nd\n", output, resume=True)
    assert output.read_text() == "b a\nc x\nd\n"


@pytest.mark.parametrize("held", [None, "c", "c a\nmore\n"], ids=["removed", "cut", "longer"])
def test_an_output_that_another_program_changes(files, held):
    """Nothing is added to it, and what it holds stays."""
    _, output = files([])

    def lines(source):
        yield from ("a c", None)
        output.unlink() if held is None else output.write_text(held)
        yield "c d"

    said = "was changed by another|could not be written: No such"
    changed = mock.patch.object(driver, "arriving_lines", lines)
    with changed, pytest.raises(UserError, match=said):
        driver.translate(Engine, Path("-"), output)
    assert (output.read_text() if output.exists() else None) == held


def test_new_work_forgets_the_old(files):
    """Also where it stops at once."""
    source, output = files(["a b", "c d", "e f"])
    driver.translate(Engine, source, output)
    stopped = mock.patch("resmlp_mt_runtime.driver._add", side_effect=KeyboardInterrupt)
    with stopped, pytest.raises(KeyboardInterrupt):
        stream("x y\n", output)
    assert output.read_text() == "y x\n" and source_of(output)["text"][0] == 0


@pytest.mark.parametrize("windows", [False, True])
def test_a_stream_is_answered_when_no_more_is_waiting(tmp_path, monkeypatch, windows):
    """Line by line, though the writer stays; a part of a line waits for its end."""
    if windows:  # which knows of sockets alone whether they are ready
        monkeypatch.setattr("select.select", mock.Mock(side_effect=OSError))
    (asks, question), (answer, answers) = os.pipe(), os.pipe()

    def translate():
        os.dup2(answers, 1)
        driver.translate(Engine, Path(f"/dev/fd/{asks}"), Path("-"))

    process = Forked(translate, tmp_path / "log")
    os.close(answers)
    with os.fdopen(answer, "rb") as answered:
        answers_of = {b"a b\nc": b"b a\n", b" d\n": b"d c\n", b"e\nf\n": b"e\nf\n"}
        for text, translation in answers_of.items():
            os.write(question, text)
            assert answered.read(len(translation)) == translation
    process.kill()
    os.close(asks)
    os.close(question)


def test_no_bar_stands_before_a_translation(files, monkeypatch):
    """On a terminal that shows both."""
    terminal = io.TextIOWrapper(io.BytesIO(), write_through=True)
    terminal.isatty = lambda: True
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{name}", terminal)
    monkeypatch.setattr("time.monotonic", count().__next__)
    source, _ = files(["a b"] * 300)
    driver.translate(Engine, source, Path("-"))
    shown = terminal.buffer.getvalue().decode()
    assert shown.count("left") > 2
    for line in shown.split("\n")[:300]:
        *drawn, text = line.split("\r")
        assert text == "b a" and not "".join(drawn[-1:]).strip()


def test_scores_stand_before_a_tab(files):
    """A line in parts has their mean; a line without a translation has none."""
    source, output = files(["a b", "", "c"])
    driver.translate(lambda: Engine(limit=1), source, output, nbest=2, scores=True)
    assert output.read_text() == "-1.0000\ta b\n\t\n\t\n\t\n-1.0000\tc\n\t\n"


# what others call line ends; a character that no model knows; a line that is too long
ODD = ["w01 w02 w03", "", "w07\rw08", "   ", "w03\u2028w05 w11", "w30 w31 w32 w33", "\t"]
ODD += ["w01 w02 w03", "😀", "w04\x85w05", " ".join(["w01 w02"] * 20), "w05"]


def test_an_export_translates_like_its_checkpoint(world, run, tmp_path):
    """The same lines, alone or in small batches, and no PyTorch beside it."""
    folder = tmp_path / "exported"
    assert resmlp("export", world.checkpoint, "--data", world.data, "--out", folder).status == 0
    text = "\n".join(ODD).encode()
    by_checkpoint = run("-", "-", "--max-tokens", 16, stdin=text)
    by_export = resmlp("translate", "--path", folder, *SHORT, stdin=text)
    assert by_export == by_checkpoint and by_export.status == 0
    assert by_export.out == "".join(run("-", "-", stdin=f"{line}\n".encode()).out for line in ODD)
    assert [bool(line.strip()) for line in ODD] == list(map(bool, by_export.out.splitlines()))
    said = "line 11: a sentence of more than the 31 tokens that the model reads: translated in"
    assert f"warning: standard input, {said} parts\n" in by_export.err
    assert "line 9 and 1 more: the translation may be truncated, " in by_export.err
    expected = "warning: standard input: 1 unknown characters in 1 lines, "
    assert by_export.err.endswith(expected + "first '😀' in line 9\n")
    nbest = ("--nbest", 2, "--beam", 3)
    expected = run("-", "-", *nbest, stdin=text).out
    assert resmlp("translate", "--path", folder, *SHORT, *nbest, stdin=text).out == expected
    refused("--fp16: only for checkpoints", "translate", "--path", folder, "--fp16", stdin=text)
    # a translation that ends one token before it would be cut; the shortest has the best score
    ((best,),) = Model(folder).stream(["w01 w02 w03"], lenpen=-10)
    for translate in (partial(run, "-", "-"), partial(resmlp, "translate", "--path", folder)):
        for more in (0, 1):
            limit = ("--lenpen", -10, "--max-len-b", len(best.pieces) + more)
            assert ("may be truncated" in translate(*limit, stdin=b"w01 w02 w03\n").err) != more


def test_a_clone_translates_with_the_published_model(tmp_path):
    """A clone has it, and translates and exports without naming it."""
    tea = resmlp("translate", "--cpu", stdin=b"I like tea.\n")
    assert tea == (0, "Ich mag Tee.\n", "")
    path = ROOT / "examples" / "mixed" / "model"
    assert tea == resmlp("translate", "--path", path, "--cpu", stdin=b"I like tea.")
    french = resmlp("translate", "--path", f"{path}-en-fr", "--cpu", stdin=b"I like tea.\n")
    assert french.status == 0 and len(french.out) > 5 and french.out != tea.out and not french.err
    with mock.patch("resmlp_mt.export.folder.export", side_effect=UserError("so far")) as export:
        refused("so far", "export", "--out", tmp_path / "out")
    assert export.call_args[0][0].options.paths == (path / "model.pt",)
    with mock.patch("resmlp_mt.__file__", str(tmp_path / "a" / "b.py")):
        assert published_model() == "resmlp_mt.en-de"
    refused("models are resmlp_mt.en-de, resmlp_mt.en-fr", "translate", "--path", "resmlp_mt.en-xx")


def test_the_data_says_how_its_text_was_made(world, run, tmp_path):
    """Its rule is applied, and none where nothing says so."""
    ignored = shutil.ignore_patterns("text.json", "spm.model")
    data = shutil.copytree(world.data, tmp_path / "data-bin", ignore=ignored)
    line, plain = b"w01\x07w02 w03\n", b"w01 w02 w03\n"
    as_it_is = run("-", "-", "--spm", world.spm, data=data, stdin=line).out
    TextSettings("xx", "yy", shutil.copy(world.spm, data), NFC).save(data)
    by_rule = run("-", "-", data=data, stdin=line).out
    assert by_rule == run("-", "-", stdin=line).out == run("-", "-", stdin=plain).out != as_it_is
    files, other = [tmp_path / "in", tmp_path / "out"], tmp_path / "other.model"
    for path in (files[0], other):
        path.write_bytes(line)
    assert run(*files).status == 0
    said = run(*files, "--spm", other, "--resume").err
    assert "out is not known to be made with the same subwords" in said


def test_a_full_disk_keeps_what_was_written(tmp_path, monkeypatch):
    """What was written is there for --resume."""
    (tmp_path / "in").write_text("a b\n" * 111)
    translate = partial(driver.translate, Engine, tmp_path / "in", tmp_path / "out")
    monkeypatch.setattr(driver, "CHUNK", 40)
    said = "out could not be written: File too large: --resume"
    with files_up_to(201), pytest.raises(UserError, match=said):
        translate()
    assert (tmp_path / "out").read_text() == "b a\n" * 50 + "b"
    translate(resume=True)
    assert (tmp_path / "out").read_text() == "b a\n" * 111


def test_a_second_process_on_one_output_is_refused(files, tmp_path):
    """The second changes nothing; what the first wrote is whole."""
    source, output = files(["a b"])

    def second():
        for resume in (False, True):
            with pytest.raises(UserError, match=f"another process is writing {output}: wait"):
                driver.translate(Engine, source, output, resume=resume)

    def load():
        Forked(second, tmp_path / "log").ends_well()
        return Engine()

    driver.translate(load, source, output)
    assert output.read_text() == "b a\n"


def test_a_search_that_is_no_beam_search_is_refused(words, tmp_path):
    (tmp_path / "in").write_text("w01\n")
    with mock.patch.object(TranslationTask, "build_generator", return_value=Path()):
        said = "needs a PosixPath to search: use fairseq-interactive"
        refused(said, *words(tmp_path / "in", tmp_path / "out"))


def test_a_batch_beyond_the_memory(words, world, tmp_path):
    """``--threads`` beyond those of the machine are no reason for it."""
    with mock.patch("torch.Tensor.eq", side_effect=lambda *_: torch.empty(1 << 60)):
        words = words(world.text / "test.xx", tmp_path / "out", "--threads", 10**9)
        refused("cpu: out of memory with --max-tokens 4096: lower it", *words)
    assert not (tmp_path / "out").exists()


# an ensemble uses the search of fairseq, which names no sentence
@pytest.mark.parametrize("ensemble", [False, True])
def test_a_line_without_finite_scores_is_named(words, world, tmp_path, ensemble):
    """The encoder overflows for sentences with a 9."""
    state = load(world.checkpoint)
    model = state["cfg"]["model"]
    model.share_all_embeddings, model.share_decoder_input_output_embed = False, True
    weight = state["model"]["encoder.embed_tokens.weight"].clone()
    for number, line in enumerate(read_text(world.data / "dict.xx.txt")):
        if "9" in line.split()[0]:
            weight[number + 4] = 3e38  # behind the four symbols of fairseq
    state["model"]["encoder.embed_tokens.weight"] = weight
    path, text = f"{tmp_path}/overflowing.pt", tmp_path / "in"
    torch.save(state, path)
    path += f":{world.checkpoint}" * ensemble
    text.write_text("w01 w02\nw09\nw03\nw19 w04\n")
    said = "in, line 2: no translation, because the model's scores are NaN or infinite there"
    refused(said, *words(text, tmp_path / "out", path=path))
    assert not (tmp_path / "out").exists()
    # the others are translated
    engine = Translator(SearchOptions(checkpoint_paths(path), world.data, cpu=True))
    batches = engine.translations(list(map(engine.pieces, ("w01", "w09"))))
    assert [bool(nbest) for _, nbest in sorted(ChainMap(*batches).items())] == [True, False]
