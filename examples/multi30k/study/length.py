"""BLEU by sentence length as a picture."""

from typing import Dict, List, Optional

from matplotlib.figure import Figure

from resmlp_mt.plot.style import CM, COLUMN, PAGE, in_style, legend_below, looks, new_figure
from study.by_length import words_label

LETTER = 0.125 * CM  # of the label of a bucket
FRAME = 1.4 * CM  # left and right of the axes


@in_style
def draw_by_length(
    systems: Dict[str, List[dict]],
    side: str,
    title: Optional[str] = None,
    baseline: Optional[str] = None,
) -> Figure:
    """A line for each system.

    Args:
        systems: what :func:`study.by_length.bleu_by_length` returns, by system, of the
            same sentences and edges.
        side: whose words count, ``"source"`` or ``"reference"``.
        title: heading of the picture.
        baseline: the system from which the others differ by what is drawn. Default: BLEU is drawn.
    """
    buckets = next(iter(systems.values()))
    labels = [f"{words_label(row)}\n{row['sentences']:,}" for row in buckets]
    bleu = {name: [_bleu(row) for row in rows] for name, rows in systems.items()}
    if baseline:
        below = bleu[baseline]
        bleu = {name: [a - b for a, b in zip(bleu[name], below)] for name in systems}
    width = COLUMN if _room(labels) <= COLUMN - FRAME else PAGE
    columns = 2 if max(map(len, systems)) <= 20 else 1
    legend = 0.32 * -(-len(systems) // columns)
    figure = new_figure(width, (5.6 + legend) * CM, title)
    axes = figure.subplots()
    for name, look in looks(systems).items():
        axes.plot(range(len(buckets)), bleu[name], label=name, **look)
    axes.set_xticks(range(len(buckets)), labels)
    what = f"sacreBLEU, difference from\n{baseline}" if baseline else "sacreBLEU (0 to 100)"
    axes.set(xlabel=f"words of the {side}\nnumber of sentences", ylabel=what)
    axes.margins(y=0.1)
    if not baseline:
        axes.set_ylim(bottom=0)
    axes.grid(True)
    legend_below(figure, *axes.get_legend_handles_labels(), columns)
    return figure


def _bleu(row: dict) -> float:
    return float("nan") if row["bleu"] is None else row["bleu"]


def _room(labels: List[str]) -> float:
    """Inches that labels at equal distances need in order to stand apart."""
    letters = [max(map(len, label.splitlines())) for label in labels]
    widest = max(((one + next) / 2 + 1 for one, next in zip(letters, letters[1:])), default=0)
    return 1.1 * widest * LETTER * (len(labels) - 1)  # 1.1: the margins of the axes
