"""fairseq's programs on hostile lines: what comes out of a line stands at the line's number."""

from pathlib import Path
from typing import Dict, List, Sequence

import cli
from fairseq.data import Dictionary
from hostile_text_runs import Runs, text_of
from prepare_text import write_side

from resmlp_mt.score.generated import read_system

GREEDY = ("--cpu", "--beam", 1, "--max-len-b", 5, "--buffer-size", 1000, "--batch-size", 1000)


class FairseqPrograms(Runs):
    """fairseq-preprocess, fairseq-generate, fairseq-interactive."""

    def _preprocess(self, lines: List[bytes], folder: Path) -> None:
        """The same lines in pieces are preprocessed and translated."""
        common = ("--source-lang", "xx", "--target-lang", "yy")
        pieces = [self.encode(text_of(line)).split()[:30] for line in lines]
        for language in ("xx", "yy"):
            write_side(folder / f"test.{language}", map(" ".join, pieces))
        dictionary = self.world.data / "dict.xx.txt"
        more = ("--srcdict", dictionary, "--joined-dictionary", "--testpref", folder / "test")
        self._fairseq("preprocess", *common, *more, "--destdir", folder / "bin")
        path = ("--path", self.world.checkpoint, "--cpu", "--num-workers", 0, "--beam", 1)
        limits = ("--max-len-b", 5, "--remove-bpe", "sentencepiece")
        out = self._fairseq("generate", folder / "bin", *path, *limits)
        (folder / "log").write_text(out, encoding="utf-8")
        assert len(cli.hypotheses(out)) == len(lines)
        # its log ends with this line, which call() keeps apart
        with open(folder / "log", "a", encoding="utf-8") as log:
            log.write(f"Translated {len(lines):,} sentences\n")
        assert len(read_system(folder / "log")) == len(lines)

    def _interactive(self, lines: List[bytes], folder: Path) -> None:
        write_side(folder / "input", lines)
        bpe = ("--bpe", "sentencepiece", "--sentencepiece-model", self.world.spm)
        options = (self.world.data, "--path", self.world.checkpoint, *GREEDY, *bpe)
        content = (folder / "input").read_bytes()
        by_stdin = self._fairseq("interactive", *options, stdin=content)
        assert sorted(cli.hypotheses(by_stdin)) == list(range(len(lines)))
        assert all(len(found) == 1 for found in cli.hypotheses(by_stdin).values())
        expected = self._as_fairseq_prints(lines)
        found = {number: text for number, [[text]] in cli.lines(by_stdin, "S").items()}
        assert len(found) == len(lines)
        for number, line in enumerate(lines):
            assert found[number] == expected[line], (number, line[:60], found[number][:60])
        if len(lines) < 1000:
            by_file = ("--input", folder / "input")
            again = self._fairseq("interactive", *options, *by_file)
            assert cli.lines(again, "S") == cli.lines(by_stdin, "S")
            assert cli.hypotheses(again) == cli.hypotheses(by_stdin)

    def _as_fairseq_prints(self, lines: Sequence[bytes]) -> Dict[bytes, str]:
        """A line's pieces, with those that the dictionary lacks as ``<unk>``, by the line."""
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
        options = ("--path", self.world.checkpoint, *GREEDY, "--remove-bpe", "sentencepiece")
        out = self._fairseq(
            *("interactive", self.world.data, *options),
            stdin="".join(f"{sentence}\n" for sentence in different).encode(),
        )
        found = cli.lines(out, "D")
        return {sentence: found[number][0][1] for number, sentence in enumerate(different)}
