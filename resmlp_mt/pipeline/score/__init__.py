"""Scores of translations: sacreBLEU, chrF, tokenized and compound-split BLEU."""
