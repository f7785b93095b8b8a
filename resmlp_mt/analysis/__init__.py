"""What can be read off a trained model: matrices, sparsity, pruning, attention."""
