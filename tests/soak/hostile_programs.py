"""Whole programs on hostile lines, called in this process: each line must come out again at its
place, or be counted and named."""

import re
import shutil
import warnings
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence

from command import Said, resmlp
from fairseq.data import Dictionary
from fairseq_programs import call, hypotheses
from fairseq_programs import lines as lines_of
from hostile_functions import without_mark
from prepare_text import pairs_of, write_layout, write_side
from sacrebleu.metrics import BLEU, CHRF
from small_world import World

from resmlp_mt.fairseq_fixes.errors_and_noise import explain
from resmlp_mt.files import read_json
from resmlp_mt.score.generated import read_system
from resmlp_mt.text.subwords import Subwords

MOST_PIECES = 31  # of a sentence: the small model has 32 positions, and the end takes one
GREEDY = ("--cpu", "--beam", 1, "--max-len-b", 5)
BY_LINE = (*GREEDY, "--buffer-size", 1000, "--batch-size", 1000)
PREPROCESS, INTERACTIVE = "preprocess and generate", "interactive"


class Refused(AssertionError):
    """Its text is what a user would see."""


class Programs:
    """
    Args:
        world: a small model and its data.
        folder: for files.

    Attributes:
        names: the programs that read files.
        tried: lines so far, by program.
    """

    def __init__(self, world: World, folder: Path):
        self.world, self.folder, self.encode = world, folder, Subwords(world.spm).encode
        self._programs: Dict[str, Callable[[List[bytes], Path], None]] = {
            PREPROCESS: self._preprocess,
            INTERACTIVE: self._interactive,
            "translate": self._translate,
            "score": self._score,
            "prepare": self._prepare,
        }
        self.names = tuple(self._programs)
        self.tried = dict.fromkeys(self._programs, 0)

    def run(self, name: str, lines: Sequence[bytes], **more) -> None:
        """Run a program on *lines*, which have no line ends and at least one of which has a word.

        Args:
            more: ``truncate=True`` for translate: lines may be too long for the model.
                ``held_out=LINES`` for prepare: a test set, of which no line may be left out.

        Raises:
            AssertionError: if one is lost, or a program ends with an error.
        """
        self.tried[name] += len(more.get("held_out") or lines)
        shutil.rmtree(self.folder / "programs", ignore_errors=True)
        (self.folder / "programs").mkdir(parents=True)
        self._programs[name](list(lines), self.folder / "programs", **more)

    def refuse(self, name: str, lines: Sequence[bytes], said: str, **more) -> None:
        """Run it on *lines*, which it must refuse: in one line that matches *said*, and with
        nothing half-written.

        Raises:
            AssertionError: if it does not.
        """
        try:
            self.run(name, lines, **more)
        except Refused as refused:
            message = str(refused)
            assert re.search(said, message) and "\n" not in message, message
            left = list((self.folder / "programs").rglob("*.tmp"))
            assert not left, f"{name}: half-written: {left}"
        else:
            raise AssertionError(f"{name}: not refused: {said}")

    def not_utf8(self, wrong: bytes) -> None:
        """Every program refuses the line. In training text it is left out and counted."""
        for name in self.names:
            if name == "prepare":
                lines = [b"w01", b"\xc2\x85", wrong]
                self.run(name, lines)
                said = r"test1\.\w+, line 3: invalid UTF-8"
                self.refuse(name, [b"w01"], said, held_out=lines)
            elif name != PREPROCESS:  # its input is made here
                lines = [b"w01", b"\xc2\x85", wrong, b"w02"]
                self.refuse(name, lines, "line 3: invalid UTF-8")

    def long_line(self, line: bytes) -> None:
        """Every program takes a line of any length, or names it as too long for the model."""
        lines = [b"w01", line, b"w02 w03"]
        for name in self.names:
            if self.too_long(line) and name in (INTERACTIVE, "translate"):
                self.refuse(name, lines, "line 2: .* pieces, but|sentence 1 has more tokens")
            else:
                self.run(name, lines)
        self.run("translate", lines, truncate=True)

    def too_long(self, line: bytes) -> bool:
        """Whether it has more pieces than the small model takes."""
        return len(self.encode(text_of(line)).split()) >= MOST_PIECES

    def _fairseq(self, name: str, *arguments, stdin: bytes = b""):
        try:
            return call(name, *arguments, stdin=stdin)
        except Exception as error:
            message = explain(error)
            if message is None:
                raise
            raise Refused(" ".join(message.split())) from None

    def _preprocess(self, lines: List[bytes], folder: Path) -> None:
        """The same lines in pieces are preprocessed and translated."""
        pieces = [self.encode(text_of(line)).split()[: MOST_PIECES - 1] for line in lines]
        for language in ("xx", "yy"):
            write_side(folder / f"test.{language}", map(" ".join, pieces))
        self._fairseq(
            *("preprocess", "--source-lang", "xx", "--target-lang", "yy", "--joined-dictionary"),
            *("--srcdict", self.world.data / "dict.xx.txt", "--testpref", folder / "test"),
            *("--destdir", folder / "bin"),
        )
        path = ("--path", self.world.checkpoint, "--num-workers", 0)
        said = self._fairseq(
            "generate", folder / "bin", *path, *GREEDY, "--remove-bpe", "sentencepiece"
        )
        assert len(hypotheses(said.out)) == len(lines)
        # on the way to a log there are both
        (folder / "log").write_text(said.out + said.log, encoding="utf-8")
        assert len(read_system(folder / "log", len(lines))) == len(lines)

    def _interactive(self, lines: List[bytes], folder: Path) -> None:
        bpe = ("--bpe", "sentencepiece", "--sentencepiece-model", self.world.spm)
        options = (self.world.data, "--path", self.world.checkpoint, *BY_LINE, *bpe)
        stdin = b"".join(line + b"\n" for line in lines)
        said = self._fairseq("interactive", *options, stdin=stdin).out
        assert sorted(hypotheses(said)) == list(range(len(lines)))
        assert all(len(found) == 1 for found in hypotheses(said).values())
        expected = self._as_fairseq_prints(lines)
        found = {number: text for number, [[text]] in lines_of(said, "S").items()}
        assert len(found) == len(lines)
        for number, line in enumerate(lines):
            assert found[number] == expected[line], (number, line[:60], found[number][:60])

    def _as_fairseq_prints(self, lines: Sequence[bytes]) -> Dict[bytes, str]:
        """The pieces of a line, with those that the dictionary lacks as ``<unk>``, by the line."""
        dictionary = Dictionary.load(str(self.world.data / "dict.xx.txt"))
        return {
            line: dictionary.string(
                dictionary.encode_line(self.encode(text_of(line)), add_if_not_exist=False)
            )
            for line in set(lines)
        }

    def _translations(self, sentences: Sequence[str]) -> Dict[str, str]:
        """What fairseq-interactive makes of sentences in pieces, by the sentence."""
        different = sorted(set(sentences))
        options = ("--path", self.world.checkpoint, *BY_LINE, "--remove-bpe", "sentencepiece")
        stdin = "".join(f"{sentence}\n" for sentence in different).encode()
        out = self._fairseq("interactive", self.world.data, *options, stdin=stdin).out
        found = lines_of(out, "D")
        return {sentence: found[number][0][1] for number, sentence in enumerate(different)}

    def _translate(self, lines: List[bytes], folder: Path, truncate: bool = False) -> None:
        write_side(folder / "input", lines)
        said = resmlp(
            *("translate", "--path", self.world.checkpoint, "--data", self.world.data),
            *("--input", folder / "input", "--output", folder / "output", *GREEDY, "--threads", 1),
            *(["--truncate"] if truncate else []),
        )
        succeeded(said, notes=r"sentences in .* without a word")
        output = (folder / "output").read_bytes().decode().split("\n")
        assert output.pop() == "" and len(output) == len(lines)
        cut = [self.encode(text_of(line)).split()[:MOST_PIECES] for line in lines]
        pieces = list(map(" ".join, cut))
        expected = {"": "", **self._translations(list(filter(None, pieces)))}
        for number, (line, found) in enumerate(zip(lines, output)):
            assert found == expected[pieces[number]], (number, line[:60], found)
        without = pieces.count("")
        assert f", {without} of them without a word" in said.err, said.err

    def _score(self, lines: List[bytes], folder: Path) -> None:
        write_side(folder / "references", lines)
        write_side(folder / "hypotheses", lines[::-1])
        files = ("--references", folder / "references", "-i", folder / "hypotheses")
        said = resmlp("score", *files, "-l", "en-de", "--tokenized")
        succeeded(said)
        found = dict(line.split(" ")[:2] for line in said.out.splitlines())
        texts = list(map(text_of, lines))
        references, hypotheses = without_mark(texts), without_mark(texts[::-1])
        for name, metric in (("BLEU", BLEU()), ("chrF", CHRF())):
            expected = f"{metric.corpus_score(hypotheses, [references]).score:.2f}"
            assert found[name] == expected, (name, found[name], expected)

    def _prepare(self, lines: List[bytes], folder: Path, held_out: Optional[List[bytes]] = None):
        tags, out = ("eng", "deu"), folder / "out"
        corpora = {"hostile": list(zip(lines, lines[::-1])), "plain": pairs_of(300, 1)}
        raw = write_layout(folder / "raw", tags, corpora)
        if held_out is not None:
            for tag in tags:
                write_side(raw / f"test1.{tag}", held_out)

        def run(vocab_size) -> Said:
            shutil.rmtree(out, ignore_errors=True)
            options = ("--from", raw, "--out", out, "--workers", 1, "--vocab-size", vocab_size)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a fork beside other threads
                return resmlp("prepare", "--recipe", "wmt14-en-de", *options)

        said = run(5000)
        most = re.search(r"at most (\d+)", said.err)  # that such a small text allows
        said = run(most[1]) if most else said
        succeeded(said, notes="subwords are learnt without|the whole test set")
        text = read_json(out / "text" / "report.json")
        found, pairs = text["corpora"]["hostile"], text["pairs"]
        assert found["read"] == len(lines) == sum(found.values()) - found["read"], found
        for side in ("en", "de"):
            assert (out / "text" / f"train.{side}").read_bytes().count(b"\n") == pairs
        encoded = read_json(out / "data-bin" / "report.json")
        assert encoded["splits"]["train"]["pairs"] == pairs - sum(encoded["dropped"].values())
        if held_out is not None:
            assert encoded["splits"]["test"]["pairs"] == len(held_out)


def succeeded(said: Said, notes: str = "^$") -> None:
    """A command ended well, with nothing on standard error but *notes*."""
    if said.status:
        raise Refused(said.err.rstrip("\n"))
    unexpected = [line for line in said.err.splitlines() if not re.search(notes, line)]
    assert not unexpected, unexpected


def text_of(line: bytes) -> str:
    """A line of a file without what belongs to its end."""
    return line.rstrip(b"\r").decode("utf-8")
