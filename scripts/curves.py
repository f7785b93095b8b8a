"""Losses by updates, and how many updates others need for the loss of ours.

A line curve/... of results.jsonl holds a training's validation loss in bits per token, by updates.
Trainings of one pair, size and label saw the same batches.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from math import floor
from pathlib import Path
from statistics import mean

import numpy as np
from results import number

from resmlp_mt.pipeline.train.command import PARAMETERS, parse_record
from resmlp_mt_runtime.lines import read_text

THEIRS = "transformer"
OURS = "gated-ln"  # what we recommend
RIVALS = (THEIRS, "attention", "lightconv")  # of which that is told
STANDARD = "2048-tokens"  # the label of most trainings
AT = (1000, 2000, 4000, 8000, 16000, 32000)  # updates that the tables have
Curve = list[tuple[float, float]]  # update, bits per token
Seeds = dict[int, dict]  # the numbers of a training, by seed


def records(log: Path, kind: str) -> Iterator[dict[str, float]]:
    """The statistics of a kind, ``valid`` or ``train_inner``, in a log of fairseq-train."""
    parsed = map(parse_record, read_text(log))
    return (values for found, values in parsed if found == kind)


def read(log: Path) -> dict:
    """What a log says of a training: the number of parameters, and the validation nll by updates;
    after a resume the later record counts."""
    parameters, *_ = PARAMETERS.findall(log.read_text("utf-8"))  # again after each resume
    found = {int(v["valid_num_updates"]): v["valid_nll_loss"] for v in records(log, "valid")}
    return {"parameters": int(parameters.replace(",", "")), "valid_curve": sorted(found.items())}


def batches(log: Path, *names: str) -> dict[int, tuple[float, ...]]:
    """Statistics of the training, by update."""
    rows = records(log, "train_inner")
    return {int(row["num_updates"]): tuple(row[name] for name in names) for row in rows}


class Group:
    """Trainings of one pair, size and label without its dropout, by system, rate and seed; the
    longest of each. A *rate* is the text ``0.012``, or ``0.012 (dropout 0.1)``."""

    def __init__(self, numbers: dict):
        self.pair, self.size = numbers["pair"], numbers["size"]
        self.label, _ = without_dropout(numbers["label"])
        self.trainings: dict[str, dict[str, Seeds]] = {}

    def add(self, numbers: dict, seed: int) -> None:
        _, dropout = without_dropout(numbers["label"])
        rate = f"{numbers['rate']:g}" + (f" (dropout {dropout})" if dropout else "")
        seeds = self.trainings.setdefault(numbers["system"], {}).setdefault(rate, {})
        if seed not in seeds or last_update(seeds[seed]) < last_update(numbers):
            seeds[seed] = numbers

    def rates(self, system: str) -> tuple[int, dict[str, float]]:
        """The last update that all rates reached, and the bits after it by rate, of the seeds that
        all have. A rate that was given up before the first of AT does not count."""
        of = dict(sorted(self.trainings[system].items()))
        ends = {rate: max(map(last_update, seeds.values())) for rate, seeds in of.items()}
        shared = min([end for end in ends.values() if end >= AT[0]] or ends.values())
        reached = {
            rate: {seed: n for seed, n in seeds.items() if last_update(n) >= shared}
            for rate, seeds in of.items()
            if ends[rate] >= shared
        }
        seeds = set.intersection(*map(set, reached.values())) or set().union(*reached.values())
        return shared, {
            rate: mean(bits(n["valid_curve"], shared) for seed, n in some.items() if seed in seeds)
            for rate, some in reached.items()
        }

    def best(self, system: str) -> Seeds:
        """The trainings at the system's best rate."""
        _, found = self.rates(system)
        return self.trainings[system][min(found, key=found.__getitem__)]

    def ratios(self, rival: str, update: int) -> list[tuple[float, bool]]:
        """By seed, how many times as many updates the *rival* needs for the loss that ours has
        after *update*; and False where it did not get there, so that it needs more. Nothing if one
        got there before its first validation: nobody knows when. Nor a bound that another seed is
        above: that training ended too early to say more."""
        ours, theirs = self.best(OURS), self.best(rival)
        found: list[tuple[float, bool]] = []
        for seed in sorted(ours.keys() & theirs.keys()):
            points, others = ours[seed]["valid_curve"], theirs[seed]["valid_curve"]
            if points[0][0] <= update <= points[-1][0]:
                loss = bits(points, update)
                if others[0][1] <= loss:
                    return []
                needed, reached = time_to(others, loss)
                found.append((needed / update, reached))
        exact = max((ratio for ratio, reached in found if reached), default=0)
        return [(ratio, reached) for ratio, reached in found if reached or ratio > exact]


def without_dropout(label: str) -> tuple[str, str]:
    """A label, and the dropout that stood at its end: each system has its own, as its rate."""
    label, _, dropout = label.partition("-dropout=")
    return label, dropout


def shown_label(label: str) -> str:
    """``8192-tokens``, of an update, as a reader would say it."""
    label = label.replace("-dropout=", ", dropout ")
    return re.sub(r"(\d+)-(tokens|pairs)", lambda found: f"{int(found[1]):,} {found[2]}", label)


def setting(group: Group) -> str:
    """``En-De, 0.6 million, 29,000 pairs``."""
    label = "" if group.label == STANDARD else shown_label(group.label)
    parts = [group.pair.title(), f"{group.size} million", label]
    return ", ".join(filter(None, parts))


def last_update(numbers: dict) -> float:
    return numbers["valid_curve"][-1][0]


def bits(points: Curve, update: float) -> float:
    """Between two points, a straight line over the logarithm of the updates."""
    updates, losses = zip(*points)
    return float(np.interp(np.log(update), np.log(updates), losses))


def time_to(points: Curve, loss: float) -> tuple[float, bool]:
    """The first update with that loss, which the first point has not; or the last, and False."""
    for (before, above), (after, below) in pairwise(points):
        if below <= loss:
            share = (above - loss) / (above - below)
            return before * (after / before) ** share, True
    return points[-1][0], False


def groups(results: dict[str, dict]) -> list[Group]:
    found: dict[tuple, Group] = {}
    for name, result in results.items():
        if name.startswith("curve/"):
            group = Group(result["numbers"])
            key = (group.pair, float(group.size), group.label != STANDARD, group.label)
            found.setdefault(key, group).add(result["numbers"], result["seed"])
    return [found[key] for key in sorted(found)]


def compared(results: dict[str, dict]) -> list[Group]:
    """Each group that has a Transformer and our system."""
    return [group for group in groups(results) if {THEIRS, OURS} <= group.trainings.keys()]


def shown_ratio(found: list[tuple[float, bool]]) -> str:
    """The mean over the seeds, and from where to where they go; or what all are above, if that says
    anything."""
    values = [value for value, _ in found]
    reached = all(reached for _, reached in found)
    if not values or (not reached and min(values) <= 1):
        return "-"
    if not reached:
        digits = 100 if min(values) < 10 else 10 if min(values) < 100 else 1  # as number() shows
        return f"> {number(floor(digits * min(values)) / digits)}"
    several = f" ({number(min(values))} .. {number(max(values))})" if len(values) > 1 else ""
    return number(mean(values)) + several
