"""BLEU, chrF and repeats of translations, tests between systems, and the translations stored."""

import gzip
from statistics import mean

import results
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from resmlp_mt.pipeline.score import score

METRICS = ("bleu", "chrf")


def scores(lines: list[str], references: list[str]) -> dict[str, float]:
    found = score(lines, references)
    return {n: found[n] for n in METRICS} | {"repeats": round(mean(map(repeats, lines)), 4)}


def repeats(line: str) -> bool:
    """Whether the same three words in a row occur twice."""
    words = line.split()
    threes = list(zip(words, words[1:], words[2:]))
    return len(set(threes)) < len(threes)


def tested(theirs: list[str], ours: list[str], references: list[str]) -> dict[str, float]:
    """Paired bootstrap: the difference in BLEU, and the chance of it."""
    systems, metric = [("baseline", theirs), ("system", ours)], BLEU(references=[references])
    baseline, system = PairedTest(systems, {"BLEU": metric}, [references], "bs", 1000)()[1]["BLEU"]
    return {"difference": round(system.score - baseline.score, 2), "p": round(system.p_value, 4)}


def signatures() -> dict[str, str]:
    found = score(["a"], ["a"])
    return {name: found[f"{name}_signature"] for name in METRICS}


def store_translations(name: str, lines: dict[str, list[str]]) -> None:
    """TEST<TAB>TRANSLATION lines, for other metrics."""
    folder = results.FILE.parent / "translations"
    folder.mkdir(exist_ok=True)
    text = "".join(f"{test}\t{line}\n" for test, some in lines.items() for line in some)
    path = folder / f"{name.replace('/', '_')}.gz"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
