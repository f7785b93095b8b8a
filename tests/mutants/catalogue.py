"""The mutants: what is wrong in each, where, and the text that makes it so."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """A replacement in one file.

    Attributes:
        name: says what is wrong.
        file: relative to the root of the repository.
        old: text that is in the file exactly once.
        new: what stands there in the mutant.
    """

    name: str
    file: str
    old: str
    new: str


AFFINE = "resmlp_mt/modules/affine.py"
LAYERS = "resmlp_mt/modules/layers.py"
PADDING = "resmlp_mt/models/padding.py"

MUTANTS = (
    Mutant(
        "affine-without-beta",
        AFFINE,
        "torch.addcmul(self.beta, self.alpha, x)",
        "self.alpha * x",
    ),
    Mutant(
        "encoder-sublayers-swapped",
        LAYERS,
        """        x = self.token_mixing(x, encoder_padding_mask)
        return self.feed_forward(x)
""",
        """        x = self.feed_forward(x)
        return self.token_mixing(x, encoder_padding_mask)
""",
    ),
    Mutant(
        "encoder-feed-forward-twice",
        LAYERS,
        """        return self.feed_forward(x)

    def upgrade""",
        """        return self.feed_forward(self.feed_forward(x))

    def upgrade""",
    ),
    Mutant(
        "padding-not-turned-back",
        PADDING,
        """    if order is None:
        return x
""",
        """    return x
""",
    ),
)
