"""Folding: for inference every affine map is absorbed by the linear maps beside it (section 2).

With pre-affine ``a1 x + b1`` and post-affine ``a2 y + b2``:

* a linear layer takes them in its weight and bias;
* token mixing is a map of positions, which a map of channels commutes with:
  ``a2 (A (a1 x + b1) + b) + b2 = a1 a2 (A x) + a2 b1 (A 1) + (a2 b + b2)``, where ``A 1`` is the
  sum of A's row over the sentence's own positions;
* the encoder's final map goes into the decoder's key and value projections, the decoder's into the
  output layer.
"""

from typing import Optional

import torch
from torch import Tensor, nn

from resmlp_mt.affine import Affine
from resmlp_mt.beam_history import BeamHistory
from resmlp_mt.token_mixing import TokenMixing


class FoldedTokenMixing(nn.Module):
    """``scale (A x) + offset``: one scale a channel, one offset a position and channel.

    Args:
        mixing: the sublayer whose A is used (passed again at each call, so that it stays one
            module with one name).
        pre: the affine map before it, or None if the map before it is not affine.
        post: the affine map after it.
    """

    def __init__(self, mixing: TokenMixing, pre: Optional[Affine], post: Affine):
        super().__init__()
        a2, b2 = post.alpha.detach().double(), post.beta.detach().double()
        ones, zeros = torch.ones_like(a2), torch.zeros_like(a2)
        a1 = ones if pre is None else pre.alpha.detach().double()
        b1 = zeros if pre is None else pre.beta.detach().double()
        dtype, per_head = post.alpha.dtype, mixing.channels // mixing.heads
        offset = b2.expand(mixing.positions, -1)
        if mixing.bias is not None:
            bias = mixing.bias.detach().double().repeat_interleave(per_head, dim=0)  # C x N
            offset = offset + a2 * bias.t()
        row_sum_scale = a2 * b1
        if mixing.causal:
            # word t sees the words 0..t in any sentence, so that the row sums are constants
            rows = mixing.matrix(mixing.positions).detach().double().sum(dim=2)  # H x N
            offset = offset + row_sum_scale * rows.repeat_interleave(per_head, dim=0).t()
        self.register_buffer("scale", (a1 * a2).to(dtype))
        self.register_buffer("row_sum_scale", row_sum_scale.to(dtype))
        self.register_buffer("offset", offset.to(dtype).contiguous())  # N x C

    def forward(
        self,
        x: Tensor,
        mixing: TokenMixing,
        padding_mask: Optional[Tensor],
        history: Optional[BeamHistory],
    ) -> Tensor:
        """T x B x C to T x B x C; the arguments are those of ``TokenMixingBranch.forward``."""
        length, _, channels = x.shape
        first = 0 if history is None else len(history) - 1
        offset = self.offset[first : first + length].unsqueeze(1)
        y = torch.addcmul(offset, mixing.mix(x, history), self.scale)
        if mixing.causal:
            return y
        a = mixing.matrix(length)
        if padding_mask is None:
            rows = a.sum(dim=2, keepdim=True)  # H x T x 1
        else:
            rows = a @ (~padding_mask).t().to(a.dtype)  # H x T x B
        rows = rows.permute(1, 2, 0).unsqueeze(-1)
        scale = self.row_sum_scale.view(mixing.heads, -1)
        return y + (rows * scale).reshape(length, -1, channels)


def _affine(module: Optional[nn.Module]) -> Optional[Affine]:
    return module if isinstance(module, Affine) else None


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


def _fold_branch_(branch, first: nn.Linear, last: nn.Linear) -> None:
    if _affine(branch.pre) is not None:
        fold_before_(first, branch.pre)
        branch.pre = None
    fold_after_(last, branch.post)
    branch.post = None


def _fold_token_mixing_(branch) -> None:
    branch.folded = FoldedTokenMixing(branch.mixing, _affine(branch.pre), branch.post)
    if _affine(branch.pre) is not None:
        branch.pre = None
    branch.post = None


def _fold_final_(model) -> None:
    """The affine maps after the two stacks, where a linear map follows them."""
    encoder, decoder = model.encoder, model.decoder
    attentions = [
        layer.cross_attention.attn for layer in decoder.layers if layer.cross_attention is not None
    ]
    if _affine(encoder.layer_norm) is not None and attentions:
        for attn in attentions:
            fold_before_(attn.k_proj, encoder.layer_norm)
            fold_before_(attn.v_proj, encoder.layer_norm)
        encoder.layer_norm = None
    if _affine(decoder.layer_norm) is None:
        return
    if decoder.project_out_dim is not None:
        fold_before_(decoder.project_out_dim, decoder.layer_norm)
    elif decoder.output_projection is not None:
        output = decoder.output_projection
        # the embedding may share this weight and must keep it
        untied = nn.Linear(output.in_features, output.out_features, bias=False).to(output.weight)
        untied.weight = output.weight
        fold_before_(untied, decoder.layer_norm)
        decoder.output_projection = untied
    else:
        return  # adaptive softmax: one map before many clusters stays as it is
    decoder.layer_norm = None


def fold_(model) -> None:
    """Absorb every affine map of a :class:`~resmlp_mt.model.ResMLPModel`, in place; inference only.

    Products and sums are taken in float64 whatever the model's dtype. Two maps stay where nothing
    linear follows them: the decoder's final one under adaptive softmax, the encoder's without
    cross-attention. A LayerNorm (``--normalization layernorm``) is no affine map and stays too.
    """
    model.eval()  # in training, LayerDrop would hide layers from the loops below
    for layer in list(model.encoder.layers) + list(model.decoder.layers):
        if layer.token_mixing.post is None:
            return  # folded before
        _fold_token_mixing_(layer.token_mixing)
        _fold_branch_(layer.feed_forward, layer.feed_forward.fc1, layer.feed_forward.fc2)
        attention = getattr(layer, "cross_attention", None)
        if attention is not None:
            _fold_branch_(attention, attention.attn.q_proj, attention.attn.out_proj)
    _fold_final_(model)
