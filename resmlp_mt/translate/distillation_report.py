"""What a distillation gave, for the terminal."""

from pathlib import Path
from typing import List


def report(prefix: Path, made: dict) -> List[str]:
    """Lines for the terminal: what *made*, from :func:`distill`, says."""
    options, results = made["options"], made["results"]
    cost, lines = results["cost"], results["lines"]
    rate = lines / max(cost["wall_seconds"], 0.001)
    said = [
        f"{lines} sentences translated, {rate:.1f} a second in each process; "
        f"{cost['cpu_seconds'] * 1000 / lines:.1f} CPU seconds for 1,000"
    ]
    scored = {"the teacher's best": results["teacher"]}
    if "interpolated" in results:
        scored["nearest in the beam"] = results["interpolated"]
    for name, scores in scored.items():
        said.append(
            f"{name} against the references: BLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f}"
        )
    if "interpolated" in results:
        changed = results["interpolated"]["not_the_best_scored"]
        said.append(f"another hypothesis than the best-scored one: {changed} lines")
    said.append(f"signature: {results['teacher']['bleu_signature']}")
    fate = {"reference": "replaced by the reference", "drop": "left out", "keep": "kept"}
    failed = sum(results["failures"].values())
    said.append(f"failures: {failed} of {lines}" + (":" if failed else ""))
    for kind, count in results["failures"].items():
        first = results["failures_first_lines"][kind]
        numbers = ", ".join(map(str, first)) + (" ..." if count > len(first) else "")
        said.append(f"    {kind}: {count} (line {numbers})")
    if failed:
        said.append(f"    {fate[options['failures']]}; all are in {prefix}.failures.tsv")
    own = results["pairs"] - results["original_pairs"]
    parts = f"{own} with the teacher's targets, {results['original_pairs']} original"
    said.append(f"{', '.join(results['files'])}: {results['pairs']} pairs ({parts})")
    return said
