"""The fairseq model: options, padding, encoder, decoder, architectures."""
