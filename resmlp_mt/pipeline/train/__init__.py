"""Training: recipes, the command line of fairseq-train, the folder of a run."""
