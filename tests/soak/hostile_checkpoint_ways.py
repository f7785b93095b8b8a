"""Every way in which something here loads a checkpoint, called in this process."""

import logging
import shutil
from functools import partial
from pathlib import Path
from typing import Iterator

import torch
from command import resmlp
from fairseq_programs import call, hypotheses, load, train, values
from hostile_checkpoint_cases import Case
from trained_models import EPOCHS, World

from resmlp_mt import ResMLPModel
from resmlp_mt.errors import in_one_line
from resmlp_mt.fairseq_fixes import logging_as_before
from resmlp_mt.plot.matrices import mixing_matrices


class Refused(Exception):
    """Its text is the one line that a user would see."""


class Ways:
    """Loads files in place of the untouched checkpoint of *world*; *folder* is an empty one."""

    def __init__(self, world: World, folder: Path):
        self.world, self.out = world, folder / "out"
        self.path = folder / "in" / "checkpoint1.pt"
        self.path.parent.mkdir(parents=True)
        self.ways = {
            "generate": partial(self._fairseq, "generate", "--num-workers", 0),
            "interactive": partial(self._fairseq, "interactive", stdin="▁ w 01\n\n"),
            "hub": self._hub,
            "resume": partial(self._train, "--restore-file", 8 * EPOCHS + 1),
            "finetune": partial(self._train, "--finetune-from-model", 1),
            "average": self._average,
            "plot": self._matrices,
            "translate": self._translate,
        }
        self._right: dict = {}

    def problems(self, case: Case, ways=None, said: str = "") -> Iterator[str]:
        """Load a case by some or all ways. Gives a line for each that loads what it should refuse,
        or the other way round, or refuses it without *said*."""
        for way in ways or self.ways:
            if way not in self._right:  # what the untouched checkpoint gives
                shutil.copy(self.world.checkpoint, self.path)
                self._right[way] = self._load(way)
            self.path.write_bytes(case.content)
            problem = self._problem(way, case, said)
            if problem:
                yield f"{way}, {case.name}: {problem}"

    def _load(self, way: str):
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()
        try:
            return self.ways[way]()
        except Exception as error:
            left = [path.name for path in self.out.rglob("*.pt*")]
            assert not left, f"half-written: {left}"
            message = in_one_line(error)
            if isinstance(error, Refused) or message is None:
                raise
            raise Refused(" ".join(message.split())) from None

    def _problem(self, way: str, case: Case, expected: str):
        try:
            found = self._load(way)
        except Refused as refused:
            text = str(refused)
            if "\n" in text or not text or expected not in text:
                return f"said more or less than one line, or something else: {text}"
            if str(self.path) not in text and str(self.world.data) not in text:
                return f"the file is not named: {text}"
            return case.expected == "loaded" and f"refused: {text}"
        except BaseException as error:
            return f"{type(error).__name__} instead of one line: {error}"
        if way in case.other:
            return None
        if case.expected == "refused":
            return "loaded"
        same = _same(found, self._right[way])
        return not same and f"loaded, and is not what was saved, but {str(found)[:100]}"

    def _fairseq(self, program: str, *options, **more):
        options = ("--path", self.path, "--beam", 2, "--cpu", *options)
        return hypotheses(call(program, self.world.data, *options, **more).out)

    def _command(self, *words, **more) -> str:
        said = resmlp(*words, **more)
        if said.status:
            raise Refused(said.err.rstrip("\n"))
        return said.out

    def _hub(self):
        where = (str(self.path.parent), self.path.name, str(self.world.data))
        with logging_as_before():
            hub = ResMLPModel.from_pretrained(*where)
        return hub.translate(["▁ w 01", ""], beam=2), dict(hub.models[0].state_dict())

    def _train(self, option: str, updates: int):
        """One update from the checkpoint: its loss."""
        options = ("--batch-size", 8, "--no-save", "--disable-validation", "--share-all-embeddings")
        more = ("--max-update", updates, option, self.path)
        logging.disable(logging.NOTSET)  # the loss is in the log, which run_main switches off
        losses = values(train(self.world.data, self.out / "save", *options, *more).log, "loss")
        assert len(losses) == 1, losses
        return losses

    def _average(self):
        self._command("average", "--inputs", self.path, "--output", self.out / "out.pt")
        return dict(load(self.out / "out.pt")["model"])

    def _matrices(self):
        with logging_as_before():
            return mixing_matrices(self.path, 8)

    def _translate(self):
        files = ("--path", self.path, "--data", self.world.data)
        short = ("--beam", 2, "--max-len-b", 20, "--cpu", "--threads", 1)
        return self._command("translate", *files, *short, stdin=b"w01 w02 w03\n\nw30 w31\n")


def _same(found, right) -> bool:
    """Whether two results are equal; numbers and tensors bit for bit."""
    if isinstance(right, dict):
        return found.keys() == right.keys() and all(_same(found[key], right[key]) for key in right)
    if isinstance(right, (list, tuple)):
        return len(found) == len(right) and all(map(_same, found, right))
    return torch.equal(found, right) if isinstance(right, torch.Tensor) else found == right
