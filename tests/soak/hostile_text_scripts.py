"""Our scripts on hostile lines: each line comes out again at its place, or is counted."""

import json
import os
import shutil
import warnings
from pathlib import Path
from typing import List, Optional

from command import resmlp
from hostile_text_fairseq import FairseqPrograms
from hostile_text_properties import without_mark
from hostile_text_runs import Refused, largest_vocabulary, succeeded, text_of
from prepare_text import pairs_of, write_layout, write_side
from sacrebleu.metrics import BLEU, CHRF
from small_world import Said, run_command

from resmlp_mt.analysis.cross_attention import cross_attention
from resmlp_mt.compat.quiet import logging_as_before
from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import read_lines

TAGS, SIDES = ("eng", "deu"), ("en", "de")  # of a recipe
MOST_PIECES = 31  # of a sentence: the small model has 32 positions, and the end takes one


class Scripts(FairseqPrograms):
    """translate, distill, score, prepare, plot attention."""

    def _translate(self, lines: List[bytes], folder: Path, truncate: bool = False) -> None:
        write_side(folder / "input", lines)
        said = run_command(
            *("translate", "--path", self.world.checkpoint, "--data", self.world.data),
            *("--input", folder / "input", "--output", folder / "output"),
            *("--beam", 1, "--max-len-b", 5, "--cpu", "--threads", 1),
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
        assert f", {without} of them without a word" in said.err[-1], said.err

    def _distill(self, lines: List[bytes], folder: Path) -> None:
        write_side(folder / "text.xx", lines)
        write_side(folder / "text.yy", lines[::-1])
        said = run_command(
            *("distill", "--path", self.world.checkpoint, "--data", self.world.data, "--cpu"),
            *("--source", folder / "text.xx", "--target", folder / "text.yy"),
            *("--out", folder / "out" / "train", "--beam", 1, "--max-len-b", 5),
        )
        succeeded(said)
        source, target = (list(read_lines(folder / "out" / f"train.{x}")) for x in ("xx", "yy"))
        assert source == list(map(text_of, lines)) and len(target) == len(lines)
        made = json.loads((folder / "out" / "train.json").read_text(encoding="utf-8"))["results"]
        assert made["lines"] == made["pairs"] == len(lines)
        failed: List[str] = []
        if made["failures"]:
            failed = (folder / "out" / "train.failures.tsv").read_bytes().decode().split("\n")[1:-1]
            assert all(row.count("\t") == 3 for row in failed)
        assert len(failed) == sum(made["failures"].values())
        for row in failed:  # where the teacher failed there is the reference
            number = int(row.split("\t")[0]) - 1
            assert target[number] == text_of(lines[::-1][number])

    def _score(self, lines: List[bytes], folder: Path) -> None:
        write_side(folder / "references", lines)
        write_side(folder / "hypotheses", lines[::-1])
        status, _, err = resmlp(
            *("score", "--references", folder / "references"),
            *("-i", folder / "references", folder / "hypotheses", "-l", "en-de", "--tokenized"),
            *("--json", folder / "json", "--paired-bs", "--paired-bs-n", 2),
        )
        succeeded(Said(status, "", err.splitlines()))
        found = json.loads((folder / "json").read_text(encoding="utf-8"))
        assert found["sentences"] == len(lines)
        texts = list(map(text_of, lines))
        references, hypotheses = without_mark(texts), without_mark(texts[::-1])
        for name, metric in (("bleu", BLEU()), ("chrf", CHRF())):
            expected = round(metric.corpus_score(hypotheses, [references]).score, 2)
            value = found["systems"][str(folder / "hypotheses")][name]
            assert value == expected, (name, value, expected)
        itself = BLEU().corpus_score(references, [references])
        if itself.totals[-1]:  # there are four words in a row
            assert round(itself.score, 2) == 100
        found_itself = found["paired"]["systems"][str(folder / "references")]["bleu"]["score"]
        assert abs(found_itself - itself.score) < 0.01, (found_itself, itself.score)

    def _prepare(self, lines: List[bytes], folder: Path, held_out: Optional[List[bytes]] = None):
        plain = pairs_of(300, 1)
        corpora = {"hostile": list(zip(lines, lines[::-1])), "plain": plain}
        raw = write_layout(folder / "raw", TAGS, corpora)
        if held_out is not None:
            for tag in TAGS:
                write_side(raw / f"test1.{tag}", held_out)
        out = folder / "out"

        def run(vocab_size):
            shutil.rmtree(out, ignore_errors=True)
            options = ("--from", raw, "--out", out, "--workers", 1, "--vocab-size", vocab_size)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a fork beside other threads
                return run_command("prepare", "--recipe", "wmt14-en-de", *options)

        largest_vocabulary(run)
        results = json.loads((folder / "out" / "manifest.json").read_text(encoding="utf-8"))
        found = results["results"]["text"]["corpora"]["hostile"]
        assert found["read"] == len(lines) == sum(found.values()) - found["read"], found
        encoded = results["results"]["data-bin"]
        pairs = results["results"]["text"]["pairs"]
        for side in SIDES:
            text = (folder / "out" / "text" / f"train.{side}").read_bytes()
            assert text.count(b"\n") == pairs
        assert encoded["splits"]["train"]["pairs"] == pairs - sum(encoded["dropped"].values())
        if held_out is not None:
            assert encoded["splits"]["test"]["pairs"] == len(held_out)

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
                    if "is empty" not in str(error) or self.encode(text_of(line)):
                        raise Refused(str(error)) from None
                else:
                    assert len(found.source) == len(self.encode(text_of(line)).split()) + 1
