"""Each kind of picture, from the options of ``resmlp-mt plot`` to the figure.

What looks into a checkpoint is imported where it is used: PyTorch and fairseq take seconds, which
curves and scores need not wait for.
"""

from argparse import Namespace
from pathlib import Path
from typing import Callable, Dict

from matplotlib.figure import Figure

from resmlp_mt.decoding.length_penalty import length_penalty
from resmlp_mt.errors import UserError
from resmlp_mt.plot.curves import read_curves
from resmlp_mt.plot.draw_curves import draw_curves
from resmlp_mt.plot.length import draw_by_length
from resmlp_mt.score.by_length import bleu_by_length
from resmlp_mt.score.evaluation import target_language
from resmlp_mt.score.generated import read_systems
from resmlp_mt.text.lines import check_same_lines, read_text


def _title(args: Namespace, heading: str) -> str:
    return heading if args.title is None else args.title


def matrices(args: Namespace) -> Figure:
    from resmlp_mt.checkpoints.inspection import mixing_matrices
    from resmlp_mt.plot.matrices import arrange, draw_matrices
    from resmlp_mt.plot.mixing_rows import choose_heads, some_heads

    found = mixing_matrices(args.checkpoint, args.length)
    there_are = next(iter(found.values())).size(0)
    heads = choose_heads(there_are, args.head)
    title = _title(args, f"Mixing matrices A by depth{some_heads(heads, there_are)}")
    return draw_matrices(arrange(found, heads), title)


def rows(args: Namespace) -> Figure:
    from resmlp_mt.plot.mixing_rows import mixing_rows
    from resmlp_mt.plot.rows import draw_rows

    found = mixing_rows(args.checkpoint, args.length, args.head, args.row)
    heading = "Weights by distance" if found.of == "head" else "Rows t of A"
    return draw_rows(found, args.reach, _title(args, heading + found.heads))


def shares(args: Namespace) -> Figure:
    from resmlp_mt.plot.pruning import sparsity
    from resmlp_mt.plot.sparsity import draw_sparsity

    found = sparsity(args.checkpoint, args.threshold, args.length)
    return draw_sparsity(found, _title(args, "Sparsity by layer"))


def curves(args: Namespace) -> Figure:
    return draw_curves(read_curves(args.curves), _title(args, "Learning curves"))


def attention(args: Namespace) -> Figure:
    from resmlp_mt.plot.attention import draw_attention
    from resmlp_mt.plot.cross_attention import cross_attention

    folder = args.checkpoint.parent
    found = cross_attention(
        *(args.checkpoint, args.data or folder, args.sentence, args.spm, args.translation),
        *(args.beam, length_penalty(args.lenpen, folder)),
    )
    depth = len(found.weights)
    for layer in args.layer or ():
        if not 1 <= layer <= depth:
            raise UserError(f"--layer {layer}: this decoder has {depth}")
    layers = list(args.layer or [depth])
    where = f", layer {layers[0]} of {depth}" if len(layers) == 1 else ""
    return draw_attention(found, layers, _title(args, f"Cross-attention{where}, mean over heads"))


def length(args: Namespace) -> Figure:
    files: Dict[str, Path] = {}
    for given in args.systems:
        name, equals, file = given.partition("=")
        if not (name and equals and file):
            raise UserError(f"{given}: give each system as NAME=FILE")
        if name in files:
            raise UserError(
                f"{given}: there is a system called {name} already: choose another name"
            )
        files[name] = Path(file)
    if args.baseline is not None and args.baseline not in files:
        raise UserError(f"--baseline {args.baseline}: name one of {', '.join(files)}")
    references = read_text(args.references)
    side, by = "reference", references
    if args.source is not None:
        side, by = "source", read_text(args.source)
        check_same_lines(args.source, len(by), args.references, len(references))
    target = target_language(args.language_pair)
    found = {
        name: bleu_by_length(hypotheses, references, by, args.edges, target)
        for name, hypotheses in read_systems(files, args.references, references).items()
    }
    return draw_by_length(found, side, _title(args, "BLEU by sentence length"), args.baseline)


# by the names of the command line
DRAW: Dict[str, Callable[[Namespace], Figure]] = {
    "matrices": matrices,
    "rows": rows,
    "sparsity": shares,
    "curves": curves,
    "attention": attention,
    "length": length,
}
