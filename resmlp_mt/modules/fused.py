"""What training keeps for its backward pass, kept small.

A map of the channels before or after a linear layer can be taken by the layer's weight. While
training that is done inside the graph, at every step: the product with a weight of d x 4d numbers
costs less than maps of all tokens' states, and no mapped state is kept for the backward pass.
"""

from typing import Callable, Optional

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resmlp_mt.modules.affine import Affine


def fused_linear(
    linear: nn.Linear, pre: Optional[nn.Module], post: Optional[nn.Module]
) -> tuple[Tensor, Optional[Tensor]]:
    """Weight and bias of ``post(linear(pre(x)))``; a map that is not affine is left out."""
    weight, bias = linear.weight, linear.bias
    if isinstance(pre, Affine):
        bias = F.linear(pre.beta, weight, bias)
        weight = weight * pre.alpha
    if isinstance(post, Affine):
        bias = post.beta if bias is None else torch.addcmul(post.beta, post.alpha, bias)
        weight = weight * post.alpha.unsqueeze(1)
    return weight, bias


class _ActivationLinear(torch.autograd.Function):
    """``W f(z) + b`` that keeps z and computes f(z) again in the backward pass."""

    @staticmethod
    def forward(ctx, z: Tensor, weight: Tensor, bias: Tensor, activation: Callable):
        ctx.save_for_backward(z, weight)
        ctx.activation = activation
        return F.linear(activation(z), weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient: Tensor):
        z, weight = ctx.saved_tensors
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            h = ctx.activation(z)
        rows = gradient.flatten(0, -2)
        (dz,) = torch.autograd.grad(h, z, gradient @ weight)
        return dz, rows.t() @ h.detach().flatten(0, -2), rows.sum(dim=0), None


def activation_linear(z: Tensor, weight: Tensor, bias: Tensor, activation: Callable) -> Tensor:
    """``W f(z) + b``, shapes as in ``F.linear``; f is applied twice and its result not kept."""
    if torch.is_autocast_enabled(z.device.type):
        # in the backward pass autocast is off: all that is kept must have one type already
        dtype = torch.get_autocast_dtype(z.device.type)
        z, weight, bias = z.to(dtype), weight.to(dtype), bias.to(dtype)
    return _ActivationLinear.apply(z, weight, bias, activation)
