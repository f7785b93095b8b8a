#!/usr/bin/env python3
"""Every table, number and picture in the pages, rebuilt from docs/results/results.jsonl.

<!-- table NAME -->...<!-- / --> in a page is a table of TABLES. A number in a sentence comes from
docs/results/claims.toml: the page, the words with a format such as {:.1f} for each number, and for
each where it comes from, see :func:`value`.
"""

import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from statistics import mean

import curves
from curves import AT, OURS, RIVALS, THEIRS, compared, groups, setting, shown_ratio
from pictures import time_to_the_same_loss
from results import FILE, ROOT, cpu_label, load, number, spread

from resmlp_mt.cli.main import run_main
from resmlp_mt.plot import save
from resmlp_mt_runtime.arguments import Parser
from resmlp_mt_runtime.errors import UserError

NEWS = ("newstest2014", "news")  # two names of one test set
NOT_IN_DOMAIN = {*NEWS, "everyday", "valid"}  # of other text than the training
PAIRS = ("en-de", "en-fr")  # of the published models
# heading in the tables
SYSTEMS = {
    THEIRS: "Transformer",
    "resmlp": "the paper's A",
    "narrow": "Toeplitz, Aff, narrow",
    "toeplitz": "Toeplitz, Aff",
    "toeplitz-ln": "Toeplitz",
    "gated": "gated, Aff",
    "gated-ln": "gated",
    "attention": "relative self-attention",
    "hyena": "Hyena",
    "rposnet": "PosNet",
}
TIMED = ("resmlp_mt_6", "resmlp_mt_base")  # the paper's and the recommended one of that size
Results = dict[str, dict]
Runs = list[dict]  # the numbers of trainings that differ in the seed alone
Column = Callable[[dict], float]


def markdown(head: list[str], rows: Iterable[list[str]]) -> str:
    """Without the rows and columns in which nothing was measured."""
    table = [head, *(row for row in rows if {*row[1:]} != {"-"})]
    columns = [column for column in zip(*table) if {*column[1:]} != {"-"}]
    lines = [f"| {' | '.join(cells)} |" for cells in zip(*columns)]
    return "\n".join(["", lines[0], "|" + "---|" * len(columns), *lines[1:], ""])


def score(n: dict, test: str, metric: str = "bleu") -> float:
    return n["scores"][test][metric]


def in_domain(n: dict) -> float:
    return mean(score(n, test) for test in n["scores"] if test not in NOT_IN_DOMAIN)


def news(n: dict) -> float:
    return score(n, next(filter(n["scores"].__contains__, NEWS)))


def time_per_update(n: dict, rival: str) -> float:
    """As a multiple of that of ours."""
    return n["seconds"][rival] / n["seconds"][OURS]


# what a claim may ask of a result beside what stands in it
VALUES = {
    "million parameters": lambda n: n["parameters"] / 1e6,
    "in-domain": in_domain,
    **{f"{rival}'s time": partial(time_per_update, rival=rival) for rival in RIVALS},
}


def value(results: Results, text: str) -> float:
    """``VALUE of RESULT``: a value of VALUES, or one that stands in the result, such as
    valid_curve/-1/1. ``of A and B`` is the mean, ``of A minus B`` the difference. ``times of
    PAIR/SIZE/LABEL UPDATES``: how many times as many updates the Transformer needs as ours, or
    another rival that is named behind the updates. ``BLEU times of RESULT A B``: how many times as
    many as RESULT, to its BLEU in domain, a system needs that was trained for A and B."""
    what, _, names = text.partition(" of ")
    try:
        if what == "times":
            key, at, *rival = names.split(" ")
            (group,) = (g for g in groups(results) if "/".join((g.pair, g.size, g.label)) == key)
            found = group.ratios(*(rival or [THEIRS]), int(at))
            if not all(reached for _, reached in found):
                raise ValueError("a bound")
            return mean(ratio for ratio, _ in found)
        if what == "BLEU times":
            ours, *theirs = (results[name]["numbers"] for name in names.split(" "))
            points = [(n["updates"], -in_domain(n)) for n in theirs]
            needed, reached = curves.time_to(points, -in_domain(ours))
            if not reached:
                raise ValueError("a bound")
            return needed / ours["updates"]
        terms = [[results[name] for name in term.split(" and ")] for term in names.split(" minus ")]
        found, *less = (mean(look_up(r["numbers"], what) for r in term) for term in terms)
    except (KeyError, IndexError, TypeError, ValueError):
        raise UserError(f"claims.toml: {text}: results.jsonl has no such number") from None
    return found - sum(less)


def look_up(numbers: dict, what: str) -> float:
    if what in VALUES:
        return VALUES[what](numbers)
    found = numbers
    for name in what.split("/"):
        found = found[int(name) if isinstance(found, list) else name]
    return found


def scored(results: Results) -> dict[tuple, dict[str, Runs]]:
    """The trainings that were scored, by pair, size, label and updates, then by system: of each,
    at its best rate, those with the seeds that all systems have."""
    found: dict[tuple, curves.Group] = {}
    for result in results.values():
        n = result["numbers"]
        if "label" in n and "scores" in n:
            key = n["pair"], n["size"], n["label"], n["updates"]
            found.setdefault(key, curves.Group(n)).add(n, result["seed"])
    best = {key: {x: group.best(x) for x in group.trainings} for key, group in found.items()}
    shared = {key: set.intersection(*map(set, of.values())) for key, of in best.items()}
    return {
        key: {system: [n[s] for s in sorted(shared[key])] for system, n in of.items()}
        for key, of in sorted(best.items())
        if len(of) > 1 and shared[key]
    }


def average(some: Runs, column: Column, digits: int = 1) -> str:
    return f"{mean(map(column, some)):.{digits}f}" if some else "-"


def longest(found: dict[tuple, dict[str, Runs]]) -> list:
    """Size, label and updates of the longest trainings of the Transformer and ours on PAIRS, of
    those that :func:`scored` found."""
    both = [key for key, of in found.items() if {THEIRS, OURS} <= of.keys()]
    shared = (at for pair, *at in both if all((each, *at) in both for each in PAIRS))
    return max(shared, key=lambda at: at[::-1])  # updates first


def quality(results: Results) -> str:
    """Of the :func:`longest` trainings: on each test set, and in the mean of those in domain. A
    star: p < 0.05 by paired bootstrap over sentences, with each of the seeds."""
    found = scored(results)
    shown = longest(found)
    rows = []
    for (pair, *at), of in found.items():
        if at != shown:
            continue
        both = of[THEIRS], of[OURS]
        tests = sorted(both[1][0]["scores"], key=NOT_IN_DOMAIN.__contains__)  # in domain first
        columns: dict[str, Column] = {test: partial(score, test=test) for test in tests}
        columns["mean in domain"] = in_domain
        for test, bleu in columns.items():
            theirs, ours = (mean(map(bleu, some)) for some in both)
            against = [n["against"].get(THEIRS, {}).get(test, {"p": 1}) for n in both[1]]
            star = "*" * all(found["p"] < 0.05 for found in against)
            cells = [f"{theirs:.1f}", f"{ours:.1f}", f"{ours - theirs:+.1f}{star}"]
            rows.append([f"{pair.title()}, {test}", *cells])
    return markdown(["BLEU", "Transformer", "ours", "gain"], rows)


def lengths(results: Results) -> str:
    """BLEU in domain and on news, without what :func:`quality` shows."""
    found = scored(results)
    shown = longest(found)
    rows = []
    for (pair, *at), of in found.items():
        if at == shown:
            continue
        size, label, updates = at
        some = next(iter(of.values()))
        text = [f"{pair.title()}, {some[0]['pairs']:g} million pairs", curves.shown_label(label)]
        text += [f"{size} million parameters"] * (size != "5.6")
        text += [f"{len(some)} seeds"] * (len(some) > 1)
        cells = (
            " / ".join(average(of[system], by) for by in (in_domain, news)) if system in of else "-"
            for system in SYSTEMS
        )
        rows.append([", ".join(filter(None, text)), f"{updates:,}", *cells])
    return markdown(["BLEU in domain / on news", "updates", *SYSTEMS.values()], rows)


def time_table(results: Results) -> str:
    """How many times our updates each of RIVALS needs for the same loss."""
    rows = []
    for group in compared(results):
        for rival in filter(group.trainings.__contains__, RIVALS):
            found = (group.ratios(rival, at) for at in AT)
            of = setting(group) + f", {SYSTEMS.get(rival, rival)}" * (rival != THEIRS)
            rows.append([of, *map(shown_ratio, found)])
    return markdown(["after updates", *(f"{at:,}" for at in AT)], rows)


def front_time(results: Results) -> str:
    """The same after 2,000 updates, on the whole text, of the rivals that have self-attention."""
    rows = []
    for group in compared(results):
        if group.label == curves.STANDARD:
            of = (group.ratios(x, 2000) if x in group.trainings else [] for x in RIVALS[:2])
            rows.append([setting(group), *map(shown_ratio, of)])
    return markdown(["", *map(SYSTEMS.__getitem__, RIVALS[:2])], rows)


def loss_table(results: Results) -> str:
    """Bits per token by updates, of each system at the best of the learning rates tried."""
    rows = []
    first, *later = AT  # the first is that of the rates
    for group in groups(results):
        for row, system in enumerate(group.trainings):
            updates, tried = group.rates(system)
            best = min(tried, key=tried.__getitem__)
            bits = (f"{rate}: {loss:.2f}{'*' * (rate == best)}" for rate, loss in tried.items())
            after = f" after {updates:,.0f}" * (updates != first)
            rates = ", ".join(bits) + after if len(tried) > 1 else best
            of = [n["valid_curve"] for n in group.best(system).values()]
            reached = ([c for c in of if c[0][0] <= at <= c[-1][0]] for at in later)
            losses = (partial(curves.bits, update=at) for at in later)
            cells = (average(some, loss, 2) for some, loss in zip(reached, losses))
            rows.append(["" if row else setting(group), SYSTEMS.get(system, system), rates, *cells])
    return markdown(["", "system", "rate: bits", *(f"{at:,}" for at in later)], rows)


def measured(results: Results) -> Iterable[tuple[str, dict, dict]]:
    """The results speed/CPU/decode/SIZE, of CPUs that were not limited to older instructions: a CPU
    and a size, and of each system the milliseconds per step and the speed-up over the Transformer,
    which is that of times taken right after each other."""
    for name, result in results.items():
        cpu = result["numbers"].get("cpu", {"limits": "unknown"})
        if re.match(r"speed/[^/]+/decode/", name) and not cpu["limits"]:
            columns = result["numbers"]["decode"]["lines"][0]["columns"]
            ms = {system: column["ms_per_step"]["median"] for system, column in columns.items()}
            gain = {system: column["speed"] for system, column in columns.items()}
            yield f"{cpu_label(cpu)}, {name.split('/')[-1].replace('x', ' x ')}", ms, gain


def decoding(results: Results) -> str:
    """The speed-up and its two factors, of TIMED."""
    rows = []
    for heading, ms, gain in measured(results):
        for arch in filter(ms.__contains__, TIMED):
            ways = ["transformer", f"{arch}, fairseq's search", arch]
            factors = [ms[slow] / ms[fast] for slow, fast in zip(ways, ways[1:])]
            first = heading if arch == TIMED[0] else ""
            rows.append([first, f"`{arch}`", spread(gain[arch]), *map(number, factors)])
    head = ["CPU, sentences x beam", "model", "speed-up"]
    return markdown([*head, "by the model", "by our search"], rows)


def speed_table(results: Results, head: str, theirs: str, ours: str) -> str:
    """Of the smallest and the largest batch: the system *theirs*, and TIMED in the form *ours*."""
    rows = []
    for heading, ms, gain in measured(results):
        if " 16 x" not in heading and theirs in ms:
            times = {n: gain[n]["median"] if theirs == THEIRS else ms[theirs] / ms[n] for n in ms}
            own = map(ours.format, TIMED)
            cells = (f"{number(ms[n])} ({number(times[n])}x)" if n in ms else "-" for n in own)
            rows.append([heading, number(ms[theirs]), *cells])
    return markdown(["ms (speed-up)", head, *(f"`{arch}`" for arch in TIMED)], rows)


def model_scores(results: Results, pair: str) -> str:
    model = results[f"model/{pair}"]["numbers"]
    exports = model["exports"]
    rows = []
    for name, s in model["scores"].items():
        cells = [f"{bleu[name]:.2f}" for bleu in exports.values()]
        rows.append([name, f"{s['chrf']:.1f}", f"{s['bleu']:.2f}", *cells])
    return markdown(["test set", "chrF", "sacreBLEU", *exports], rows)


TABLES = {
    "quality": quality,
    "lengths": lengths,
    "time": time_table,
    "front time": front_time,
    "losses": loss_table,
    "decoding": decoding,
    "front speed": partial(speed_table, head="Transformer", theirs=THEIRS, ours="{}"),
    "exported": partial(
        speed_table, head="CTranslate2", theirs="CTranslate2 int8", ours="{}, native int8"
    ),
    **{f"model {pair} scores": partial(model_scores, pair=pair) for pair in PAIRS},
}
MARK = re.compile(r"(<!-- table (.+?) -->).*?(<!-- / -->)", re.DOTALL)
PLACE = r"\{[^}]*\}"  # of a number in a claim, with the format that it has
CLAIMS = FILE.with_name("claims.toml")
CHECKED = ("docs/results.md", "docs/results-details.md")


def pages() -> list[Path]:
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.md")]
    return sorted(path for path in found if "node_modules" not in path.parts)


def fill(page: str, text: str, results: Results) -> str:
    """A page with its tables and numbers as the results say."""

    def filled(mark: re.Match) -> str:
        begin, name, end = mark.groups()
        if name not in TABLES:
            raise UserError(f"{begin}: no such table")
        return begin + TABLES[name](results) + end

    text = MARK.sub(filled, text)
    for claim in claims(page):
        match = find(claim, text)
        forms = re.findall(PLACE, claim["text"])
        for group in range(len(forms), 0, -1):
            begin, end = match.span(group)
            number = forms[group - 1].format(value(results, claim["values"][group - 1]))
            text = text[:begin] + number + text[end:]
    return text


def claims(page: str) -> list[dict]:
    return [claim for claim in read_claims()["claim"] if claim["page"] == page]


def read_claims() -> dict:
    return tomllib.loads(CLAIMS.read_text("utf-8"))


def find(claim: dict, text: str) -> re.Match:
    """Where *text* has the words of a claim, over any line breaks; each number is a group: all of
    it, not the 29 of 29.5."""
    parts = (re.escape(part).replace(r"\ ", r"\s+") for part in re.split(PLACE, claim["text"]))
    found = list(re.finditer(r"([+-]?[\d,.]*\d%?)(?![.,]?\d)".join(parts), text))
    if len(found) != 1 or len(found[0].groups()) != len(claim["values"]):
        raise UserError(f"claims.toml: not once, with a value for each number: {claim['text']}")
    return found[0]


def loose_numbers(page: str, text: str) -> list[str]:
    """Numbers in the sentences of a page that are in no claim and no setting of claims.toml."""
    other = r"```.*?```|^\|.*?$|<[^>]+>|`[^`]*`|\]\([^)]*\)|\b(?:19|20)\d\d\b|"
    other += "|".join(read_claims()["settings"]).replace(" ", r"\s+")
    known = [find(claim, text) for claim in claims(page)]
    known += re.finditer(other, text, re.DOTALL | re.MULTILINE)
    numbers = re.finditer(r"[\d,.]*\d", text)
    return [n[0] for n in numbers if not any(m.start() <= n.start() < m.end() for m in known)]


def main() -> None:
    Parser(description=__doc__).parse_args()
    results = load()
    for path in pages():
        page, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        if (filled := fill(page, text, results)) != text:
            path.write_text(filled, encoding="utf-8")
            print(page)
        if page in CHECKED and (loose := loose_numbers(page, filled)):
            raise UserError(f"{page}: {', '.join(loose)}: name them in docs/results/claims.toml")
    save(time_to_the_same_loss(results), ROOT / "docs/pictures/time-to-the-same-loss.png")


if __name__ == "__main__":
    sys.exit(run_main(main))
