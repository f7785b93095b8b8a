"""What scripts/score.py prints: scores with signatures, the paper's row, the paired test."""

from typing import Dict, List

from resmlp_mt.analysis.by_length import words_label
from resmlp_mt.score.table5 import SENTENCES
from resmlp_mt.score.terminal_table import Table

TITLES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "tokenized_bleu": "tokenized BLEU",
    "compound_split_bleu": "tokenized BLEU, compounds split",
}


def report(result: dict) -> str:
    """The whole text for a result.

    Args:
        result: what :func:`resmlp_mt.score.evaluation.evaluate` returns, and the names of the
            files: ``hypotheses`` and, if there is one, ``baseline``.
    """
    parts = ["\n".join(score_lines(result)) + "\n"]
    if result.get("paper"):
        parts.append(paper_table(result).text())
    if "paired_bootstrap" in result:
        parts.append(bootstrap_table(result).text())
    if "by_length" in result:
        parts.append(length_table(result).text())
    return "\n".join(parts).rstrip("\n") + "\n"


def score_lines(result: dict) -> List[str]:
    """A line for each score: its name, the score, its signature."""
    titles = {key: title for key, title in TITLES.items() if key in result}
    width = max(map(len, titles.values()))
    return [
        f"{title:<{width}} {result[key]:6.2f}  {result[key + '_signature']}"
        for key, title in titles.items()
    ]


def paper_table(result: dict) -> Table:
    """Our score beside the paper's."""
    paper = result["paper"]
    notes = []
    if result["sentences"] != SENTENCES:
        notes = [
            f"These are {result['sentences']:,} sentences and newstest2014 has {SENTENCES:,}: "
            "not to be compared with the paper's."
        ]
    ours = f"{result[paper['metric']]:.2f}"
    return Table(
        f"Beside the paper's Table 5, {TITLES[paper['metric']]} on newstest2014:",
        ["", "this", *paper["bleu"]],
        [[paper["pair"], ours, *(f"{bleu:.1f}" for bleu in paper["bleu"].values())]],
        notes,
    )


def bootstrap_table(result: dict) -> Table:
    """Both systems' scores, and how likely so large a difference is by chance."""
    test = result["paired_bootstrap"]
    metrics = {TITLES[key]: test[key] for key in ("bleu", "chrf")}
    rows = [
        [
            result[key],
            *(
                cell
                for metric in metrics.values()
                for cell in (
                    f"{metric[role]:.2f}",
                    f"{metric[role + '_mean']:.2f} ± {metric[role + '_ci']:.2f}",
                )
            ),
        ]
        for role, key in (("baseline", "baseline"), ("system", "hypotheses"))
    ]
    rows.append(["p", *(cell for m in metrics.values() for cell in (f"{m['p_value']:.4f}", ""))])
    return Table(
        f"Paired bootstrap, {test['samples']:,} samples, seed {test['seed']}:",
        ["", *(cell for title in metrics for cell in (title, "mean ± 95%"))],
        rows,
        ["p: how often chance alone makes a difference as large as this one."],
    )


def systems_by_length(result: dict) -> Dict[str, List[dict]]:
    """The buckets of each system by its file's name."""
    roles = (("hypotheses", "system"), ("baseline", "baseline"))
    found = result["by_length"]
    return {result[name]: found[role] for name, role in roles if role in found}


def length_table(result: dict) -> Table:
    """A row for each bucket of lengths, a column for each system."""
    systems = systems_by_length(result)
    rows = [
        [
            words_label(bucket),
            f"{bucket['sentences']:,}",
            *(
                "-" if rows[number]["bleu"] is None else f"{rows[number]['bleu']:.2f}"
                for rows in systems.values()
            ),
        ]
        for number, bucket in enumerate(result["by_length"]["system"])
    ]
    return Table(
        f"BLEU by words of the {result['by_length']['words_of']}:",
        ["words", "sentences", *systems],
        rows,
    )
