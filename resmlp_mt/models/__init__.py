"""The fairseq model: options, padding, encoder, decoder, architectures.

Importing any part registers the model and its architectures.
"""

from resmlp_mt.models import architectures

__all__ = ["architectures"]
