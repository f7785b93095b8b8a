"""Folding: for inference every affine map is absorbed by the linear maps beside it (section 2).

* A linear layer takes the maps before and after it in its weight and bias;
* token mixing that is a map of positions alone has both maps moved behind it
  (:mod:`resmlp_mt.modules.mixing_maps`); the others take them into their weights;
* the encoder's final map goes into the decoder's key and value projections, the decoder's into the
  output layer.
"""

from typing import Optional

from torch import nn

from resmlp_mt.modules.affine import Affine
from resmlp_mt.modules.branches import Branch, NoTokenMixing
from resmlp_mt.modules.linear_folding import FoldedTokenMixing, fold_after_, fold_before_
from resmlp_mt.modules.mixing_kinds import commutes


def _affine(module: Optional[nn.Module]) -> Optional[Affine]:
    return module if isinstance(module, Affine) else None


def _fold_branch_(branch, first: nn.Linear, last: nn.Linear) -> None:
    if _affine(branch.pre) is not None:
        fold_before_(first, branch.pre)
        branch.pre = None
    fold_after_(last, branch.post)
    branch.post = None


def _fold_token_mixing_(branch) -> None:
    if isinstance(branch, NoTokenMixing):
        return
    if commutes(branch.mixing):
        branch.folded = FoldedTokenMixing(branch.mixing, branch.pre, branch.post)
    else:
        branch.mixing.fold_(branch.pre, branch.post)
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
        # C x V in memory: read a tenth faster for the few rows of a single sentence
        untied.weight = nn.Parameter(untied.weight.detach().t().contiguous().t())
        decoder.output_projection = untied
    else:
        return  # adaptive softmax: one map before many clusters stays as it is
    decoder.layer_norm = None


def is_folded(model) -> bool:
    """Whether :func:`fold_` has been applied."""
    return any(isinstance(module, Branch) and module.post is None for module in model.modules())


def fold_(model) -> None:
    """Absorb every affine map of a model of ours, in place; for inference only.

    Products and sums are taken in float64 whatever the model's dtype. Two maps stay where nothing
    linear follows them: the decoder's final one under adaptive softmax, the encoder's without
    cross-attention. A LayerNorm (``--normalization layernorm``) is no affine map and stays too.
    """
    if is_folded(model):
        return
    model.eval()  # in training, LayerDrop would hide layers from the loops below
    for layer in list(model.encoder.layers) + list(model.decoder.layers):
        _fold_token_mixing_(layer.token_mixing)
        _fold_branch_(layer.feed_forward, layer.feed_forward.fc1, layer.feed_forward.fc2)
        attention = getattr(layer, "cross_attention", None)
        if attention is not None:
            _fold_branch_(attention, attention.attn.q_proj, attention.attn.out_proj)
    _fold_final_(model)
