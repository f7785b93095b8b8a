"""Translations by a run of study.py, searched in another way than the run itself did."""

from pathlib import Path
from typing import Dict, List, Optional

import torch
from plan import rows

from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json
from resmlp_mt.text.subwords import Subwords
from resmlp_mt.translate.translator import Translator, by_length

MAX_TOKENS = 4096


def translate(
    out: Path, name: str, sources: List[str], overrides: Optional[Dict] = None, **search
) -> List[str]:
    """Detokenized translations in the order of *sources*, with beam 4 and the length penalty that
    the run chose.

    Args:
        out: folder of study.py's runs.
        name: the row's.
        sources: one line each.
        overrides: options of the model in place of its own.
        search: more fields of fairseq's ``GenerationConfig``.

    Raises:
        UserError: if a line is longer than the model's positions.
    """
    folder = out / name / "generate"
    subwords = Subwords(folder / "sentencepiece.bpe.model")
    lenpen = read_json(folder / "lenpen.json")["chosen"]
    translator = Translator(
        torch.device("cpu"),
        [folder / "model.pt"],
        rows()[name].data(out) / "data-bin",
        {"beam": 4, "lenpen": lenpen, **search},
        max_tokens=MAX_TOKENS,
        overrides=overrides,
    )
    pieces = [subwords.encode(source).split() for source in sources]
    lengths = [len(sentence) + 1 for sentence in pieces]
    if max(lengths) > translator.about.positions:
        raise UserError(
            f"{folder}: a line has {max(lengths)} subwords, the model "
            f"{translator.about.positions} positions: join fewer sentences"
        )
    texts = [""] * len(sources)
    for batch in by_length(list(range(len(sources))), lengths, MAX_TOKENS):
        (found,) = translator.work([pieces[i] for i in batch])
        for i, text in zip(batch, found):
            texts[i] = text
    return texts
