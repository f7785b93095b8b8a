"""Matrices and learning curves, drawn at their printed size with matplotlib."""
