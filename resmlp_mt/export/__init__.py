"""Export a model: a folder of data, which resmlp_mt_runtime translates with."""
