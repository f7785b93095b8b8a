"""Folding: in inference each branch absorbs its affine maps (section 2 of the paper).

A folded branch is a copy that shares whatever it does not change. The trained parameters keep
their names and remain the only ones in the state dict. Products and sums are taken in float64.
"""

from copy import copy, deepcopy
from typing import Iterable, List, Optional, Tuple

import torch
from torch import Tensor, nn

from resmlp_mt.decoding.history import BeamHistory
from resmlp_mt.decoding.packing import pack_
from resmlp_mt.model.affine import Affine
from resmlp_mt.model.padding import zero_padding


def fold_(model: nn.Module, pack: bool = False) -> None:
    """Let both stacks of *model* run folded layers wherever no gradient is asked for.

    The two final affine maps stay: folding them would need an output layer that no longer shares
    the embedding.

    Args:
        pack: pack the folded linear layers, too.
    """
    for stack in (model.encoder, model.decoder):
        stack.folded = FoldedLayers(stack.layers, pack)


class FoldedLayers:
    """The layers of a stack as inference runs them, folded again whenever one has changed.

    They are kept with the tensors they were made from and the versions of these. An edit through
    ``.data`` has no version and goes unseen: edit under ``torch.no_grad()``. A layer with hooks
    runs unfolded, so that whoever watches or prunes it meets every module of the paper.
    """

    def __init__(self, layers: nn.ModuleList, pack: bool):
        self._layers, self._pack = layers, pack
        self._sources: List[Tuple[Tensor, Tensor]] = []
        self._key: Optional[list] = None
        self._folded: List[nn.Module] = []

    def __call__(self) -> Iterable[nn.Module]:
        """The layers to run now. Asking costs a walk over the parameters: do it once a batch."""
        unfolded = self._layers.training or torch.is_grad_enabled()
        if unfolded or torch.compiler.is_compiling():
            return self._layers
        tensors: List[Tensor] = []
        hooked = [_collect(layer, tensors) for layer in self._layers]
        key = [hooked, *((id(t), _version(t), t.data_ptr()) for t in tensors)]
        if key != self._key:
            self._fold(hooked)
            # both the tensor and its memory are held, so that neither address is used again
            self._sources = [(t, t.detach()) for t in tensors]
            self._key = key
        return self._folded

    @torch.no_grad()
    @torch.inference_mode(False)
    def _fold(self, hooked: List[bool]) -> None:
        self._folded = [
            layer if watched else layer.folded() for layer, watched in zip(self._layers, hooked)
        ]
        for layer, watched in zip(self._folded, hooked):
            if self._pack and not watched:
                pack_(layer)


@torch.no_grad()
def folded_copy(model: nn.Module) -> nn.Module:
    """*model* with folded layers, in which the final affine maps are absorbed, too: for export."""
    encoder, decoder = model.encoder, model.decoder
    layers = nn.ModuleList(layer.folded() for layer in decoder.layers)
    norm, last = encoder.layer_norm, decoder.layer_norm
    if isinstance(norm, Affine):
        for layer in layers:
            attn = layer.cross_attention.attn
            k_proj, v_proj = before(norm, attn.k_proj), before(norm, attn.v_proj)
            attn = with_parts(attn, k_proj=k_proj, v_proj=v_proj)
            layer.cross_attention = with_parts(layer.cross_attention, attn=attn)
        norm = None
    absorbed = {"layers": layers, "folded": None}
    if isinstance(last, Affine):
        name = "output_projection" if decoder.project_out_dim is None else "project_out_dim"
        absorbed.update({name: before(last, getattr(decoder, name)), "layer_norm": None})
    layers = nn.ModuleList(layer.folded() for layer in encoder.layers)
    encoder = with_parts(encoder, layers=layers, layer_norm=norm, folded=None)
    return with_parts(model, encoder=encoder, decoder=with_parts(decoder, **absorbed))


def _collect(module: nn.Module, tensors: List[Tensor]) -> bool:
    """Append the tensors of *module*; returns whether there is a hook in it."""
    tensors.extend(t for t in module._parameters.values() if t is not None)
    tensors.extend(t for t in module._buffers.values() if t is not None)
    hooked = bool(module._forward_hooks or module._forward_pre_hooks)
    for child in module._modules.values():
        if child is not None:
            hooked |= _collect(child, tensors)
    return hooked


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def with_parts(module: nn.Module, **parts) -> nn.Module:
    """A copy of *module* with other *parts*, which shares everything else."""
    new = copy(module)
    new._modules = {name: m for name, m in module._modules.items() if name not in parts}
    new.__dict__.pop("forward", None)  # activation checkpointing's, bound to the original
    for name, part in parts.items():
        setattr(new, name, part)
    return new


def unchanged(x: Tensor) -> Tensor:
    """Stands in for an absorbed map. Calling a module that does nothing would cost time."""
    return x


def absorb(norm: nn.Module, linear: nn.Linear) -> tuple:
    """*norm* and the *linear* after it, folded unless *norm* is a LayerNorm."""
    return (unchanged, before(norm, linear)) if isinstance(norm, Affine) else (norm, linear)


@torch.no_grad()
def before(affine: Affine, linear: nn.Linear) -> nn.Linear:
    """``W (alpha x + beta) + b`` as one linear layer."""
    weight, bias = linear.weight.double(), _bias(linear)
    return _linear(linear, weight * affine.alpha.double(), weight @ affine.beta.double() + bias)


@torch.no_grad()
def after(linear: nn.Linear, affine: Affine) -> nn.Linear:
    """``alpha (W x + b) + beta`` as one linear layer."""
    alpha, beta = affine.alpha.double(), affine.beta.double()
    return _linear(
        linear, alpha.unsqueeze(1) * linear.weight.double(), alpha * _bias(linear) + beta
    )


def _bias(linear: nn.Linear) -> Tensor:
    if linear.bias is None:
        return linear.weight.new_zeros(linear.out_features, dtype=torch.float64)
    return linear.bias.double()


def _linear(like: nn.Linear, weight: Tensor, bias: Tensor) -> nn.Linear:
    new = nn.Linear(like.in_features, like.out_features, device="meta")
    dtype = like.weight.dtype
    new.weight, new.bias = (nn.Parameter(t.to(dtype), False) for t in (weight, bias))
    return new


class FoldedTokenMixing(nn.Module):
    """``A (scale x + shift) + offset``: a map of positions alone between its two affine maps.

    With maps ``a1 x + b1`` before and ``a2 y + b2`` after::

        a2 (A (a1 x + b1) + b) + b2 = A (a1 a2 x + a2 b1) + (a2 b + b2)

    The scale comes before A because in float16 ``A x`` may overflow where ``A (a1 x)`` does not.
    In a decoder ``A (a2 b1)`` is the same for every sentence and becomes part of the offset.

    Args:
        mixing: what computes ``A x + b``, with a b for each of its *heads*.
        pre, post: the affine maps; None before if it is a LayerNorm.

    Attributes:
        scale: C.
        shift: C, or None where it is 0 or part of the offset.
        offset: N x C.
    """

    @torch.no_grad()
    def __init__(self, mixing: nn.Module, pre: Optional[Affine], post: Affine):
        super().__init__()
        self.mixing = mixing
        dtype, exact = mixing.weight.dtype, deepcopy(mixing).double()
        ones = exact.weight.new_ones(mixing.positions, 1, mixing.heads)
        alpha, beta = post.alpha.double(), post.beta.double()
        scale, shift = alpha, None
        offset = alpha * by_channel(exact(ones * 0), mixing) + beta
        if pre is not None:
            scale, shift = alpha * pre.alpha.double(), alpha * pre.beta.double()
            if mixing.causal:
                # word t sees the words 0..t in any sentence
                offset = offset + shift * by_channel(exact.mix(ones), mixing)
                shift = None
        for name, value in {"scale": scale, "shift": shift, "offset": offset}.items():
            self.register_buffer(name, None if value is None else value.to(dtype).contiguous())

    def forward(
        self,
        x: Tensor,
        history: Optional[BeamHistory] = None,
        padding_mask: Optional[Tensor] = None,
    ) -> Tensor:
        """Arguments and result as of the mixing."""
        if self.shift is None:
            h = x * self.scale
        else:
            h = zero_padding(torch.addcmul(self.shift, x, self.scale), padding_mask)
        if history is None:
            offset = self.offset[: len(x)].unsqueeze(1)  # T x 1 x C
        else:
            offset = self.offset[history.position]  # C
        return self.mixing.mix(h, history) + offset


def by_channel(x: Tensor, mixing: nn.Module) -> Tensor:
    """A number for each group of channels, N x 1 x H, to one for each channel, N x C."""
    return x.squeeze(1).repeat_interleave(mixing.channels // mixing.heads, dim=1)
