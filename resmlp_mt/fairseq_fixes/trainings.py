"""fairseq-train: resumes exactly, keeps whole checkpoints, says in one line why it diverged."""

import shutil
from pathlib import Path

import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.nan_detector import NanDetector
from fairseq.trainer import Trainer
from fairseq_cli import train as imported

from resmlp_mt.checkpoints.checking import check_finite
from resmlp_mt.checkpoints.files import write_checkpoint, writing
from resmlp_mt.fairseq_fixes.messages import naming
from resmlp_mt.patching import replace, running
from resmlp_mt_runtime.errors import UserError

program = running(imported)

# ---- resuming -------------------------------------------------------------------------------


@replace(Trainer, "load_checkpoint")
def load_checkpoint(
    original, self, filename, reset_optimizer=False, *args, reset_meters=False, **kwargs
):
    """A training resumes exactly, or is refused.

    fairseq counts updates from 0 if a file has no optimizer state, accepts one that is NaN, resumes
    elsewhere with another number of processes, and forgets the count of ``--patience``. It can go
    when the original passes ``test_the_optimizer_has_nan``,
    ``test_another_number_of_processes`` and ``test_counts_from_0``."""
    kwargs["reset_meters"] = reset_meters
    with naming(filename, "cannot be resumed from"):
        extra_state = original(self, filename, reset_optimizer, *args, **kwargs)
        if extra_state is None:
            return None
        if not reset_optimizer:
            if self.get_num_updates() != self._optim_history[-1]["num_updates"]:
                raise UserError(
                    f"{filename} has no state of an optimizer, so training cannot resume from it: "
                    "--finetune-from-model takes its weights alone (and --reset-optimizer its "
                    "position in the data, too)"
                )
            states = getattr(self.optimizer.optimizer, "state", {})  # a composite one has none
            for number, values in enumerate(states.values()):
                named = {f"optimizer state {number}.{name}": v for name, v in values.items()}
                check_finite(named, filename)
        before, now = extra_state.pop("processes", None), self.data_parallel_world_size
        if isinstance(before, int) and before != now:  # the position counts batches of each process
            position = extra_state["train_iterator"]
            position["iterations_in_epoch"] = position.get("iterations_in_epoch", 0) * before // now
        # reset the count where fairseq resets its best score, or when resuming from another folder
        another = Path(filename).resolve().parent != Path(self.cfg.checkpoint.save_dir).resolve()
        if "patience" in extra_state and not (reset_optimizer or reset_meters or another):
            count = extra_state["patience"]
            numbers = {"best": float(count["best"]), "num_runs": int(count["num_runs"])}
            vars(program.should_stop_early).update(numbers)
    return extra_state


@replace(distributed_utils, "_broadcast_object_slow")
def broadcast_object(original, obj, src_rank, group, dist_device):
    """Several processes can resume.

    Rank 0 sends the others its checkpoint with options in a DictConfig, which PyTorch's
    weights-only loader refuses. It can go when the original passes test_workers.py."""
    box = [obj]
    torch.distributed.broadcast_object_list(box, src_rank, group, dist_device)
    return box[0]


@replace(Trainer, "save_checkpoint")
def save_checkpoint(original, self, filename, extra_state):
    """A checkpoint has the number of processes and the count of ``--patience``.

    :func:`load_checkpoint` needs them, and this goes with it (``test_counts_from_0``)."""
    extra_state = {**extra_state, "processes": self.data_parallel_world_size}
    count = program.should_stop_early  # fairseq has just brought its count up to date
    if hasattr(count, "best"):
        numbers = {"best": float(count.best), "num_runs": int(count.num_runs)}
        extra_state = {**extra_state, "patience": numbers}
    return original(self, filename, extra_state)


# ---- whole checkpoints ----------------------------------------------------------------------

ROOM = "make room there, then the same command resumes from the last checkpoint"


@replace(checkpoint_utils, "torch_persistent_save")
def save(original, state: dict, path: str, async_write: bool = False) -> None:
    """A checkpoint is written whole or not at all.

    After an error fairseq 0.12 appends it to the half it had written. It can go when the original
    passes ``test_the_middle_of_a_write``."""
    if async_write or not PathManager.supports_rename(path):
        return original(state, path, async_write=async_write)
    return write_checkpoint(state, Path(path), ROOM)


@replace(PathManager, "copy")
def copy(original, source: str, path: str, overwrite: bool = False) -> bool:
    """A checkpoint is copied whole or not at all.

    fairseq copies in place: a kill or a full disk leaves half of one. It can go when the original
    passes ``test_the_middle_of_a_write``."""
    if not overwrite or not PathManager.supports_rename(path):
        return original(source, path, overwrite=overwrite)
    with writing(Path(path), ROOM) as temporary:
        shutil.copyfile(source, temporary)
    return True


# ---- divergence -----------------------------------------------------------------------------


@replace(NanDetector, "add_hooks")
def add_hooks(original, detector, module) -> None:
    """Hooks that are to name the module that overflowed are left out.

    They end in a StopIteration at the encoder's output. It can go when without it
    ``test_divergence_ends_in_one_line`` passes."""


@replace(Trainer, "train_step")
def train_step(original, trainer, *args, **kwargs):
    """A training that diverges says so in one line.

    It can go when the original passes ``test_divergence_ends_in_one_line``."""
    try:
        return original(trainer, *args, **kwargs)
    except FloatingPointError as error:
        # several workers compare the norms of their gradients first, and nan is not equal to nan
        norms = str(error).partition("grad_norm across the workers")[2]
        if str(error) == "gradients are Nan/Inf" or "nan" in norms or "inf" in norms:
            what = (
                f"the gradients of update {trainer.get_num_updates() + 1} are not finite (the "
                f"weights before it: {trainer.cfg.checkpoint.save_dir}/crash.pt)"
            )
        elif "Minimum loss scale reached" in str(error):
            what = "the minimum loss scale is reached"
        else:
            raise
        raise UserError(
            f"training has diverged: {what}: lower --lr, raise --warmup-updates, or set --clip-norm"
        ) from error
