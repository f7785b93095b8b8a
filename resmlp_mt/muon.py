"""``--optimizer muon``: matrices take orthogonal steps (Jordan et al., 2024), the rest AdamW's.

fairseq has no Muon. PyTorch's takes matrices alone and always computes in bfloat16, which is thirty
times as slow on a CPU without instructions for it.
"""

import ast
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II
from torch import Tensor

from resmlp_mt.errors import UserError

MOMENTUM = 0.95
SCALE = 0.2  # of an orthogonal step: the root mean square of a step of Adam's
# x -> A x + B x³ + C x⁵ takes singular values from 0 .. 1 to about 1 (0.7 .. 1.2) in five turns
A, B, C, TURNS = 3.4445, -4.7750, 2.0315, 5


@dataclass
class MuonConfig(FairseqDataclass):
    adam_betas: Any = field(
        default="(0.9, 0.98)", metadata={"help": "of AdamW, for all but matrices"}
    )
    adam_eps: float = field(default=1e-8, metadata={"help": "of AdamW"})
    weight_decay: float = field(default=0.0, metadata={"help": "decoupled weight decay"})
    lr: list[float] = II("optimization.lr")


@register_optimizer("muon", dataclass=MuonConfig)
class FairseqMuon(FairseqOptimizer):
    """:class:`Muon` as fairseq wants it."""

    def __init__(self, cfg, params):
        super().__init__(cfg)
        try:
            first, second = map(float, ast.literal_eval(str(cfg.adam_betas)))
        except (ValueError, TypeError, SyntaxError):
            given = f"--adam-betas {cfg.adam_betas!s:.40}"
            raise UserError(f"{given}: give two numbers, as in '(0.9, 0.98)'") from None
        options = {**self.optimizer_config, "betas": (first, second), "eps": cfg.adam_eps}
        self._optimizer = Muon(params, **options)

    @property
    def optimizer_config(self) -> dict[str, float]:
        """Overrides the options in a checkpoint."""
        return {"lr": self.cfg.lr[0], "weight_decay": self.cfg.weight_decay}

    @property
    def supports_flat_params(self) -> bool:
        return False


class Muon(torch.optim.AdamW):
    """Matrices step by the learning rate times the orthogonalized momentum, scaled to the size of
    AdamW's steps, so that one rate serves both. Vectors, stacks of matrices over positions and
    embeddings (eight times as long as wide) are left to AdamW. Without a matrix, as where --fp16
    makes one vector of all weights, it raises UserError."""

    def __init__(self, params, **options):
        params = list(params)
        self.matrices = [w for w in params if w.dim() == 2 and max(w.shape) < 8 * min(w.shape)]
        if not self.matrices:
            raise UserError("--optimizer muon: no weight is a matrix (--fp16-no-flatten-grads?)")
        super().__init__(params, **options)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None if closure is None else torch.enable_grad()(closure)()
        (group,) = self.param_groups
        alike: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = {}  # wide ones together
        for w in self.matrices:
            if w.grad is None:
                continue
            state = self.state[w]
            if not state:  # AdamW, which loads it, wants a step
                state.update(step=torch.tensor(0.0), momentum=torch.zeros_like(w))
            momentum = state["momentum"].lerp_(w.grad, 1 - MOMENTUM)
            ahead = w.grad.lerp(momentum, MOMENTUM)
            w.grad = None  # for AdamW there is nothing to do
            w.mul_(1 - group["lr"] * group["weight_decay"])
            wide = (w, ahead) if w.size(0) <= w.size(1) else (w.t(), ahead.t())
            alike.setdefault(tuple(wide[0].shape), []).append(wide)
        for (_, columns), some in alike.items():
            steps = orthogonal(torch.stack([ahead for _, ahead in some]))
            for (w, _), one in zip(some, steps):
                w.add_(one, alpha=-group["lr"] * SCALE * columns**0.5)
        super().step()
        return loss


def orthogonal(x: Tensor) -> Tensor:
    """Roughly the nearest matrices with orthogonal rows, N x R x C, R <= C (Newton and Schulz)."""
    original, bfloat16 = x.dtype, x.is_cuda
    if x.device.type == "cpu":
        bfloat16 = torch.cpu.get_capabilities().get("avx512_bf16", False)
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    x = x.to(torch.bfloat16 if bfloat16 else torch.float32)
    for _ in range(TURNS):
        square = x @ x.mT
        x = A * x + (B * square + C * square @ square) @ x
    return x.to(original)
