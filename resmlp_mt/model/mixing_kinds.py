"""The choices of ``--token-mixing``, and the branch that mixes by the chosen one."""

from torch import Tensor, nn

from resmlp_mt.errors import UserError
from resmlp_mt.model.branches import TokenMixingBranch
from resmlp_mt.model.conv_mixing import ConvTokenMixing
from resmlp_mt.model.gated_mixing import GatedTokenMixing
from resmlp_mt.model.token_mixing import ToeplitzTokenMixing, TokenMixing

TOKEN_MIXING: dict[str, type[nn.Module]] = {}


def register_mixing(name: str, cls: type[nn.Module]) -> None:
    """Make *cls* a choice of ``--token-mixing``. docs/options.md shows a kind of your own."""
    if TOKEN_MIXING.setdefault(name, cls) is not cls:
        raise UserError(f"register_mixing: there is another {name} already: choose another name")


def build_token_mixing_branch(cfg, channels: int, positions: int, causal: bool) -> nn.Module:
    """The branch of eq. 2 with the mixing that ``cfg.token_mixing`` names."""
    mixing = TOKEN_MIXING[str(cfg.token_mixing)](cfg, channels, positions, causal)
    nothing = isinstance(mixing, NoTokenMixing)
    return mixing if nothing else TokenMixingBranch(cfg, channels, mixing)


class NoTokenMixing(nn.Module):
    """``--token-mixing none``: a branch that adds nothing and has no weights."""

    def __init__(self, cfg, channels: int, positions: int, causal: bool):
        super().__init__()

    def forward(self, x: Tensor, padding_mask=None, history=None) -> Tensor:
        return x


register_mixing("linear", TokenMixing)
register_mixing("toeplitz", ToeplitzTokenMixing)
register_mixing("gated", GatedTokenMixing)
register_mixing("conv", ConvTokenMixing)
register_mixing("none", NoTokenMixing)
