"""Lines, subwords, normalisation. Nothing here knows a model."""
