"""Our model and fairseq's Transformer measured in turn, for ``resmlp-mt benchmark``."""
