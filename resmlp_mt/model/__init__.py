"""The model of the paper: affine maps, token mixings, layers, encoder, decoder, architectures."""

from resmlp_mt.patching import logging_as_before, without_examples

with logging_as_before(), without_examples():  # whichever module of ours comes first
    import fairseq  # noqa: F401
