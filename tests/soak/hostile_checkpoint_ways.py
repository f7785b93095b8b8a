"""Every way in which something here loads a checkpoint, called in this process."""

import logging
import shutil
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional

import torch
from cli import call, hypotheses, load, train, values
from small_world import EPOCHS, Said, World, run_command

from resmlp_mt import ResMLPModel
from resmlp_mt.analysis.cross_attention import cross_attention
from resmlp_mt.checkpoints.inspection import mixing_matrices
from resmlp_mt.compat.program_errors import explain
from resmlp_mt.compat.quiet import logging_as_before
from resmlp_mt.errors import UserError

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
        path: what is loaded: to be written before :meth:`try_all`.
    """

    def __init__(self, world: World, folder: Path):
        self.world, self.folder = world, folder
        self.path = folder / "in" / "checkpoint1.pt"
        self.path.parent.mkdir(parents=True)
        self.source, self.target = folder / "text.xx", folder / "text.yy"
        self.source.write_text("".join(f"{line}\n" for line in SENTENCES))
        self.target.write_text("w02\n\nw31\n")
        self._ways: Dict[str, Callable[[Path], object]] = {
            "generate": self._generate,
            "interactive": self._interactive,
            "hub": self._hub,
            "resume": lambda out: self._train("--restore-file"),
            "finetune": lambda out: self._train("--finetune-from-model"),
            "average": self._average,
            "fold": self._fold,
            "prune": self._prune,
            "plot": self._matrices,
            "attention": self._attention,
            "translate": self._translate,
            "distill": self._distill,
        }
        self.names = tuple(self._ways)
        self._right: Dict[str, object] = {}

    def _load(self, way: str):
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        try:
            return self._ways[way](out)
        except (Refused, SystemExit):
            left = [path.name for path in out.rglob("*.pt*")]
            assert not left, f"half-written: {left}"
            raise

    def _right_one(self, way: str):
        """What the untouched checkpoint gives."""
        if way not in self._right:
            given = self.path.read_bytes()
            shutil.copy(self.world.checkpoint, self.path)
            self._right[way] = self._load(way)
            self.path.write_bytes(given)
        return self._right[way]

    def try_all(self, content: bytes, expected: str, other=frozenset(), ways=None) -> List[Outcome]:
        """Load *content* by every way.

        Args:
            content: the file.
            expected, other: as of :class:`hostile_checkpoint_cases.Case`.
            ways: some of the names; default: all.
        """
        self.path.write_bytes(content)
        return [self._try(way, expected, way in other) for way in ways or self.names]

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
            elif not may_differ and not _same(found, self._right_one(way)):
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

    def _check(self, said: Said) -> None:
        if said.status:
            raise Refused("\n".join(said.err))

    def _generate(self, out: Path):
        options = ("--path", self.path, "--beam", 2, "--cpu", "--num-workers", 0)
        done = self._fairseq(lambda: call("generate", self.world.data, *options))
        return hypotheses(done.out)

    def _interactive(self, out: Path):
        options = ("--path", self.path, "--beam", 2, "--cpu")
        text = "▁ w 01\n\n"
        done = self._fairseq(lambda: call("interactive", self.world.data, *options, stdin=text))
        return hypotheses(done.out)

    def _hub(self, out: Path):
        folder, name = str(self.path.parent), self.path.name
        data = str(self.world.data)
        hub = self._in_process(
            lambda: ResMLPModel.from_pretrained(folder, name, data_name_or_path=data)
        )
        return hub.translate(["▁ w 01", ""], beam=2), dict(hub.models[0].state_dict())

    def _train(self, option: str):
        """One update from the checkpoint: its loss."""
        options = ("--batch-size", 8, "--no-save", "--disable-validation", "--share-all-embeddings")
        updates = 8 * EPOCHS + 1 if option == "--restore-file" else 1
        more = ("--max-update", updates, option, self.path)
        save_dir = self.folder / "out" / "save"
        logging.disable(logging.NOTSET)  # the loss is in the log, which run_main switches off
        done = self._fairseq(lambda: train(self.world.data, save_dir, *options, *more))
        losses = values(done.log, "loss")
        assert len(losses) == 1, losses
        return losses

    def _average(self, out: Path):
        self._check(run_command("average", "--inputs", self.path, "--output", out / "out.pt"))
        return dict(load(out / "out.pt")["model"])

    def _fold(self, out: Path):
        self._check(run_command("fold", self.path, "--output", out / "out.pt"))
        return dict(load(out / "out.pt")["model"])

    def _prune(self, out: Path):
        self._check(run_command("prune", self.path, "-o", out / "out.pt"))
        return dict(load(out / "out.pt")["model"])

    def _in_process(self, run: Callable):
        try:
            with logging_as_before():
                return run()
        except UserError as error:
            raise Refused(str(error)) from None

    def _matrices(self, out: Path):
        return self._in_process(lambda: mixing_matrices(self.path, 8))

    def _attention(self, out: Path):
        found = self._in_process(
            lambda: cross_attention(self.path, self.world.data, "w01", self.world.spm, "w02")
        )
        return found.weights

    def _translate(self, out: Path):
        command = (
            *("translate", "--path", self.path, "--data", self.world.data, "--threads", 1),
            *("--input", self.source, "--output", out / "out", "--cpu"),
            *("--beam", 2, "--max-len-b", 20),
        )
        self._check(run_command(*command))
        return (out / "out").read_text()

    def _distill(self, out: Path):
        command = (
            *("distill", "--path", self.path, "--data", self.world.data, "--cpu"),
            *("--source", self.source, "--target", self.target, "--out", out / "train"),
            *("--beam", 2, "--max-len-b", 20, "--failures", "keep"),
        )
        self._check(run_command(*command))
        return (out / "train.yy").read_text()


def _same(found, right) -> bool:
    """Whether two results are equal; numbers and tensors bit for bit."""
    if isinstance(right, dict):
        return found.keys() == right.keys() and all(_same(found[key], right[key]) for key in right)
    if isinstance(right, (list, tuple)):
        return len(found) == len(right) and all(map(_same, found, right))
    if isinstance(right, torch.Tensor):
        return torch.equal(found, right)
    return found == right
