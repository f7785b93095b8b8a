"""BLEU, chrF and repeats of translations, tests between systems, and the translations stored."""

import gzip
from collections import defaultdict
from collections.abc import Sequence
from statistics import mean

import results
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from resmlp_mt.pipeline.score import score

METRICS = ("bleu", "chrf")
LENGTHS = (5, 10, 20, 30, 1000)  # words of a source, at most; longer ones are among the last


def scores(lines: list[str], references: list[str]) -> dict[str, float]:
    found, repeated = score(lines, references), list(map(repeats, lines))
    added = (line and not repeats(right) for line, right in zip(repeated, references))
    shares = {"repeats": repeated, "added_repeats": added}  # added: the reference has none
    return {n: found[n] for n in METRICS} | {n: round(mean(x), 4) for n, x in shares.items()}


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


def by_length(sources: Sequence[str], lines: Sequence[str], references: Sequence[str]) -> dict:
    """BLEU of the translations, and how many there are, by the most words that the source has."""
    found = defaultdict(list)
    for source, *pair in zip(sources, lines, references, strict=True):
        fits = (most for most in LENGTHS if len(source.split()) <= most)
        found[next(fits, LENGTHS[-1])].append(pair)
    return {
        str(most): {"lines": len(found[most]), "bleu": score(*zip(*found[most]))["bleu"]}
        for most in sorted(found)
    }


def signatures() -> dict[str, str]:
    found = score(["a"], ["a"])
    return {name: found[f"{name}_signature"] for name in METRICS}


def store_translations(name: str, lines: dict[str, list[str]]) -> None:
    """TEST<TAB>TRANSLATION lines, for other metrics."""
    path = results.FILE.parent / "translations" / f"{name.replace('/', '_')}.gz"
    path.parent.mkdir(exist_ok=True)
    text = "".join(f"{test}\t{line}\n" for test, some in lines.items() for line in some)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
