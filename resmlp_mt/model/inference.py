"""Folding: in inference, the linear layers of a branch absorb its affine maps.

The paper, section 2: an affine map costs nothing then, "since it can be absorbed in the adjacent
linear layer". Of a LayerNorm :func:`standardize` is left. A folded branch is a copy of the trained
one and shares all that folding leaves as it is. The state dict holds the trained parameters. Folded
weights are computed in float64.
"""

from collections.abc import Iterable
from copy import copy, deepcopy

import torch
from fairseq.modules import FairseqDropout, LayerNorm, MultiheadAttention
from torch import Tensor, nn
from torch.nn import functional as F

from resmlp_mt.cpu import CPU
from resmlp_mt.model.layers import (
    Affine,
    CrossAttentionBranch,
    FeedForwardBranch,
    TokenMixingBranch,
)
from resmlp_mt.model.mixing import GatedTokenMixing, ToeplitzTokenMixing, TokenMixing
from resmlp_mt.model.padding import zero_padding

FEW = 1 if "Intel" in CPU.get("cpu_name", "") else 5  # rows: the beams of one sentence


def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``x W' + b`` without gradients, ... x C to ... x C'. On an AMD EPYC PyTorch takes up to twice
    as long for ``x W'`` of two to five rows as for ``W x'``; on an Intel Xeon it is faster."""
    rows = x.reshape(-1, x.size(-1))
    if x.device.type != "cpu" or not 2 <= len(rows) <= FEW:
        return F.linear(x, weight, bias)
    y = (weight @ rows.t()).t().contiguous()
    return (y if bias is None else y.add_(bias)).view(*x.shape[:-1], len(weight))


def fold_(model: nn.Module) -> None:
    """Let both stacks run folded layers, except in training and while gradients are recorded. The
    final affine maps stay: an output layer that absorbed one could not share its weight with the
    embedding."""
    for stack in (model.encoder, model.decoder):
        stack.folded = FoldedLayers()


class FoldedLayers:
    """The folded layers of a stack, folded again after a parameter is replaced or changed. Change
    parameters under ``torch.no_grad()``: PyTorch does not count changes through ``.data``. A layer
    with hooks or a replaced ``forward`` runs unfolded: they see every module."""

    def __init__(self) -> None:
        self._folded: list[nn.Module] = []
        self._state: tuple | None = None
        self._kept: list[tuple] = []  # what the state names, so that nothing else gets its address

    def __call__(self, layers: nn.ModuleList) -> Iterable[nn.Module]:
        """The folded *layers*, refolded if a parameter changed; in training as they are. Checks
        all parameters: call once per batch."""
        if layers.training or torch.is_grad_enabled() or torch.compiler.is_compiling():
            return layers
        hooked = [any(map(is_changed, layer.modules())) for layer in layers]
        sources = [*layers.parameters(), *layers.buffers()]
        # tensors made in inference mode have no version
        versions = [0 if t.is_inference() else t._version for t in sources]
        state = hooked, versions, [(id(t), t.data_ptr()) for t in sources]
        if state != self._state:
            with torch.inference_mode(False), torch.no_grad():
                pairs = zip(layers, hooked)
                self._folded = [layer if has else fold_layer(layer) for layer, has in pairs]
            self._state, self._kept = state, [(t, t.detach()) for t in sources]
        return self._folded


def is_changed(module: nn.Module) -> bool:
    """Whether hooks, or a ``forward`` of its own, change what a module of its class computes."""
    own = {"forward", "precheckpoint_forward"} & vars(module).keys()  # both: checkpointing's
    return bool(module._forward_hooks or module._forward_pre_hooks or own == {"forward"})


def fold_layer(layer: nn.Module) -> nn.Module:
    """*layer* with each branch in its folded form."""
    return with_parts(layer, **{name: fold(branch) for name, branch in layer.named_children()})


# the classes whose forward pass folding knows, with the parts that it knows; a subclass, such as
# LoRA's, or one more part may compute something else
PARTS: dict[type, set[str]] = dict.fromkeys(
    (TokenMixing, ToeplitzTokenMixing, nn.Linear, FairseqDropout, Affine, nn.LayerNorm), set()
)
PARTS[type(LayerNorm(1))] = set()  # Apex's, where it is installed
PARTS[GatedTokenMixing] = {"value_gate", "toeplitz", "output"}
PARTS[MultiheadAttention] = {"dropout_module", "q_proj", "k_proj", "v_proj", "out_proj"}
PARTS[TokenMixingBranch] = {"pre", "post", "dropout", "mixing"}
PARTS[CrossAttentionBranch] = {"pre", "post", "dropout", "attn"}
PARTS[FeedForwardBranch] = {"pre", "post", "dropout", "fc1", "fc2", "activation_dropout"}


def is_known(branch: nn.Module) -> bool:
    return all(PARTS.get(type(each)) == each._modules.keys() for each in branch.modules())


def fold(branch: nn.Module) -> nn.Module:
    """*branch* with the scales and shifts around it absorbed by its linear layers; as it is if
    folding does not know a part of it."""
    if not is_known(branch):
        return branch
    pre, post = branch.pre, branch.post
    if isinstance(branch, FeedForwardBranch):
        parts = {"fc1": before(pre, branch.fc1), "fc2": after(branch.fc2, post)}
    elif isinstance(branch, CrossAttentionBranch):
        q_proj, out_proj = before(pre, branch.attn.q_proj), after(branch.attn.out_proj, post)
        parts = {"attn": with_parts(branch.attn, q_proj=q_proj, out_proj=out_proj)}
    elif isinstance(branch.mixing, GatedTokenMixing):
        value_gate, output = branch.mixing.value_gate, branch.mixing.output
        maps = {"value_gate": before(pre, value_gate), "output": after(output, post)}
        parts = {"mixing": with_parts(branch.mixing, **maps)}
    else:
        parts = {"mixing": FoldedTokenMixing(branch.mixing, pre, post)}
    rest = identity if isinstance(pre, Affine) else standardize
    return with_parts(branch, pre=rest, post=identity, **parts)


def with_parts(module: nn.Module, **parts) -> nn.Module:
    """A copy of *module* with other *parts*, which shares everything else."""
    new = copy(module)
    new._modules = {name: m for name, m in module._modules.items() if name not in parts}
    new.__dict__.pop("forward", None)  # activation checkpointing's, bound to the original
    for name, part in parts.items():
        setattr(new, name, part)
    return new


def identity(x: Tensor) -> Tensor:
    """Replaces a folded affine map; cheaper than nn.Identity."""
    return x


def standardize(x: Tensor) -> Tensor:
    """A LayerNorm without its affine map."""
    return F.layer_norm(x, x.shape[-1:])


def scale_shift(norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Of an Affine or LayerNorm, C each, in float64."""
    both = (norm.alpha, norm.beta) if isinstance(norm, Affine) else (norm.weight, norm.bias)
    return both[0].double(), both[1].double()


def before(norm: nn.Module, linear: nn.Linear) -> nn.Linear:
    """``W (alpha x + beta) + b`` as one linear layer."""
    (weight, bias), (alpha, beta) = _double(linear), scale_shift(norm)
    return _linear(linear, weight * alpha, weight @ beta + bias)


def after(linear: nn.Linear, affine: Affine) -> nn.Linear:
    """``alpha (W x + b) + beta`` as one linear layer."""
    (weight, bias), (alpha, beta) = _double(linear), scale_shift(affine)
    return _linear(linear, alpha.unsqueeze(1) * weight, alpha * bias + beta)


def _double(linear: nn.Linear) -> tuple:
    weight = linear.weight.double()
    bias = weight.new_zeros(len(weight)) if linear.bias is None else linear.bias.double()
    return weight, bias


class FoldedLinear(nn.Linear):
    """A linear layer whose products are :func:`product`."""

    def forward(self, x: Tensor) -> Tensor:
        return product(x, self.weight, self.bias)


def _linear(like: nn.Linear, weight: Tensor, bias: Tensor) -> FoldedLinear:
    new, dtype = FoldedLinear(*weight.shape[::-1], device="meta"), like.weight.dtype
    new.weight, new.bias = (nn.Parameter(t.to(dtype), False) for t in (weight, bias))
    return new


class FoldedTokenMixing:
    """``a2 (A (a1 x + b1) + b) + b2 = A (scale x + shift) + offset``; A mixes positions alone.

    The scale comes before A because in float16 ``A x`` may overflow where ``A (a1 x)`` does not. In
    a decoder no padding is masked, so that ``A shift`` is the same for every sentence: it is in
    the offset, N x C, and there is no shift.
    """

    def __init__(self, mixing: nn.Module, pre: nn.Module, post: Affine):
        self.mixing = mixing
        dtype, exact = mixing.weight.dtype, deepcopy(mixing).double()
        ones = exact.weight.new_ones(mixing.positions, 1, mixing.heads)
        alpha, beta = scale_shift(post)
        offset = alpha * _by_channel(exact(ones * 0), mixing) + beta
        scale, shift = (alpha * part for part in scale_shift(pre))
        if mixing.causal:
            # position t sees the positions 0..t of any sentence
            offset = offset + shift * _by_channel(exact.mix(ones), mixing)
        self.shift = None if mixing.causal else shift.to(dtype)
        self.scale, self.offset = scale.to(dtype), offset.to(dtype).contiguous()

    def __call__(self, x: Tensor, padding_mask=None, history=None) -> Tensor:
        if self.shift is None:
            h = x * self.scale
        else:
            h = zero_padding(torch.addcmul(self.shift, x, self.scale), padding_mask)
        if history is None:
            offset = self.offset[: len(x)].unsqueeze(1)  # T x 1 x C
        else:
            offset = self.offset[history.position]  # C
        return self.mixing.mix(h, padding_mask, history) + offset


def _by_channel(x: Tensor, mixing: nn.Module) -> Tensor:
    """N x 1 x H, a number per group of channels, to N x C."""
    return x.squeeze(1).repeat_interleave(mixing.channels // mixing.heads, dim=1)
