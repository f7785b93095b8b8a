"""The study's tables of short and long sentences, in Markdown."""

from statistics import mean
from typing import Dict, List

from study_tables import markdown, of_system, rows_of
from systems import SYSTEMS

from resmlp_mt.analysis.by_length import words_label


def by_length(results: Dict[str, dict], pair: str) -> Dict[str, List[dict]]:
    """Each system's buckets of sentences, their BLEU the mean over its seeds."""
    found = {}
    for label in SYSTEMS:
        runs = of_system(results, label, pair.removeprefix("en-"))
        scores = [rows_of(results, "lengths").get(r["row"]) for r in runs]
        if scores and all(scores):
            buckets = results["lengths"]["buckets"]
            found[label] = [
                {**bucket, "bleu": mean(bleus) if bucket["sentences"] else None}
                for bucket, bleus in zip(buckets, zip(*scores))
            ]
    return found


def lengths(results: Dict[str, dict]) -> str:
    """BLEU of short, middling and long sentences."""
    lines, head = [], []
    for pair in ("en-de", "en-fr"):
        for label, buckets in by_length(results, pair).items():
            lines.append([pair, label, *(_bleu(bucket) for bucket in buckets)])
            head = [f"{words_label(bucket)} ({bucket['sentences']})" for bucket in buckets]
    return markdown(["pair", "system", *head], lines)


def _bleu(bucket: dict) -> str:
    return f"{bucket['bleu']:.1f}" if bucket["sentences"] else "-"


def text_of(table: str) -> str:
    """The training text of a table's runs."""
    return "original" if table == "table5" else table


def long_sentences(results: Dict[str, dict]) -> str:
    """BLEU of 1 to 4 sentences in one line, as the model is and with its A extended."""
    found = results.get("long_sentences")
    if found is None:
        return markdown([], [])
    lines = []
    for name, row in found["rows"].items():
        text, _, system, _ = name.split(".")
        for how, scores in row.items():
            a = how if len(row) > 1 else "-"
            lines.append([text_of(text), system, a, *(f"{bleu:.1f}" for bleu in scores)])
    joined = [f"{n} ({words:.0f} words)" for n, words in enumerate(found["words"], 1)]
    return markdown(["training text", "system", "A", *joined], lines)
