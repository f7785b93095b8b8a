"""Raw text to BLEU: prepare, train, translate, score, and run, which is all of them."""
