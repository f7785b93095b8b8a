"""Folding: for inference every affine map is absorbed by the linear maps beside it (section 2).

* A linear layer takes the maps before and after it in its weight and bias.
* Token mixing that is a map of positions alone commutes with maps of the channels. What its two
  affine maps do is done by one scale before it and one offset after it
  (:class:`FoldedTokenMixing`). The other kinds have a folded form each.
* The encoder's final map goes into the decoder's key and value projections, the decoder's into the
  output layer.

Products and sums are taken in float64 whatever the model's dtype. The names of the parameters are
in folded checkpoints and stay as they are.
"""

from abc import ABC, abstractmethod
from copy import deepcopy
from functools import singledispatch
from typing import Optional

import torch
from torch import Tensor, nn

from resmlp_mt.decoding.history import BeamHistory
from resmlp_mt.model.affine import Affine
from resmlp_mt.model.branches import Branch, TokenMixingBranch
from resmlp_mt.model.convolutional_mixing import (
    ConvTokenMixing,
    DepthwiseConvTokenMixing,
    SeparableConvTokenMixing,
)
from resmlp_mt.model.gated_mixing import GatedTokenMixing
from resmlp_mt.model.mlp_mixing import MlpTokenMixing
from resmlp_mt.model.padding import zero_padding
from resmlp_mt.model.token_mixing import TokenMixing


def is_folded(model) -> bool:
    """Whether :func:`fold_` has been applied."""
    return any(isinstance(m, Branch) and m.post is unchanged for m in model.modules())


def fold_(model) -> None:
    """Absorb every affine map of a model of ours, in place; for inference only.

    Two maps stay where nothing linear follows them: the decoder's final one under adaptive softmax,
    the encoder's without cross-attention. A LayerNorm (``--normalization layernorm``) is no affine
    map and stays too.
    """
    if is_folded(model):
        return
    model.eval()  # in training, LayerDrop would hide layers from the loops below
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        if isinstance(layer.token_mixing, TokenMixingBranch):
            layer.token_mixing = folded_branch(layer.token_mixing.mixing, layer.token_mixing)
        _fold_linears_(layer.feed_forward, layer.feed_forward.fc1, layer.feed_forward.fc2)
        attention = getattr(layer, "cross_attention", None)
        if attention is not None:
            _fold_linears_(attention, attention.attn.q_proj, attention.attn.out_proj)
    _fold_final_(model)


def unchanged(x: Tensor) -> Tensor:
    """Stands where an affine map was that something else has absorbed.

    A function, because calling a module that does nothing costs time at every word.
    """
    return x


def _remove_(branch: nn.Module, name: str) -> None:
    """Put :func:`unchanged` where a branch has an affine map."""
    delattr(branch, name)  # PyTorch allows no function under the name of a module
    setattr(branch, name, unchanged)


@torch.no_grad()
def fold_before_(linear: nn.Linear, affine: Affine) -> None:
    """``W (alpha x + beta) + b``: the linear layer takes the affine map before it."""
    weight = linear.weight.double()
    bias = weight @ affine.beta.double()
    if linear.bias is not None:
        bias = bias + linear.bias.double()
    # new parameters, not changed ones: the old may be shared
    linear.weight = nn.Parameter((weight * affine.alpha.double()).to(linear.weight.dtype))
    linear.bias = nn.Parameter(bias.to(linear.weight.dtype))


@torch.no_grad()
def fold_after_(linear: nn.Linear, affine: Affine) -> None:
    """``alpha (W x + b) + beta``: the linear layer takes the affine map after it."""
    bias = affine.beta.double()
    if linear.bias is not None:
        bias = bias + affine.alpha.double() * linear.bias.double()
    weight = affine.alpha.double().unsqueeze(1) * linear.weight.double()
    linear.weight = nn.Parameter(weight.to(linear.weight.dtype))
    linear.bias = nn.Parameter(bias.to(linear.weight.dtype))


def _fold_linears_(branch: Branch, first: nn.Linear, last: nn.Linear) -> None:
    if isinstance(branch.pre, Affine):
        fold_before_(first, branch.pre)
        _remove_(branch, "pre")
    fold_after_(last, branch.post)
    _remove_(branch, "post")


def _fold_final_(model) -> None:
    """The affine maps after the two stacks, where a linear map follows them."""
    encoder, decoder = model.encoder, model.decoder
    attentions = [
        layer.cross_attention.attn for layer in decoder.layers if layer.cross_attention is not None
    ]
    if isinstance(encoder.layer_norm, Affine) and attentions:
        for attn in attentions:
            fold_before_(attn.k_proj, encoder.layer_norm)
            fold_before_(attn.v_proj, encoder.layer_norm)
        encoder.layer_norm = None
    if not isinstance(decoder.layer_norm, Affine):
        return
    if decoder.project_out_dim is not None:
        fold_before_(decoder.project_out_dim, decoder.layer_norm)
    elif decoder.output_projection is not None:
        output = decoder.output_projection
        # the embedding may share this weight and must keep it
        untied = nn.Linear(output.in_features, output.out_features, bias=False, device="meta")
        untied.weight = output.weight
        fold_before_(untied, decoder.layer_norm)
        decoder.output_projection = untied
    else:
        return  # adaptive softmax: one map before many clusters stays as it is
    decoder.layer_norm = None


class FoldedTokenMixing(nn.Module):
    """``A (scale x + row_sum_scale) + offset``: mixing that commutes with maps of the channels,
    between its two affine maps.

    With maps ``a1 x + b1`` before and ``a2 y + b2`` after::

        a2 (A (a1 x + b1) + b) + b2 = A (a1 a2 x + a2 b1) + (a2 b + b2)

    The scale comes before A, as in the model that is folded. In float16 ``A x`` alone may overflow
    where ``A (a1 x)`` does not. In a decoder ``A (a2 b1)`` is the same for every sentence and part
    of the offset.

    Args:
        mixing: what computes ``A x``. It is not kept: each call is given it, so that its weights
            have one name in the state dict.
        pre: the map before it. One that is not affine stays where it is.
        post: the affine map after it, or None.

    Attributes:
        scale: C.
        row_sum_scale: C, or None where it is 0 or part of the offset.
        offset: N x C.
    """

    @torch.no_grad()
    def __init__(
        self, mixing: nn.Module, pre: Optional[nn.Module] = None, post: Optional[Affine] = None
    ):
        super().__init__()
        dtype, exact = mixing.weight.dtype, deepcopy(mixing).double()
        ones = exact.weight.new_ones(mixing.positions, 1, mixing.heads)
        scale = exact.weight.new_ones(mixing.channels)
        offset, row_sum_scale = by_channel(exact(ones * 0), mixing), None
        if post is not None:
            alpha, beta = _coefficients(post)
            scale, offset = alpha, alpha * offset + beta
        if isinstance(pre, Affine):
            alpha, beta = _coefficients(pre)
            scale, row_sum_scale = scale * alpha, scale * beta
            if mixing.causal:
                # word t sees the words 0..t in any sentence
                offset = offset + row_sum_scale * by_channel(exact.mix(ones), mixing)
                row_sum_scale = None
        maps = {"scale": scale, "row_sum_scale": row_sum_scale, "offset": offset}
        for name, value in maps.items():
            self.register_buffer(name, None if value is None else value.to(dtype).contiguous())

    def forward(
        self,
        x: Tensor,
        mixing: nn.Module,
        padding_mask: Optional[Tensor] = None,
        history: Optional[BeamHistory] = None,
    ) -> Tensor:
        """The shape of *x*; the arguments are those of ``TokenMixingBranch.forward``."""
        if self.row_sum_scale is None:
            h = x * self.scale
        else:
            h = torch.addcmul(self.row_sum_scale, x, self.scale)
        h = zero_padding(h, padding_mask)
        if history is None:
            offset = self.offset[: len(x)].unsqueeze(1)  # T x 1 x C
        else:
            offset = self.offset[history.position]  # C
        return mixing.mix(h, history) + offset


def _coefficients(affine: Affine) -> tuple:
    """alpha and beta, C each, in float64."""
    return affine.alpha.double(), affine.beta.double()


def by_channel(x: Tensor, mixing: nn.Module) -> Tensor:
    """A number for each group of channels, N x 1 x H, to one for each channel, N x C."""
    return x.squeeze(1).repeat_interleave(mixing.channels // mixing.heads, dim=1)


class FoldedBranch(nn.Module, ABC):
    """``Z = X + Aff(A Aff(X))`` for inference, in the place of a :class:`TokenMixingBranch`."""

    def __init__(self, branch: TokenMixingBranch):
        super().__init__()
        self.pre = unchanged if isinstance(branch.pre, Affine) else branch.pre
        self.mixing = branch.mixing
        self.dropout = branch.dropout

    def forward(
        self,
        x: Tensor,
        padding_mask: Optional[Tensor] = None,
        history: Optional[BeamHistory] = None,
    ) -> Tensor:
        """Arguments as of :class:`TokenMixingBranch`."""
        return x + self.dropout(self.mix(self.pre(x), padding_mask, history))

    @abstractmethod
    def mix(
        self, x: Tensor, padding_mask: Optional[Tensor], history: Optional[BeamHistory]
    ) -> Tensor:
        """The mixing and the affine maps beside it; *x* is not zero at padding."""


@singledispatch
def folded_branch(mixing: nn.Module, branch: TokenMixingBranch) -> FoldedBranch:
    """What takes the place of *branch*, by the kind of its *mixing*."""
    raise NotImplementedError(f"{type(mixing).__name__} has no folded form")


@folded_branch.register(TokenMixing)
@folded_branch.register(DepthwiseConvTokenMixing)
class FoldedCommutingBranch(FoldedBranch):
    """The two maps are around A."""

    def __init__(self, mixing: nn.Module, branch: TokenMixingBranch):
        super().__init__(branch)
        self.folded = FoldedTokenMixing(mixing, branch.pre, branch.post)

    def mix(self, x, padding_mask, history):
        return self.folded(x, self.mixing, padding_mask, history)


@folded_branch.register(MlpTokenMixing)
class FoldedMlpBranch(FoldedBranch):
    """The map before is around the first matrices, the map after around the second."""

    @torch.no_grad()
    def __init__(self, mixing: MlpTokenMixing, branch: TokenMixingBranch):
        super().__init__(branch)
        # the beta of the map after once, not E times
        scale_only = deepcopy(branch.post)
        scale_only.beta.zero_()
        posts = [branch.post] + [scale_only] * (len(mixing.second) - 1)
        first = [FoldedTokenMixing(a, branch.pre) for a in mixing.first]
        second = [FoldedTokenMixing(a, None, post) for a, post in zip(mixing.second, posts)]
        mixing.folded = nn.ModuleDict(
            {"first": nn.ModuleList(first), "second": nn.ModuleList(second)}
        )

    def mix(self, x, padding_mask, history):
        mixing, parts = self.mixing, []
        for j, (first, second) in enumerate(zip(mixing.first, mixing.second)):
            hidden = mixing.folded["first"][j](x, first, padding_mask, history)
            hidden = mixing.activation(hidden)
            parts.append(mixing.folded["second"][j](hidden, second, padding_mask, history))
        return sum(parts)


@folded_branch.register(SeparableConvTokenMixing)
class FoldedSeparableBranch(FoldedBranch):
    """The map before is around the depthwise convolution, the map after in the pointwise one."""

    def __init__(self, mixing: SeparableConvTokenMixing, branch: TokenMixingBranch):
        super().__init__(branch)
        mixing.folded = FoldedTokenMixing(mixing.depthwise, branch.pre)
        fold_after_(mixing.pointwise, branch.post)

    def mix(self, x, padding_mask, history):
        mixing = self.mixing
        return mixing.pointwise(mixing.folded(x, mixing.depthwise, padding_mask, history))


@folded_branch.register(GatedTokenMixing)
class FoldedGatedBranch(FoldedBranch):
    """The map before is in W_v and W_g, the map after in W_o."""

    def __init__(self, mixing: GatedTokenMixing, branch: TokenMixingBranch):
        super().__init__(branch)
        if isinstance(branch.pre, Affine):
            fold_before_(mixing.value_gate, branch.pre)
        fold_after_(mixing.output, branch.post)

    def mix(self, x, padding_mask, history):
        return self.mixing(x, history, padding_mask)


@folded_branch.register(ConvTokenMixing)
class FoldedConvBranch(FoldedBranch):
    """Both maps are in the weights of the taps.

    What the beta of the map before adds depends on how many taps fall into the sentence. It is a
    bias of its own for each tap: ``inside_bias``, K x C.
    """

    @torch.no_grad()
    def __init__(self, mixing: ConvTokenMixing, branch: TokenMixingBranch):
        super().__init__(branch)
        inside_bias, taps = None, mixing.taps
        if isinstance(branch.pre, Affine):
            (alpha, beta), dtype = _coefficients(branch.pre), taps.weight.dtype
            weight = taps.weight.double().view(mixing.channels, mixing.kernel_size, -1)
            inside_bias = torch.einsum("okc,c->ko", weight, beta) * branch.post.alpha.double()
            inside_bias = inside_bias.to(dtype)
            taps.weight = nn.Parameter((weight * alpha).flatten(1).to(dtype))
        mixing.register_buffer("inside_bias", inside_bias)
        fold_after_(taps, branch.post)

    def mix(self, x, padding_mask, history):
        x = zero_padding(x, padding_mask)
        y = self.mixing(x, history)
        if self.mixing.inside_bias is None:
            return y
        return y + self._inside(x, padding_mask, history) @ self.mixing.inside_bias

    def _inside(self, x, padding_mask, history) -> Tensor:
        """1 where a tap falls into the sentence, else 0: T x B x K, T x 1 x K, or, with *history*,
        1 x K."""
        if history is not None:
            return history.inside(self.mixing.kernel_size).to(x.dtype).unsqueeze(0)
        if padding_mask is not None:
            inside = (~padding_mask).t().unsqueeze(-1).to(x.dtype)
        else:
            inside = x.new_ones(len(x), 1, 1)
        return self.mixing.window(inside).squeeze(-1)
