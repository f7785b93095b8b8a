"""Every way in which something here loads a checkpoint, called in this process."""

import logging
import shutil
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional

import torch
from command import resmlp
from fairseq_programs import call, hypotheses, load, train, values
from trained_models import EPOCHS, World

from resmlp_mt import ResMLPModel
from resmlp_mt.fairseq_fixes import logging_as_before
from resmlp_mt.fairseq_fixes.errors_and_noise import explain
from resmlp_mt.plot.mixing_matrices import mixing_matrices

SENTENCES = ["w01 w02 w03", "", "w30 w31"]


class Refused(Exception):
    """Its text is the one line that a user would see."""


class Outcome(NamedTuple):
    """
    Attributes:
        way: how the checkpoint was loaded.
        problem: what is wrong with what happened, or None.
        said: the line that it was refused with, or None where it was loaded.
    """

    way: str
    problem: Optional[str]
    said: Optional[str]


class Ways:
    """
    Args:
        world: the untouched checkpoint, its data and text.
        folder: an empty one, for files.

    Attributes:
        names: the ways.
        path: what is loaded.
    """

    def __init__(self, world: World, folder: Path):
        self.world, self.out = world, folder / "out"
        self.path = folder / "in" / "checkpoint1.pt"
        self.path.parent.mkdir(parents=True)
        self.source, self.target = folder / "text.xx", folder / "text.yy"
        self.source.write_text("".join(f"{line}\n" for line in SENTENCES))
        self.target.write_text("w02\n\nw31\n")
        self._ways: Dict[str, Callable[[], object]] = {
            "generate": self._generate,
            "interactive": self._interactive,
            "hub": self._hub,
            "resume": lambda: self._train("--restore-file", 8 * EPOCHS + 1),
            "finetune": lambda: self._train("--finetune-from-model", 1),
            "average": lambda: self._weights("average", "--inputs", self.path, "--output"),
            "plot": self._matrices,
            "translate": self._translate,
        }
        self.names = tuple(self._ways)
        self._right: Dict[str, object] = {}

    def try_all(self, content: bytes, expected: str, other=frozenset(), ways=None) -> List[Outcome]:
        """Load *content* by every way.

        Args:
            content: the file.
            expected, other: as of :class:`hostile_checkpoint_cases.Case`.
            ways: some of the names; default: all.
        """
        outcomes = []
        for way in ways or self.names:
            if way not in self._right:  # what the untouched checkpoint gives
                shutil.copy(self.world.checkpoint, self.path)
                self._right[way] = self._load(way)
            self.path.write_bytes(content)
            outcomes.append(self._try(way, expected, way in other))
        return outcomes

    def _load(self, way: str):
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()
        try:
            return self._ways[way]()
        except (Refused, SystemExit):
            left = [path.name for path in self.out.rglob("*.pt*")]
            assert not left, f"half-written: {left}"
            raise

    def _try(self, way: str, expected: str, may_differ: bool) -> Outcome:
        said = problem = None
        try:
            found = self._load(way)
        except Refused as refused:
            said = str(refused)
            if "\n" in said or not said:
                problem = "said more or less than one line"
            elif str(self.path) not in said and str(self.world.data) not in said:
                problem = "the file is not named"
            elif expected == "loaded":
                problem = "refused"
        except BaseException as error:
            problem = f"{type(error).__name__} instead of one line: {error}"
        else:
            if expected == "refused" and not may_differ:
                problem = "loaded"
            elif not may_differ and not _same(found, self._right[way]):
                problem = f"loaded, and is not what was saved, but {str(found)[:100]}"
        if problem and said:
            problem += f": {said}"
        return Outcome(way, problem, said)

    def _fairseq(self, run: Callable):
        try:
            return run()
        except SystemExit as error:
            raise Refused("" if error.code in (0, None) else str(error.code)) from None
        except Exception as error:
            message = explain(error)
            if message is None:
                raise
            raise Refused(" ".join(message.split())) from None

    def _command(self, *words) -> None:
        said = resmlp(*words)
        if said.status:
            raise Refused(said.err.rstrip("\n"))

    def _in_process(self, run: Callable):
        with logging_as_before():
            return self._fairseq(run)

    def _generate(self):
        options = ("--path", self.path, "--beam", 2, "--cpu", "--num-workers", 0)
        done = self._fairseq(lambda: call("generate", self.world.data, *options))
        return hypotheses(done.out)

    def _interactive(self):
        options = ("--path", self.path, "--beam", 2, "--cpu")
        text = "▁ w 01\n\n"
        done = self._fairseq(lambda: call("interactive", self.world.data, *options, stdin=text))
        return hypotheses(done.out)

    def _hub(self):
        where = (str(self.path.parent), self.path.name, str(self.world.data))
        hub = self._in_process(lambda: ResMLPModel.from_pretrained(*where))
        return hub.translate(["▁ w 01", ""], beam=2), dict(hub.models[0].state_dict())

    def _train(self, option: str, updates: int):
        """One update from the checkpoint: its loss."""
        options = ("--batch-size", 8, "--no-save", "--disable-validation", "--share-all-embeddings")
        more = ("--max-update", updates, option, self.path)
        logging.disable(logging.NOTSET)  # the loss is in the log, which run_main switches off
        done = self._fairseq(lambda: train(self.world.data, self.out / "save", *options, *more))
        losses = values(done.log, "loss")
        assert len(losses) == 1, losses
        return losses

    def _weights(self, *words):
        """What a command writes to the file that is named last."""
        self._command(*words, self.out / "out.pt")
        return dict(load(self.out / "out.pt")["model"])

    def _matrices(self):
        return self._in_process(lambda: mixing_matrices(self.path, 8))

    def _translate(self):
        self._command(
            *("translate", "--path", self.path, "--data", self.world.data, "--threads", 1),
            *("--input", self.source, "--output", self.out / "out", "--cpu"),
            *("--beam", 2, "--max-len-b", 20),
        )
        return (self.out / "out").read_text()


def _same(found, right) -> bool:
    """Whether two results are equal; numbers and tensors bit for bit."""
    if isinstance(right, dict):
        return found.keys() == right.keys() and all(_same(found[key], right[key]) for key in right)
    if isinstance(right, (list, tuple)):
        return len(found) == len(right) and all(map(_same, found, right))
    if isinstance(right, torch.Tensor):
        return torch.equal(found, right)
    return found == right
