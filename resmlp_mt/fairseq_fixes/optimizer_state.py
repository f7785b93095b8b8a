"""Training resumes with the state of its optimizer, and that of numbers, or not at all.

From a file without one (of ``--no-save-optimizer-state``, averaged, pruned) fairseq 0.12 takes the
weights and the place in the data, says nothing, and counts updates from 0: warm-up and the sums of
Adagrad begin again in the middle of a run. From a state that is NaN all weights are NaN after one
update, and are saved. From one of other shapes the first update ends with an error of PyTorch. It
can go when ``Trainer.load_checkpoint`` refuses all three (test_cli_errors.py,
test_hostile_checkpoints.py).
"""

from fairseq.optim import FairseqOptimizer
from fairseq.trainer import Trainer
from torch import Tensor

from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes.checkpoint_file import check_finite
from resmlp_mt.fairseq_fixes.replacing import replace_once

# what the optimizers of PyTorch and fairseq keep of each weight; the rest has shapes of its own
_LIKE_THE_WEIGHTS = {
    *("sum", "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "exp_inf"),
    *("momentum_buffer", "square_avg", "acc_delta"),
}


@replace_once(Trainer, "load_checkpoint")
def load_checkpoint(original, self, filename, reset_optimizer=False, *args, **kwargs):
    """
    Raises:
        UserError: naming the file.
    """
    extra_state = original(self, filename, reset_optimizer, *args, **kwargs)
    # a folded model refuses to train by itself, and says why
    if extra_state is None or reset_optimizer or getattr(self.cfg.model, "folded", False):
        return extra_state
    if self.get_num_updates() != self._optim_history[-1]["num_updates"]:
        raise UserError(
            f"{filename} has no state of an optimizer, so training cannot resume from it: "
            "--finetune-from-model takes its weights alone (and --reset-optimizer its place in "
            "the data, too)"
        )
    _check_state(self.optimizer, filename)
    return extra_state


def _check_state(optimizer: FairseqOptimizer, path: str) -> None:
    """What the optimizer keeps for each parameter, tensors or not: whether it can go on from it.

    Raises:
        UserError: if it cannot.
    """
    # a composite optimizer has no state of its own, but those of its parts
    of_parameters = getattr(optimizer.optimizer, "state", {})
    for number, (parameter, values) in enumerate(of_parameters.items()):
        check_finite({f"optimizer state {number}.{name}": v for name, v in values.items()}, path)
        for name, value in values.items():
            alike = isinstance(value, Tensor) and name in _LIKE_THE_WEIGHTS
            if alike and value.shape != parameter.shape:
                raise UserError(
                    f"{path}: optimizer state {number}.{name} has shape {tuple(value.shape)}, its "
                    f"parameter {tuple(parameter.shape)}: give an earlier checkpoint"
                )
