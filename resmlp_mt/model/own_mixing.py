"""A user's mixing, tried once when a model is built: what would be wrong only in decoding, or only
in a batch, is said before hours of training."""

import logging
from copy import deepcopy

import torch
from torch import Tensor, nn

from resmlp_mt.checkpoints.checking import finite, repeated
from resmlp_mt.model.memory import BeamHistory
from resmlp_mt.model.mixing import TOKEN_MIXING, TokenMixing
from resmlp_mt.model.padding import zero_padding
from resmlp_mt_runtime.errors import UserError

logger = logging.getLogger(__name__)
TRIED = 40  # positions


def warn_if_wrong(cfg) -> None:
    """Warn if a user's mixing depends on padding or, in a decoder, on later positions or other
    sentences, computes something else in decoding than in training, or fails only there. Raises a
    UserError if no program could read its checkpoints. Leaves the random numbers as they are."""
    kind = TOKEN_MIXING.get(str(cfg.token_mixing))
    if kind is None or kind.__module__ == TokenMixing.__module__:
        return
    decoder = "a decoder", True, find_fault, cfg.decoder.embed_dim, cfg.max_target_positions
    encoder = "an encoder", False, find_leak, cfg.encoder.embed_dim, cfg.max_source_positions
    for side, causal, find, *sizes in (decoder, encoder):
        with torch.device("cpu"), torch.random.fork_rng(devices=[]), torch.no_grad():
            try:
                # a copy: layers may share weights
                mixing = deepcopy(kind(cfg, *sizes, causal)).eval()
                check_stored(mixing, cfg.token_mixing)
                fault = find(enlarged(mixing), *sizes)
            except UserError:
                raise
            except Exception as error:
                fault = f"raises {error!r:.200}"
        if fault:
            where = f"tried in {side} on the CPU"
            logger.warning(f"--token-mixing {cfg.token_mixing}, {where}, {fault}")
            return


def check_stored(mixing: nn.Module, name: str) -> None:
    """Refuse what :func:`read_checkpoint` would refuse after hours of training."""
    for key, value in mixing.state_dict().items():
        if value.is_complex() or repeated(value) or not finite(value):
            raise UserError(
                f"--token-mixing {name}: {key} has complex, repeated or infinite values, which a "
                "checkpoint cannot have: exclude it with register_buffer(..., persistent=False)"
            )


def enlarged(mixing: nn.Module) -> nn.Module:
    """The *mixing*, with no weights near 0, which would hide what others do."""
    for weight in mixing.parameters():
        if weight.requires_grad and weight.numel():
            largest = weight.abs().max()
            if largest == 0:
                weight += 0.1 * torch.randn_like(weight).sign()
            elif largest < 0.1:
                weight *= 0.1 / largest
    return mixing


def find_leak(mixing: nn.Module, channels: int, positions: int) -> str:
    """What is wrong with an encoder's *mixing*; "" if nothing is found."""
    longest = min(positions, TRIED)
    length = longest // 2
    x = torch.randn(longest, 2, channels)
    padding_mask = torch.zeros(2, longest, dtype=torch.bool)
    padding_mask[1, length:] = True
    x = zero_padding(x, padding_mask)
    try:
        padded = mixing(x.clone(), padding_mask, None)
    except Exception:  # training raises it, too
        return ""
    alone = mixing(x[:length, 1:].clone(), None, None)
    if not alone.isfinite().all():  # training shows it
        return ""
    if not padded.isfinite().all():  # attention to nothing; cross-attention would spread it
        return "is NaN or infinite at padding: see padding_mask in docs/options.md"
    if (padded[:length, 1:] - alone).abs().max() > 1e-2 * alone.abs().max():
        return "depends on padding: see padding_mask in docs/options.md"
    return ""


def find_fault(mixing: nn.Module, channels: int, positions: int) -> str:
    """What is wrong with a causal *mixing*; "" if nothing is found."""
    x, history = torch.randn(min(positions, 1024), 3, channels), BeamHistory()
    try:
        whole, again = (mixing(x.clone(), None, None) for _ in range(2))
    except Exception as error:
        try:
            mixing(x[:1].clone(), None, None)
        except Exception:  # training raises it, too, unless the mixing needs a GPU
            return ""
        return f"raises {error!r:.200} for a sentence of {len(x)} tokens"
    if whole.shape != x.shape:
        return f"returns {[*whole.shape]}, not {[*x.shape]}"
    if not whole.isfinite().all():  # training shows it
        return ""
    whole = whole[:TRIED]
    rounding = 1e-2 * whole.abs().max()  # of bf16, too

    def differ(a: Tensor, b: Tensor) -> bool:
        return not ((a - b).abs() <= rounding).all()  # NaN differs

    if differ(again[:TRIED], whole):
        return "is random even in evaluation: make that depend on self.training"
    for position, newest in enumerate(x[:TRIED]):
        y = mixing(x[: position + 1].clone(), None, None)[position]
        if differ(y, whole[position]):
            return "depends on later positions, which do not exist in decoding: leave them out"
        history.advance(3, positions, x.device)
        step = mixing(newest.roll(position, 0), None, history.begin(mixing)).roll(-position, 0)
        if differ(step, y):
            return "computes something else in decoding: see history in docs/options.md"
        history.reorder(torch.arange(3).roll(1))  # as a beam search may
    alone = mixing(x[:, :1].clone(), None, None)
    if differ(alone[:TRIED], whole[:, :1]):
        return "depends on other sentences of the batch"
    return ""
