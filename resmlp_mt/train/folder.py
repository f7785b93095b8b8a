"""The folder of a training: what it was begun with, and the checkpoint that it resumes from."""

import re
import shutil
import zipfile
from pathlib import Path
from typing import Optional

from resmlp_mt.checkpoints.loading import load_checkpoint, save_checkpoint
from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json, whole_file, write_json

LAST = "checkpoint_last.pt"

# what may differ when a run is resumed: the same update gives the same weights
HARMLESS = {
    *("--max-update", "--max-epoch", "--stop-time-hours", "--save-dir", "--save-interval-updates"),
    *("--keep-interval-updates", "--keep-last-epochs", "--no-epoch-checkpoints"),
    *("--log-format", "--log-interval", "--tensorboard-logdir", "--wandb-project"),
    *("--num-workers", "--num-workers-valid", "--no-progress-bar", "--cpu"),
    *("--ddp-backend", "--distributed-backend", "--bucket-cap-mb", "--all-gather-list-size"),
}


def _with(name: str, settings: dict) -> str:
    if name not in settings:
        return f"without {name}"
    return f"with {' '.join([name, *settings[name]])}"


class TrainingFolder:
    """
    Args:
        root: the folder of checkpoints. It is made before :meth:`begin`.
    """

    def __init__(self, root: Path):
        self.root, self.manifest = Path(root), Path(root) / "train.json"

    @property
    def checkpoints(self) -> list:
        """Checkpoints that are whole, the newest first: fairseq without this package copies
        ``checkpoint_last.pt`` from another in place, and if it is killed leaves half of it."""
        paths = [
            path
            for path in self.root.glob("checkpoint*.pt")
            if re.fullmatch(r"checkpoint(\d+|_\d+_\d+|_last|_best)\.pt", path.name)
        ]
        whole = [path for path in paths if zipfile.is_zipfile(path)]
        return sorted(whole, key=lambda path: path.stat().st_mtime, reverse=True)

    @property
    def begun(self) -> Optional[dict]:
        """What a run that has a checkpoint was begun with. None if there is none, or it was not
        begun by :meth:`begin`."""
        if self.has_checkpoints and self.manifest.is_file():
            return read_json(self.manifest)
        return None

    @property
    def has_checkpoints(self) -> bool:
        """Whether there is something to resume from, or at least a part of it."""
        return any(self.root.glob("checkpoint*.pt"))

    def check(self, settings: dict, data: dict) -> None:
        """Refuse to resume another run than the one that was begun here.

        Args:
            settings: everything that the result depends on, by option.
            data: what :func:`~resmlp_mt.train.data.check_data` returns.

        Raises:
            UserError: naming the first option that differs.
        """
        begun = self.begun
        if begun is None:
            return
        old = begun["settings"]
        for name in sorted({*old, *settings} - HARMLESS):
            if old.get(name) != settings.get(name):
                raise UserError(
                    f"{self.root} holds a run begun {_with(name, old)}, not "
                    f"{_with(name, settings)}: choose another folder for --out, or the same options"
                )
        if begun["data"] != data:
            raise UserError(
                f"{self.root} holds a run begun with other data (train.json has a checksum of its "
                "dictionary and its size): choose another folder for --out, or the same data"
            )

    def begin(self, settings: dict, data: dict) -> None:
        """Write down what the run is begun or resumed with."""
        write_json(self.manifest, {"settings": settings, "data": data})

    def mend(self, processes: int) -> Optional[str]:
        """Make ``checkpoint_last.pt`` one that *processes* can resume from.

        Two things that fairseq leaves undone: a copy that was cut off by a kill, and the place in
        an epoch, which it counts in batches of each process.

        Returns:
            what was done, in a line to be shown, or None.

        Raises:
            UserError: if checkpoints are there, and not one of them is whole, or it is not known
                what they were begun with.
        """
        if not self.has_checkpoints:
            return None
        if self.begun is None:
            raise UserError(
                f"{self.root} has checkpoints but no train.json, which says what they were begun "
                "with: choose another folder for --out"
            )
        last, done = self.root / LAST, []
        if not zipfile.is_zipfile(last):
            if not self.checkpoints:
                raise UserError(
                    f"{self.root}: every checkpoint is damaged or cut off: delete them to start "
                    "from the beginning"
                )
            newest = self.checkpoints[0]
            with whole_file(last) as temporary:
                shutil.copyfile(newest, temporary)
            done.append(f"{LAST} was missing or cut off: resumes from {newest.name}")
        done.append(_move_place(last, processes))
        return "; ".join(filter(None, done)) or None


def _move_place(path: Path, processes: int) -> Optional[str]:
    """Count the place in the epoch in batches of *processes*, not of those that wrote *path*."""
    state = load_checkpoint(path, mapped=True, checked=False)
    old = state["cfg"]["distributed_training"]["distributed_world_size"]
    if old == processes:
        return None
    state = load_checkpoint(path)
    place = state["extra_state"]["train_iterator"]
    # a checkpoint is written after an update, and the batches of an update are a multiple of
    # either number
    place["iterations_in_epoch"] = place["iterations_in_epoch"] * old // processes
    state["cfg"]["distributed_training"]["distributed_world_size"] = processes
    save_checkpoint(state, path)
    return f"resumes with {processes} process{'es' * (processes > 1)} from the same batch of {old}"
