"""The two experiments' data: what they are made of, how large, and known checksums."""

from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Tuple

from resmlp_mt.errors import UserError

RECIPES_FILE = Path(__file__).with_name("mtdata.recipes.wmt14.yml")

# newstest2014 in full; En-De is also to be had filtered to 2,737 pairs (WMT14's test-filtered.tgz),
# and scores on those cannot be compared with the paper's
TEST_PAIRS = 3003

# sums that others have published, by URL; of the other archives none was found, and what their
# first download had is remembered (see resmlp_mt.prepare.fetch)
CHECKSUMS = {
    # TensorFlow Datasets, url_checksums/wmt14_translate.txt
    "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz": (
        "sha256:0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7"
    ),
    "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz": (
        "sha256:c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5"
    ),
    # sacreBLEU, data set wmt20/dev
    "http://data.statmt.org/wmt20/translation-task/dev.tgz": "md5:037f2b37aab74febbb1b2307dc2afb54",
}


@dataclass(frozen=True)
class Pair:
    """
    Attributes:
        name: as the command line has it.
        source, target: languages as fairseq and Moses call them.
        tags: the same two as mtdata does, which ends file names with them.
        recipe: id in :data:`RECIPES_FILE`.
        vocab_size: joint SentencePiece pieces.
        million_pairs: roughly, before cleaning; for the disk that a download will need.
    """

    name: str
    source: str
    target: str
    tags: Tuple[str, str]
    recipe: str
    vocab_size: int
    million_pairs: float


PAIRS: Dict[str, Pair] = {
    pair.name: pair
    for pair in (
        Pair("en-de", "en", "de", ("eng", "deu"), "wmt14_en_de", 32_000, 4.5),
        Pair("en-fr", "en", "fr", ("eng", "fra"), "wmt14_en_fr", 40_000, 41.0),
    )
}


def find_pair(name: str) -> Pair:
    """
    Raises:
        UserError: naming the pairs that there are.
    """
    if name not in PAIRS:
        raise UserError(f"{name}: unknown pair: choose {' or '.join(PAIRS)}")
    return PAIRS[name]
