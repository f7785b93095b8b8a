"""Decoding: what it remembers, beam search, packed products. It knows no model."""
