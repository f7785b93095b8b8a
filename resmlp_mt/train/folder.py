"""The folder of a training: what it was begun with, and the checkpoint that it resumes from."""

import re
import shutil
import zipfile
from pathlib import Path
from typing import List, Optional

from resmlp_mt.checkpoints import read_checkpoint, write_checkpoint
from resmlp_mt.errors import UserError
from resmlp_mt.files import read_own, whole_file, write_json
from resmlp_mt.text.dictionaries import TRAINING

LAST = "checkpoint_last.pt"
_CHECKPOINT = re.compile(r"checkpoint(\d+|_\d+_\d+|_last|_best)\.pt")

# what changes no result
WITHOUT_EFFECT = {
    *("--log-format", "--log-interval", "--tensorboard-logdir", "--wandb-project"),
    *("--num-workers", "--num-workers-valid", "--no-progress-bar", "--cpu"),
    *("--ddp-backend", "--distributed-backend", "--bucket-cap-mb", "--all-gather-list-size"),
}
# what may differ when a training is resumed: the same update gives the same weights
HARMLESS = {
    *WITHOUT_EFFECT,
    *("--max-update", "--max-epoch", "--stop-time-hours", "--save-dir", "--save-interval-updates"),
    *("--keep-interval-updates", "--keep-last-epochs", "--no-epoch-checkpoints"),
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
        self.root, self.manifest = Path(root), Path(root) / TRAINING

    @property
    def checkpoints(self) -> List[Path]:
        """Checkpoints, whole or not, the newest first."""
        found = [path for path in self.root.glob("*.pt") if _CHECKPOINT.fullmatch(path.name)]
        return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)

    @property
    def begun(self) -> Optional[dict]:
        """What a run that has a checkpoint was begun with. None if there is none, or it was not
        begun by :meth:`begin`."""
        return read_own(self.manifest, "settings") or None if self.checkpoints else None

    def check(self, settings: dict, data: dict) -> None:
        """Refuse to resume another run than the one that was begun here.

        Args:
            settings: everything that the result depends on, by option.
            data: what :func:`~resmlp_mt.train.data.check_data` returns.

        Raises:
            UserError: naming the first option or fact of the data that differs.
        """
        begun = self.begun
        if begun is None:
            return
        old = begun["settings"]
        lengths = [each.get("--max-update") for each in (old, settings)]
        for name in sorted({*old, *settings} - HARMLESS):
            if old.get(name) != settings.get(name):
                # the user wrote another --max-update, and a recipe took the option from it
                if all(lengths) and [old.get(name), settings.get(name)] == lengths:
                    (before,), (now,) = lengths
                    raise UserError(
                        f"{self.root}: its learning rate is planned for --max-update {before} "
                        f"({name}): a training of {now} is another one: choose another folder for "
                        f"--out, or --max-update {before}"
                    )
                raise UserError(
                    f"{self.root} holds a run begun {_with(name, old)}, not "
                    f"{_with(name, settings)}: choose another folder for --out, or the same options"
                )
        # a folder that an earlier version began knows other facts of its data
        for name in sorted(begun["data"].keys() & data.keys()):
            if data[name] != begun["data"][name]:
                raise UserError(
                    f'{self.root} holds a run begun with other data (train.json has another "{name}'
                    '"): choose another folder for --out, or the same data'
                )

    def begin(self, settings: dict, data: dict) -> None:
        """Write down what the run is begun or resumed with.

        Raises:
            UserError: if a file of another program has the name.
        """
        read_own(self.manifest, "settings")
        write_json(self.manifest, {"settings": settings, "data": data})

    def mend(self, processes: int) -> List[str]:
        """Make ``checkpoint_last.pt`` one that *processes* can resume from.

        fairseq without this package copies it in place: a kill leaves half of it. And fairseq
        counts the place in an epoch in batches of each process.

        Returns:
            what was done, a line each.

        Raises:
            UserError: if checkpoints are there, and not one of them is whole, or it is not known
                what they were begun with.
        """
        if not self.checkpoints:
            return []
        if self.begun is None:
            raise UserError(
                f"{self.root} has checkpoints but no train.json, which says what they were begun "
                "with: choose another folder for --out"
            )
        last, done = self.root / LAST, []
        if not zipfile.is_zipfile(last):
            whole = [path for path in self.checkpoints if zipfile.is_zipfile(path)]
            if not whole:
                raise UserError(
                    f"{self.root}: every checkpoint is damaged or cut off: delete them to start "
                    "from the beginning"
                )
            with whole_file(last) as temporary:
                shutil.copyfile(whole[0], temporary)
            done.append(f"{LAST} was missing or cut off: resumes from {whole[0].name}")
        state = read_checkpoint(last, mapped=True)
        distributed = state["cfg"]["distributed_training"]
        old = distributed["distributed_world_size"]
        if old != processes:
            # a checkpoint is written after an update, and the batches of an update are a multiple
            # of either number
            place = state["extra_state"]["train_iterator"]
            place["iterations_in_epoch"] = place["iterations_in_epoch"] * old // processes
            distributed["distributed_world_size"] = processes
            write_checkpoint(state, last)
            plural = "es" * (processes > 1)
            done.append(
                f"resumes with {processes} process{plural} at the batch where {old} stopped"
            )
        return done
