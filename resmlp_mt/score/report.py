"""The text that ``resmlp-mt score`` prints: tables of what was evaluated."""

from typing import Dict, List, Optional

from tabulate import tabulate

SENTENCES = 3003  # of newstest2014
TESTS = {"bs": "Paired bootstrap", "ar": "Paired approximate randomization"}
NAMES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "ter": "TER",
    "tokenized_bleu": "tokenized BLEU",
    "compound_split_bleu": "compound-split BLEU",
}


def report(result: dict) -> str:
    """
    Args:
        result: what :func:`resmlp_mt.score.evaluation.evaluate` returns.
    """
    parts = [_scores(result)]
    if "paper" in result:
        parts.append(_beside_the_paper(result))
    if "paired" in result:
        parts.append(_paired(result["paired"]))
    return "\n\n".join(parts) + "\n"


def _table(head: List[str], rows: List[List[str]]) -> str:
    align = ("left", *["right"] * (len(head) - 1))
    return tabulate(rows, head, tablefmt="simple", disable_numparse=True, colalign=align)


def _signatures(signatures: Dict[str, str]) -> List[str]:
    width = max(len(NAMES[metric]) for metric in signatures)
    return [f"{NAMES[metric]:<{width}}  {value}" for metric, value in signatures.items()]


def _two_digits(value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.2f}"


def _scores(result: dict) -> str:
    metrics = result["signatures"]
    rows = [
        [name, *(_two_digits(scores[metric]) for metric in metrics)]
        for name, scores in result["systems"].items()
    ]
    table = _table(["", *(NAMES[metric] for metric in metrics)], rows)
    return "\n".join([table, "", *_signatures(metrics)])


def _beside_the_paper(result: dict) -> str:
    paper = result["paper"]
    metric = paper["metric"]
    rows = [[name, _two_digits(scores[metric])] for name, scores in result["systems"].items()]
    rows += [[f"{name} (paper)", f"{bleu:.1f}"] for name, bleu in paper["bleu"].items()]
    lines = [f"Table 5 of the paper, {result['language_pair']}, newstest2014:"]
    lines += ["", _table(["", NAMES[metric]], rows)]
    if result["sentences"] != SENTENCES:
        lines.append(
            f"These are {result['sentences']:,} sentences and newstest2014 has {SENTENCES:,}: do "
            "not compare them with the paper."
        )
    return "\n".join(lines)


def _paired(test: dict) -> str:
    intervals = test["test"] == "bs"
    head = [""]
    for metric in test["signatures"]:
        head += [NAMES[metric], *(["mean ± 95%"] if intervals else []), "p"]
    rows = []
    for name, found in test["systems"].items():
        row = [name]
        for value in found.values():
            row.append(_two_digits(value["score"]))
            if intervals:
                row.append(f"{value['mean']:.2f} ± {value['ci']:.2f}")
            row.append("" if value["p_value"] is None else f"{value['p_value']:.4f}")
        rows.append(row)
    title = f"{TESTS[test['test']]} against {test['baseline']}:"
    note = "p: how often chance alone makes a difference as large as this one."
    return "\n".join([title, "", _table(head, rows), note, "", *_signatures(test["signatures"])])
