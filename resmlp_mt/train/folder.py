"""A training's folder: what it was begun with, and the checkpoint that it goes on from."""

import os
import re
import shutil
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Optional

from resmlp_mt.checkpoints.averaging import load_checkpoint, save_checkpoint
from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json, write_json
from resmlp_mt.prepare.recipes import Pair

LAST = "checkpoint_last.pt"

# what may differ when a run goes on: the weights that it ends with do not depend on it
HARMLESS = {
    *("--max-update", "--save-dir", "--save-interval-updates", "--keep-interval-updates"),
    *("--log-format", "--log-interval", "--tensorboard-logdir", "--wandb-project"),
    *("--num-workers", "--num-workers-valid", "--no-progress-bar", "--cpu"),
    *("--ddp-backend", "--distributed-backend", "--bucket-cap-mb", "--all-gather-list-size"),
}


def check_data(data: Path, pair: Pair) -> dict:
    """Look at a folder of binary data.

    Returns:
        what tells it from another: the dictionaries' checksum, the training text's size in bytes.

    Raises:
        UserError: if it lacks a file, or has two different dictionaries.
    """
    sides = (pair.source, pair.target)
    names = [f"dict.{side}.txt" for side in sides]
    names += [
        f"{split}.{pair.name}.{side}.{kind}"
        for split in ("train", "valid")
        for side in sides
        for kind in ("bin", "idx")
    ]
    for name in names:
        if not (data / name).is_file():
            raise UserError(
                f"{data / name}: no such file: give data-bin as prepare.py {pair.name} made it"
            )
    dictionaries = [(data / name).read_bytes() for name in names[:2]]
    if dictionaries[0] != dictionaries[1]:
        raise UserError(
            f"{data / names[0]} and {names[1]} differ, and one embedding for both sides needs one "
            "dictionary: make the data with fairseq-preprocess --joined-dictionary"
        )
    return {
        "dictionary": sha256(dictionaries[0]).hexdigest()[:16],
        "train_bytes": sum((data / n).stat().st_size for n in names if n.startswith("train.")),
    }


def _told(name: str, settings: dict) -> str:
    if name not in settings:
        return f"without {name}"
    return f"with {' '.join([name, *settings[name]])}"


class TrainingFolder:
    """
    Args:
        root: the folder of checkpoints; made by :meth:`begin`.
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
        """What a run that has a checkpoint was begun with; None if there is none, or it was not
        begun by :meth:`begin`."""
        if self.has_checkpoints and self.manifest.is_file():
            return read_json(self.manifest)
        return None

    @property
    def has_checkpoints(self) -> bool:
        """Whether there is something to go on from, or at least a part of it."""
        return any(self.root.glob("checkpoint*.pt"))

    def check(self, settings: dict, data: dict) -> None:
        """Refuse to go on with another run than the one that was begun here.

        Args:
            settings: everything that the result depends on, by option.
            data: what :func:`check_data` says of it.

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
                    f"{self.root} holds a run begun {_told(name, old)}, not "
                    f"{_told(name, settings)}: choose another folder for --out, or the same options"
                )
        if begun["data"] != data:
            raise UserError(
                f"{self.root} holds a run begun with other data (train.json has its dictionary's "
                "checksum and its size): choose another folder for --out, or the same data"
            )

    def begin(self, settings: dict, data: dict, gpus: int) -> None:
        """Write down what the run is begun, or goes on, with."""
        self.root.mkdir(parents=True, exist_ok=True)
        write_json(self.manifest, {"settings": settings, "data": data, "gpus": gpus})

    def mend(self, gpus: int) -> Optional[str]:
        """Make ``checkpoint_last.pt`` one that *gpus* processes can go on from.

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
            newest, partial = self.checkpoints[0], Path(f"{last}.partial")
            shutil.copyfile(newest, partial)
            os.replace(partial, last)
            done.append(f"{LAST} was missing or cut off: goes on from {newest.name}")
        if self.begun["gpus"] != gpus:
            done.append(self._move_place(last, gpus))
        return "; ".join(filter(None, done)) or None

    def _move_place(self, path: Path, gpus: int) -> Optional[str]:
        state = load_checkpoint(path)
        distributed = state["cfg"]["distributed_training"]
        old = distributed["distributed_world_size"]
        if old == gpus:
            return None
        place = state["extra_state"]["train_iterator"]
        # a checkpoint is written after an update, and the batches of an update are a multiple of
        # either number
        place["iterations_in_epoch"] = place["iterations_in_epoch"] * old // gpus
        distributed["distributed_world_size"] = gpus
        save_checkpoint(state, path)
        return f"goes on with {gpus} GPU{'s' * (gpus > 1)} from the same batch of {old}'s"
