"""The translation results of the paper: its Table 5, tokenized BLEU on newstest2014."""

from typing import Optional

SENTENCES = 3003  # of newstest2014
TABLE_5 = {
    "en-de": {
        "GNMT": 24.6,
        "ConvS2S": 25.2,
        "Transformer (base)": 27.3,
        "ResMLP-6": 26.4,
        "ResMLP-12": 26.8,
    },
    "en-fr": {
        "GNMT": 39.9,
        "ConvS2S": 40.5,
        "Transformer (base)": 38.1,
        "ResMLP-6": 40.3,
        "ResMLP-12": 40.6,
    },
}
# the score to compare with these numbers: compounds are split in both, see tokenized_bleu
METRIC = {"en-de": "compound_split_bleu", "en-fr": "tokenized_bleu"}


def paper_row(pair: Optional[str]) -> Optional[dict]:
    """The systems and scores of the paper for a pair such as ``en-de``, or None."""
    if pair not in TABLE_5:
        return None
    return {"pair": pair, "metric": METRIC[pair], "bleu": TABLE_5[pair]}
