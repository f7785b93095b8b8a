"""Token mixing by a convolution over positions, which mixes the channels too.

Its K taps are centred in the encoder and read the newest K positions in the decoder. Positions
outside the sentence count as zero.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resmlp_mt.errors import UserError
from resmlp_mt.model.affine import Affine
from resmlp_mt.model.folding import after, with_parts


class ConvTokenMixing(nn.Module):
    """``y[t] = sum_k W[k] x[t + k] + b``, K matrices of C x C."""

    def __init__(self, cfg, channels: int, positions: int, causal: bool):
        super().__init__()
        kernel_size, bias = cfg.token_mixing_kernel_size, not cfg.no_token_mixing_bias
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise UserError(
                f"--token-mixing-kernel-size {kernel_size}: must be odd, to have a centre: "
                "choose 1, 3, 5 ..."
            )
        self.channels, self.causal, self.kernel_size = channels, causal, kernel_size
        # C x (K C): one product over the joined channels of all taps
        self.taps = nn.Linear(kernel_size * channels, channels, bias=bias)
        nn.init.normal_(self.taps.weight, std=cfg.token_mixing_init_std)
        if bias:
            nn.init.zeros_(self.taps.bias)

    def forward(self, x: Tensor, history=None, padding_mask=None) -> Tensor:
        past = history is not None
        read = history.recent(id(self), x, self.kernel_size) if past else self.window(x)
        return self.taps(read.flatten(-2))

    def window(self, x: Tensor) -> Tensor:
        """T x B x C to T x B x K x C: what each position reads, the leftmost first."""
        reach = self.kernel_size - 1
        left = reach if self.causal else reach // 2
        padded = F.pad(x, (0, 0, 0, 0, left, reach - left))
        return padded.unfold(0, self.kernel_size, 1).transpose(2, 3)

    def folded(self, pre: Affine | None, post: Affine) -> nn.Module:
        if pre is None:
            return with_parts(self, taps=after(self.taps, post))
        return FoldedConvTokenMixing(self, pre, post)


class FoldedConvTokenMixing(nn.Module):
    """Both affine maps are in the weights of the taps. What the first beta adds depends on which
    taps fall into the sentence, so each has a bias of its own: ``inside_bias``, K x C."""

    @torch.no_grad()
    def __init__(self, mixing: ConvTokenMixing, pre: Affine, post: Affine):
        super().__init__()
        taps, dtype = after(mixing.taps, post), mixing.taps.weight.dtype
        weight = post.alpha.double().unsqueeze(1) * mixing.taps.weight.double()
        weight = weight.view(mixing.channels, mixing.kernel_size, mixing.channels)
        inside_bias = torch.einsum("okc,c->ko", weight, pre.beta.double())
        self.register_buffer("inside_bias", inside_bias.to(dtype))
        weight = (weight * pre.alpha.double()).flatten(1)
        taps.weight = nn.Parameter(weight.to(dtype), False)
        self.mixing = with_parts(mixing, taps=taps)

    def forward(self, x: Tensor, history=None, padding_mask=None) -> Tensor:
        inside = self._inside(x, history, padding_mask)
        return self.mixing(x, history) + inside @ self.inside_bias

    def _inside(self, x, history, padding_mask) -> Tensor:
        """1 where a tap is in the sentence, else 0: T x B x K, T x 1 x K, or 1 x K by *history*."""
        if history is not None:
            return history.inside(self.mixing.kernel_size).to(x.dtype).unsqueeze(0)
        if padding_mask is not None:
            inside = (~padding_mask).t().unsqueeze(-1).to(x.dtype)
        else:
            inside = x.new_ones(len(x), 1, 1)
        return self.mixing.window(inside).squeeze(-1)
