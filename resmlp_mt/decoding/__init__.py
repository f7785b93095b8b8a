"""Translating fast: folding, beam search, precision, long sentences."""
