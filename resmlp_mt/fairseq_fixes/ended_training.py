"""A training that has ended stays ended, and ``--patience`` counts on where one was stopped.

fairseq compares the updates with ``--max-update``, and the time with ``--stop-time-hours``, after
an update, so that the same command makes one more each time it is given. It keeps the best
validation, and how many came after it, in the memory of its process: a resumed training counts from
0, and one that has ended early trains on. It can go when the originals pass test_ended_training.py.
"""

import logging
from pathlib import Path

from fairseq.trainer import Trainer
from fairseq_cli import train as imported

from resmlp_mt.fairseq_fixes.checkpoint_errors import naming
from resmlp_mt.fairseq_fixes.replacing import replace_once, running

logger = logging.getLogger(__name__)
program = running(imported)


@replace_once(Trainer, "save_checkpoint")
def save_checkpoint(original, self, filename, extra_state):
    """fairseq counts the validation of this moment before it saves."""
    count = program.should_stop_early
    if hasattr(count, "best"):
        numbers = {"best": float(count.best), "num_runs": int(count.num_runs)}
        extra_state = {**extra_state, "patience": numbers}
    return original(self, filename, extra_state)


@replace_once(Trainer, "load_checkpoint")
def load_checkpoint(
    original, self, filename, reset_optimizer=False, *args, reset_meters=False, **kwargs
):
    """
    Raises:
        UserError: if the count of --patience in the checkpoint cannot be read.
    """
    extra_state = original(
        self, filename, reset_optimizer, *args, reset_meters=reset_meters, **kwargs
    )
    # where fairseq forgets the best validation, and where another training goes on in this folder
    another = Path(filename).resolve().parent != Path(self.cfg.checkpoint.save_dir).resolve()
    anew = extra_state is None or reset_optimizer or reset_meters or another
    if not anew and "patience" in extra_state:
        with naming(filename, "has an invalid count for --patience", "give an earlier checkpoint"):
            numbers = extra_state["patience"]
            count = {"best": float(numbers["best"]), "num_runs": int(numbers["num_runs"])}
        vars(program.should_stop_early).update(count)
    return extra_state


@replace_once(program, "train")
def train(original, cfg, trainer, *args):
    """Do nothing if the training has ended."""
    runs = getattr(program.should_stop_early, "num_runs", 0)
    if 0 < cfg.checkpoint.patience <= runs:
        logger.info(f"early stop since the last {runs} validations of this training were no better")
        return [None], True
    updates, most = trainer.get_num_updates(), cfg.optimization.max_update
    if 0 < most <= updates:
        logger.info(f"no update is left: {updates} were made, --max-update is {most}")
        return [None], True
    hours, most = trainer._previous_training_time / 3600, cfg.optimization.stop_time_hours
    if 0 < most < hours:
        logger.info(f"no time is left: {hours:.1f} hours were used, --stop-time-hours is {most:g}")
        return [None], True
    return original(cfg, trainer, *args)
