"""Each picture from its files: what is read, and what is refused, before anything is drawn."""

from pathlib import Path
from typing import Dict, List, Optional, Sequence

from matplotlib.figure import Figure

from resmlp_mt.analysis.cross_attention import cross_attention
from resmlp_mt.analysis.pruning import PAPERS_THRESHOLD, sparsity
from resmlp_mt.analysis.pruning_sweep import lines, read_sweep
from resmlp_mt.checkpoints.inspection import (
    SIDES,
    load_ours,
    mixing_kind,
    mixing_matrices,
    positions,
)
from resmlp_mt.errors import UserError
from resmlp_mt.pictures.attention import draw_attention
from resmlp_mt.pictures.curves import draw_curves, read_curves
from resmlp_mt.pictures.length import draw_by_length
from resmlp_mt.pictures.matrices import arrange, draw_matrices
from resmlp_mt.pictures.pruning import draw_pruning
from resmlp_mt.pictures.rows import distance_curves, draw_rows, middle_rows, row_curves
from resmlp_mt.pictures.sparsity import draw_sparsity
from resmlp_mt.score.by_length import EDGES, bleu_by_length
from resmlp_mt.score.generated import read_system
from resmlp_mt.text.lines import check_same_lines, read_text

MOST_HEADS = 8  # drawn unless more are asked for
LENGTH, REACH = 32, 12
# where the weights depend on the distance alone, so that all rows are alike
BY_DISTANCE = ("toeplitz", "depthwise-conv")


def choose_heads(there_are: int, asked: Optional[Sequence[int]]) -> List[int]:
    """Heads to draw, from 1.

    Raises:
        UserError: for a head that is not there.
    """
    for head in asked or ():
        if not 1 <= head <= there_are:
            raise UserError(f"--head {head}: this model has {there_are}")
    return list(asked or range(1, min(there_are, MOST_HEADS) + 1))


def _some_heads(heads: Sequence[int], there_are: int) -> str:
    if there_are == 1 or len(heads) == there_are:
        return ""
    numbers = ", ".join(map(str, heads))
    if len(heads) > 2 and list(heads) == list(range(heads[0], heads[-1] + 1)):
        numbers = f"{heads[0]} to {heads[-1]}"
    return f", head{'s' if len(heads) > 1 else ''} {numbers} of {there_are}"


def matrices(
    checkpoint: Path,
    length: int = LENGTH,
    heads: Optional[Sequence[int]] = None,
    title: Optional[str] = None,
) -> Figure:
    """Every layer's A as a heat map."""
    found = mixing_matrices(checkpoint, length)
    there_are = next(iter(found.values())).size(0)
    heads = choose_heads(there_are, heads)
    if title is None:
        title = f"Mixing matrices A by depth{_some_heads(heads, there_are)}"
    return draw_matrices(arrange(found, heads), title)


def rows(
    checkpoint: Path,
    length: int = LENGTH,
    heads: Optional[Sequence[int]] = None,
    some_rows: Optional[Sequence[int]] = None,
    reach: int = REACH,
    absolute: bool = False,
    title: Optional[str] = None,
) -> Figure:
    """Rows of A as curves: several rows of one head, or by distance, a curve for each head."""
    found = mixing_matrices(checkpoint, length)
    shape = next(iter(found.values())).shape
    there_are, length = shape[0], min(matrix.size(1) for matrix in found.values())
    by_distance = mixing_kind(load_ours(checkpoint)) in BY_DISTANCE
    if by_distance:
        if absolute or some_rows:
            raise UserError(
                f"{checkpoint}: its weights are by distance, all rows are alike: leave --absolute "
                "and --row off"
            )
        heads = choose_heads(there_are, heads)
        panels = {
            key: distance_curves(matrix, key[0] == "decoder", heads)
            for key, matrix in found.items()
        }
        heading = f"Weights by distance{_some_heads(heads, there_are)}"
    else:
        if heads is not None and len(heads) > 1:
            raise UserError("--head: give one, its rows are the curves")
        (head,) = choose_heads(there_are, heads or [1])
        some_rows = some_rows or middle_rows(length)
        for row in some_rows:
            if not 0 <= row < length:
                raise UserError(f"--row {row}: the matrices drawn have rows 0 to {length - 1}")
        panels = {
            key: row_curves(matrix, key[0] == "decoder", head, some_rows, not absolute)
            for key, matrix in found.items()
        }
        heading = f"Rows t of A{_some_heads([head], there_are)}"
    title = heading if title is None else title
    return draw_rows(panels, min(reach, length - 1) or None, not absolute, title)


def shares(
    checkpoint: Path,
    threshold: float = PAPERS_THRESHOLD,
    length: int = LENGTH,
    title: Optional[str] = None,
) -> Figure:
    """The paper's sparsity figure."""
    counts = sparsity(checkpoint, threshold, length)
    state = load_ours(checkpoint)
    kind, length = mixing_kind(state), min(length, max(positions(state, side) for side in SIDES))
    of_a = {"toeplitz": f"distances below {length}", "depthwise-conv": "taps"}
    return draw_sparsity(
        counts,
        threshold,
        of_a.get(kind, f"first {length} positions"),
        kind == "linear",
        "Sparsity by layer" if title is None else title,
    )


def curves(files: Sequence[str], title: Optional[str] = None) -> Figure:
    """Learning curves."""
    return draw_curves(read_curves(files), "Learning curves" if title is None else title)


def attention(
    checkpoint: Path,
    data_bin: Path,
    sentence: str,
    spm: Optional[Path] = None,
    translation: Optional[str] = None,
    layers: Optional[Sequence[int]] = None,
    beam: int = 4,
    lenpen: float = 0.6,
    title: Optional[str] = None,
) -> Figure:
    """The cross-attention of one sentence; of the last layer unless others are asked for."""
    found = cross_attention(checkpoint, data_bin, sentence, spm, translation, beam, lenpen)
    depth = len(found.weights)
    for layer in layers or ():
        if not 1 <= layer <= depth:
            raise UserError(f"--layer {layer}: this decoder has {depth}")
    layers = list(layers or [depth])
    if title is None:
        where = f", layer {layers[0]} of {depth}" if len(layers) == 1 else ""
        title = f"Cross-attention{where}, mean over heads"
    return draw_attention(found, layers, title)


def pruning(file: Path, title: Optional[str] = None) -> Figure:
    """BLEU against the share of weights pruned.

    Raises:
        UserError: naming a file that is none of a sweep, or without a point to draw.
    """
    result = read_sweep(file)
    if not lines(result):
        raise UserError(f"{file}: no point with weights removed: run prune_sweep.py to its end")
    return draw_pruning(result, "Pruned without retraining" if title is None else title)


def by_length(
    systems: Sequence[str],
    references: Path,
    source: Optional[Path] = None,
    edges: Sequence[int] = EDGES,
    title: Optional[str] = None,
) -> Figure:
    """BLEU by sentence length of several systems.

    Args:
        systems: ``NAME=FILE`` of each: translations, one a line, or a log of fairseq-generate.
        references: one detokenized sentence a line.
        source: the sentences whose lengths count, by default the references.
        edges: longest sentences of the buckets, in words.
        title: heading of the picture.

    Raises:
        UserError: a system without a name, or named twice; files that do not go together.
    """
    correct = read_text(references)
    by = correct
    if source is not None:
        by = read_text(source)
        check_same_lines(source, by, references, correct, "sources")
    found: Dict[str, List[dict]] = {}
    for given in systems:
        name, equals, file = given.partition("=")
        if not (name and equals and file):
            raise UserError(f"{given}: give each system as NAME=FILE")
        if name in found:
            raise UserError(f"{given}: there is a system called {name} already: name it otherwise")
        hypotheses = read_system(Path(file))
        check_same_lines(Path(file), hypotheses, references, correct, "translations")
        found[name] = bleu_by_length(hypotheses, correct, by, edges)

    return draw_by_length(
        found,
        "reference" if source is None else "source",
        "BLEU by sentence length" if title is None else title,
    )
