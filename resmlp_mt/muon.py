"""``--optimizer muon`` (Jordan et al., 2024): matrices take orthogonal steps, the rest AdamW's.

A matrix is the weight of an ``nn.Linear`` in a layer of the encoder or decoder: the feed-forward
and attention projections, the maps of a gate, the taps of a convolution. AdamW takes embeddings and
the output projection, weights over positions (A, Toeplitz or not), affine maps and biases.

fairseq has no Muon. PyTorch's takes matrices alone and always computes in bfloat16, which is thirty
times as slow on a CPU without instructions for it.
"""

import torch
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from fairseq.trainer import Trainer
from torch import Tensor, nn

from resmlp_mt.cpu import CPU
from resmlp_mt.patching import replace
from resmlp_mt_runtime.errors import UserError

MATRIX = "matrix"  # a weight's param_group, which fairseq's copies for --fp16 keep
MOMENTUM = 0.95
SCALE = 0.2  # root mean square of AdamW's steps; an orthogonal R x C step has max(R, C) ** -0.5
# x -> A x + B x³ + C x⁵ takes singular values from (0, 1] to about 1 (0.7 to 1.2) in five steps
A, B, C, ITERATIONS = 3.4445, -4.7750, 2.0315, 5


@replace(Trainer, "_build_optimizer")
def build_optimizer(original, trainer):
    """--optimizer muon knows which weights are matrices.

    An optimizer gets them without their names, so they are marked before
    (``test_matrices_are_what_the_layers_multiply_channels_by``)."""
    if getattr(trainer.cfg.optimizer, "_name", None) == "muon":  # None: the original says so
        mark_matrices(trainer.model)
    return original(trainer)


def mark_matrices(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and "layers" in name.split("."):
            module.weight.param_group = MATRIX


@register_optimizer("muon", dataclass=FairseqAdamConfig)
class FairseqMuon(FairseqAdam):
    """:class:`Muon` behind fairseq's interface, with the options of fairseq's Adam."""

    def __init__(self, cfg, params):
        FairseqOptimizer.__init__(self, cfg)
        for name in ("fp16_adam_stats", "use_old_adam"):
            if getattr(cfg, name):
                option = f"--{name.replace('_', '-')}"
                raise UserError(f"{option}: --optimizer muon does not support it: leave it out")
        self._optimizer = Muon(params, **self.optimizer_config)


class Muon(torch.optim.AdamW):
    """Marked matrices step by the learning rate times the orthogonalized Nesterov momentum, scaled
    to the size of AdamW's steps, so that one rate serves both. Raises UserError if no weight is
    marked: --fp16 alone flattens all weights into one vector."""

    def __init__(self, params, **options):
        params = list(params)
        self.matrices = [w for w in params if getattr(w, "param_group", None) == MATRIX]
        if not self.matrices:
            wrong = "no weight is a matrix of a linear layer"  # but one flat copy of all
            raise UserError(f"--optimizer muon: {wrong}: with --fp16 add --fp16-no-flatten-grads")
        super().__init__(params, **options)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None if closure is None else torch.enable_grad()(closure)()
        (group,) = self.param_groups
        by_shape: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = {}  # R x C, R <= C
        for w in self.matrices:
            if w.grad is None:
                continue
            state = self.state[w]
            if not state:  # load_state_dict of AdamW expects a step
                state.update(step=torch.tensor(0.0), momentum=torch.zeros_like(w))
            momentum = state["momentum"].lerp_(w.grad, 1 - MOMENTUM)
            ahead = w.grad.lerp(momentum, MOMENTUM)
            w.grad = None  # AdamW skips it
            w.mul_(1 - group["lr"] * group["weight_decay"])
            wide = (w, ahead) if w.size(0) <= w.size(1) else (w.t(), ahead.t())
            by_shape.setdefault(tuple(wide[0].shape), []).append(wide)
        for (_, columns), pairs in by_shape.items():
            steps = orthogonal(torch.stack([ahead for _, ahead in pairs]))
            for (w, _), step in zip(pairs, steps):
                w.add_(step, alpha=-group["lr"] * SCALE * columns**0.5)
        super().step()
        return loss


def orthogonal(x: Tensor) -> Tensor:
    """Roughly the nearest matrices with orthogonal rows, N x R x C, R <= C (Newton and Schulz)."""
    original = x.dtype
    # with AVX512-BF16 it takes half the time of float32 on AMD's, 1.35 times on Intel's without AMX
    amd = CPU.get("avx512_bf16") and "AMD" in CPU.get("cpu_name", "")
    bfloat16 = x.is_cuda or CPU.get("amx_bf16") or amd
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    if bfloat16:
        x = x.to(torch.bfloat16)
        for _ in range(ITERATIONS):
            square = x @ x.mT
            polynomial = torch.baddbmm(square, square, square, beta=B, alpha=C)
            x = torch.baddbmm(x, polynomial, x, beta=A)
        return x.to(original)
    # An iteration multiplies x by a polynomial of x x', R x R: only the first and the last product
    # are with x itself. Half the time for 256 x 896; bfloat16 is too coarse for it.
    x = x.float()
    square, factor = x @ x.mT, None
    for _ in range(ITERATIONS):
        polynomial = torch.baddbmm(square, square, square, beta=B, alpha=C)
        polynomial.diagonal(dim1=1, dim2=2).add_(A)
        factor = polynomial if factor is None else polynomial @ factor
        square = polynomial @ square @ polynomial
    return (factor @ x).to(original)
