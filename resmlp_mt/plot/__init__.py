"""Mixing matrices, drawn at their printed size with matplotlib."""
