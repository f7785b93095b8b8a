"""BLEU by sentence length of several systems, from their files."""

from pathlib import Path
from typing import Dict, List, Optional, Sequence

from resmlp_mt.errors import UserError
from resmlp_mt.score.by_length import EDGES, bleu_by_length
from resmlp_mt.score.generated import read_system
from resmlp_mt.text.lines import check_same_lines, read_text


def systems_by_length(
    systems: Sequence[str],
    references: Path,
    source: Optional[Path] = None,
    edges: Sequence[int] = EDGES,
) -> Dict[str, List[dict]]:
    """
    Args:
        systems: ``NAME=FILE`` of each: translations, one a line, or a log of fairseq-generate.
        references: one detokenized sentence a line.
        source: the sentences whose lengths count. Default: the references.
        edges: longest sentences of the buckets, in words.

    Returns:
        what :func:`resmlp_mt.score.by_length.bleu_by_length` returns, by name.

    Raises:
        UserError: a system without a name, or named twice; files that do not go together.
    """
    correct = read_text(references)
    by = correct
    if source is not None:
        by = read_text(source)
        check_same_lines(source, by, references, correct, "source sentences")
    found: Dict[str, List[dict]] = {}
    for given in systems:
        name, equals, file = given.partition("=")
        if not (name and equals and file):
            raise UserError(f"{given}: give each system as NAME=FILE")
        if name in found:
            raise UserError(f"{given}: there is a system called {name} already: name it otherwise")
        hypotheses = read_system(Path(file), len(correct))
        check_same_lines(Path(file), hypotheses, references, correct, "translations")
        found[name] = bleu_by_length(hypotheses, correct, by, edges)
    return found
