"""Our model and a Transformer of fairseq measured in turn, for ``resmlp-mt benchmark``."""
