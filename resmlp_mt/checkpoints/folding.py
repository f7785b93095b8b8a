"""A checkpoint for those who only translate: affine maps folded, no state of the optimizer."""

from pathlib import Path

from resmlp_mt.checkpoints.inspection import check_not_folded, load_ours
from resmlp_mt.checkpoints.loading import save_checkpoint
from resmlp_mt.checkpoints.rebuilding import model_options, rebuild
from resmlp_mt.decoding.folding import fold_
from resmlp_mt.files import check_output


def fold_checkpoint(path: Path, output: Path) -> int:
    """Write a checkpoint with the affine maps folded, which fairseq loads like any other.

    The state of the optimizer goes. The weights grow: the last affine map goes into the output
    layer, which then shares no matrix with the embedding any more (V x C values), and the offset of
    token mixing has a row for each position (N x C values a layer).

    Returns:
        the number of affine maps that are left (adaptive softmax keeps one, for example).

    Raises:
        UserError: if *path* is folded already, or what
            :func:`~resmlp_mt.checkpoints.inspection.load_ours` and
            :func:`~resmlp_mt.checkpoints.loading.save_checkpoint` raise.
    """
    check_output(output, path)
    state = load_ours(path)
    check_not_folded(state, path)
    model = rebuild(state)
    fold_(model)
    model_options(state)["folded"] = True
    state["model"] = model.state_dict()
    state.pop("last_optimizer_state", None)
    save_checkpoint(state, output)
    return sum(name.endswith("alpha") for name in state["model"])
