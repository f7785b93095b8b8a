"""Whole programs on hostile lines, called in this process: each line must come out again, or be
counted and named."""

import json
import os
import re
import shutil
import warnings
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence

import distill
import prepare
import score
import subwords
import translate
from cli import call, hypotheses
from fairseq.data.data_utils import load_indexed_dataset
from fairseq.tokenizer import tokenize_line
from prepare_text import pairs_of, write_layout, write_side
from small_world import Said, World, run_script

from resmlp_mt.cli_errors import explain
from resmlp_mt.errors import UserError
from resmlp_mt.pipeline.corpus import read_lines
from resmlp_mt.pipeline.cross_attention import cross_attention
from resmlp_mt.pipeline.scoring import read_generated
from resmlp_mt.pipeline.subwords import Subwords
from resmlp_mt.quiet import logging_as_before
from resmlp_mt.wmt14.recipes import PAIRS

PAIR = PAIRS["en-de"]


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
            "subwords.py train": self._subwords_train,
            "subwords.py encode": self._subwords_encode,
            "fairseq-preprocess and fairseq-generate": self._preprocess,
            "fairseq-interactive": self._interactive,
            "translate.py": self._translate,
            "distill.py": self._distill,
            "score.py": self._score,
            "prepare.py": self._prepare,
        }
        self.names = tuple(self._programs)
        self._programs["plot.py attention"] = self._attention  # a line at a time: slow
        self.tried = dict.fromkeys(self._programs, 0)

    def run(self, name: str, lines: Sequence[bytes]) -> None:
        """Run a program on *lines*, which have no line ends and at least one of which has a word.

        Raises:
            AssertionError: if one is lost, or a program ends with an error.
        """
        self.tried[name] += len(lines)
        self._programs[name](list(lines), self._empty())

    def refuse(self, name: str, lines: Sequence[bytes], said: str) -> None:
        """Run it on *lines*, which it must refuse: in one line that matches *said*.

        Raises:
            AssertionError: if it does not.
        """
        self.tried[name] += len(lines)
        try:
            self._programs[name](list(lines), self._empty())
        except Refused as refused:
            message = str(refused)
            assert re.search(said, message) and "\n" not in message, message
        else:
            raise AssertionError(f"{name}: not refused: {said}")

    def _empty(self) -> Path:
        folder = self.folder / "programs"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def _fairseq(self, name: str, *arguments, stdin: bytes = b"") -> str:
        try:
            return call(name, *arguments, stdin=stdin).out
        except Exception as error:
            message = explain(error)
            if message is None:
                raise
            raise Refused(" ".join(message.split())) from None

    def _subwords_train(self, lines: List[bytes], folder: Path) -> None:
        write_side(folder / "train.xx", lines)
        options = ("train", "--prefix", folder / "spm", folder / "train.xx", "--vocab-size")
        _largest_vocabulary(lambda size: run_script(subwords, *options, size))
        assert Subwords(folder / "spm.model").encode("w01")

    def _subwords_encode(self, lines: List[bytes], folder: Path) -> None:
        write_side(folder / "text.xx", lines)
        said = run_script(subwords, "encode", "--model", self.world.spm, folder / "text.xx")
        _succeeded(said)
        pieces = (folder / "text.sp.xx").read_bytes().split(b"\n")
        assert pieces.pop() == b""
        assert pieces == [self.encode(_text(line)).encode() for line in lines]

    def _preprocess(self, lines: List[bytes], folder: Path) -> None:
        """As raw words, by two workers; then the same lines in pieces are translated."""
        for language in ("xx", "yy"):
            write_side(folder / f"train.{language}", lines if language == "xx" else lines[::-1])
        common = ("--source-lang", "xx", "--target-lang", "yy")
        train = ("--trainpref", folder / "train", "--workers", 2)
        self._fairseq("preprocess", *common, *train, "--destdir", folder / "raw")
        words = [tokenize_line(_text(line)) for line in lines]
        for language, expected in (("xx", words), ("yy", words[::-1])):
            with logging_as_before():
                data = load_indexed_dataset(str(folder / "raw" / f"train.xx-yy.{language}"), None)
            assert [len(data[i]) for i in range(len(data))] == [len(line) + 1 for line in expected]
        pieces = [self.encode(_text(line)).split()[:30] for line in lines]
        for language in ("xx", "yy"):
            write_side(folder / f"test.{language}", map(" ".join, pieces))
        dictionary = self.world.data / "dict.xx.txt"
        more = ("--srcdict", dictionary, "--joined-dictionary", "--testpref", folder / "test")
        self._fairseq("preprocess", *common, *more, "--destdir", folder / "bin")
        path = ("--path", self.world.checkpoint, "--cpu", "--num-workers", 0, "--beam", 1)
        limits = ("--max-len-b", 5, "--remove-bpe", "sentencepiece")
        out = self._fairseq("generate", folder / "bin", *path, *limits)
        (folder / "log").write_text(out, encoding="utf-8")
        assert len(hypotheses(out)) == len(lines)
        # its log ends with this line, which call() keeps apart
        with open(folder / "log", "a", encoding="utf-8") as log:
            log.write(f"Translated {len(lines):,} sentences\n")
        assert len(read_generated(folder / "log")) == len(lines)

    def _interactive(self, lines: List[bytes], folder: Path) -> None:
        write_side(folder / "input", lines)
        bpe = ("--bpe", "sentencepiece", "--sentencepiece-model", self.world.spm)
        options = ("--path", self.world.checkpoint, "--cpu", "--beam", 1, "--max-len-b", 5, *bpe)
        options += ("--buffer-size", 1000, "--batch-size", 1000)
        content = (folder / "input").read_bytes()
        by_stdin = self._fairseq("interactive", self.world.data, *options, stdin=content)
        assert sorted(hypotheses(by_stdin)) == list(range(len(lines)))
        assert all(len(found) == 1 for found in hypotheses(by_stdin).values())
        if len(lines) < 1000:
            by_file = ("--input", folder / "input")
            again = self._fairseq("interactive", self.world.data, *options, *by_file)
            assert hypotheses(again) == hypotheses(by_stdin)

    def _translate(self, lines: List[bytes], folder: Path, truncate: bool = False) -> None:
        write_side(folder / "input", lines)
        said = run_script(
            translate,
            *("--checkpoint", self.world.checkpoint, "--data", self.world.data),
            *("--input", folder / "input", "--output", folder / "output", "--no-normalise"),
            *("--beam", 1, "--max-len-b", 5, "--cpu", "--spm", self.world.spm, "--threads", 1),
            *(["--truncate"] if truncate else []),
        )
        _succeeded(said, notes=r"sentences in .* lines without a word|not in the dictionary")
        output = (folder / "output").read_bytes().decode().split("\n")
        assert output.pop() == "" and len(output) == len(lines)
        without = sum(not self.encode(_text(line)) for line in lines)
        assert f", {without} lines without a word" in said.err[-1], said.err

    def translate_truncated(self, lines: List[bytes]) -> None:
        """translate.py on lines some of which are too long for the model."""
        self.tried["translate.py"] += len(lines)
        self._translate(lines, self._empty(), truncate=True)

    def _distill(self, lines: List[bytes], folder: Path) -> None:
        write_side(folder / "text.xx", lines)
        write_side(folder / "text.yy", lines[::-1])
        said = run_script(
            distill,
            *("--teacher", self.world.checkpoint, "--data", self.world.data),
            *("--spm", self.world.spm, "--source", folder / "text.xx", "--cpu"),
            *("--target", folder / "text.yy", "--output-prefix", folder / "out" / "train"),
            *("--beam", 1, "--max-len", 5),
        )
        _succeeded(said)
        source, target = (list(read_lines(folder / "out" / f"train.{x}")) for x in ("xx", "yy"))
        assert source == list(map(_text, lines)) and len(target) == len(lines)
        made = json.loads((folder / "out" / "train.json").read_text(encoding="utf-8"))["results"]
        assert made["lines"] == made["pairs"] == len(lines)
        failed: List[str] = []
        if made["failures"]:
            failed = (folder / "out" / "train.failures.tsv").read_bytes().decode().split("\n")[1:-1]
            assert all(row.count("\t") == 3 for row in failed)
        assert len(failed) == sum(made["failures"].values())
        for row in failed:  # where the teacher failed there is the reference
            number = int(row.split("\t")[0]) - 1
            assert target[number] == _text(lines[::-1][number])

    def _score(self, lines: List[bytes], folder: Path) -> None:
        write_side(folder / "hypotheses", lines)
        write_side(folder / "references", lines[::-1])
        said = run_script(
            score,
            *("--hypotheses", folder / "hypotheses", "--references", folder / "references"),
            *("--pair", "en-de", "--json", folder / "json"),
            *("--baseline", folder / "references", "--samples", 2),
        )
        _succeeded(said)
        found = json.loads((folder / "json").read_text(encoding="utf-8"))
        assert found["sentences"] == len(lines)

    def _prepare(self, lines: List[bytes], folder: Path, held_out: Optional[List[bytes]] = None):
        plain = pairs_of(300, 1)
        corpora = {"hostile": list(zip(lines, lines[::-1])), "plain": plain}
        raw = write_layout(folder / "raw", PAIR, corpora)
        if held_out is not None:
            for tag in PAIR.tags:
                write_side(raw / f"test1.{tag}", held_out)
        out = folder / "out"

        def run(vocab_size):
            shutil.rmtree(out, ignore_errors=True)
            options = ("--from", raw, "--out", out, "--workers", 1, "--vocab-size", vocab_size)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a fork beside other threads
                return run_script(prepare, "en-de", *options)

        _largest_vocabulary(run)
        results = json.loads((folder / "out" / "manifest.json").read_text(encoding="utf-8"))
        found = results["results"]["text"]["corpora"]["hostile"]
        assert found["read"] == len(lines) == sum(found.values()) - found["read"], found
        kept = (folder / "out" / "text" / "keep.u8").read_bytes()
        for side in (PAIR.source, PAIR.target):
            text = (folder / "out" / "text" / f"train.{side}").read_bytes()
            assert text.count(b"\n") == len(kept)
        encoded = results["results"]["data-bin"]
        pairs = results["results"]["text"]["pairs"]
        assert encoded["splits"]["train"]["pairs"] == pairs - sum(encoded["dropped"].values())
        if held_out is not None:
            assert encoded["splits"]["test"]["pairs"] == len(held_out)

    def prepare_held_out(self, lines: List[bytes]) -> None:
        """prepare.py with *lines* as its test set, of which none may be left out."""
        self.tried["prepare.py"] += len(lines)
        self._prepare(lines[:50], self._empty(), held_out=lines)

    def prepare_refuses(self, wrong: bytes) -> None:
        """Of training text, what is no UTF-8 is left out and counted; of the test set it is not."""
        self.tried["prepare.py"] += 6
        lines = [b"w01", b"\xc2\x85", wrong]
        self._prepare(lines, self._empty())
        try:
            self._prepare([b"w01"], self._empty(), held_out=lines)
        except Refused as refused:
            assert re.search(r"test1\.\w+, line 3: invalid UTF-8", str(refused)), refused
            assert "\n" not in str(refused)
        else:
            raise AssertionError("prepare.py: a test set that is not UTF-8 is not refused")

    def _attention(self, lines: List[bytes], folder: Path) -> None:
        """On the command line a line is what the shell passes: there it may be no UTF-8."""
        with logging_as_before():
            for line in lines:
                try:
                    found = cross_attention(
                        *(self.world.checkpoint, self.world.data),
                        *(os.fsdecode(line), self.world.spm, "w01"),
                    )
                except UserError as error:
                    if "is empty" not in str(error) or self.encode(_text(line)):
                        raise Refused(str(error)) from None
                else:
                    assert len(found.source) == len(self.encode(_text(line)).split()) + 1


class Refused(AssertionError):
    """Its text is what a user would see."""


def _succeeded(said: Said, notes: str = "^$") -> None:
    """A script ended well, with nothing on standard error but *notes*."""
    if said.status:
        raise Refused("\n".join(said.err))
    unexpected = [line for line in said.err if not re.search(notes, line)]
    assert not unexpected, unexpected


def _largest_vocabulary(train: Callable[[object], Said]) -> None:
    """Train with more pieces than a small text allows, then with as many as it does."""
    said = train(5000)
    most = re.search(r"at most (\d+)", "".join(said.err))
    _succeeded(train(most[1]) if most else said, notes="subwords are learnt without")


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").decode("utf-8")
