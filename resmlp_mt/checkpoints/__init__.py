"""Checkpoints: read as data and checked, written whole or not at all, averaged."""
