"""The model of the paper: affine maps, token mixing, branches, encoder, decoder, architectures."""
