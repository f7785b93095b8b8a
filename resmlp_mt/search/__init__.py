"""Beam search over a model."""
