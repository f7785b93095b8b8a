"""The model of the paper: affine maps, token mixings, layers, encoder, decoder, architectures."""
