"""The named architectures: what each changes in the defaults of the model's options.

Importing this file registers them, and the model, with fairseq.
"""

from functools import partial

from fairseq.models import register_model_architecture

import resmlp_mt.model.model  # noqa: F401  registers the model
from resmlp_mt.model.config import set_defaults

DEEP = {"encoder_layers": 12, "decoder_layers": 12}
# a weight of A for each distance; eight groups of channels with an A each
TOEPLITZ = {"token_mixing": "toeplitz", "token_mixing_heads": 8}
# the same A under a gate
GATED = {"token_mixing": "gated", "token_mixing_heads": 8}
# convolutions over three positions, which need positional embeddings
CONV = {"token_mixing": "conv", "token_positional_embeddings": True}

ARCHITECTURES: dict[str, dict] = {
    # the paper's, section 3: d = 512, hidden 2048, 8 heads, 6 + 6 or 12 + 12 layers
    "resmlp_mt_6": {},
    "resmlp_mt_12": DEEP,
    # ours: docs/results.md compares them with the paper's
    "resmlp_mt_toeplitz_6": TOEPLITZ,
    "resmlp_mt_toeplitz_12": {**TOEPLITZ, **DEEP},
    "resmlp_mt_gated_6": GATED,
    "resmlp_mt_gated_12": {**GATED, **DEEP},
    "resmlp_mt_conv_6": CONV,
    "resmlp_mt_conv_12": {**CONV, **DEEP},
    # trains on a laptop's CPU
    "resmlp_mt_tiny": {
        "encoder_layers": 4,
        "decoder_layers": 4,
        "encoder_embed_dim": 128,
        "encoder_ffn_embed_dim": 256,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
    },
}

for name, values in ARCHITECTURES.items():
    register_model_architecture("resmlp_mt", name)(partial(set_defaults, **values))
