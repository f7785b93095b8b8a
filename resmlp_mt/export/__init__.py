"""A trained model as a folder that needs neither fairseq nor PyTorch."""
