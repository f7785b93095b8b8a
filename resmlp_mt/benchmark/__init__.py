"""Our model and fairseq's Transformer measured in turn, for ``scripts/benchmark.py``."""
