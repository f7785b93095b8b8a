"""The paper: affine maps, token mixing, the residual branches, cross-attention,
and what decoding remembers."""
