"""Every hostile checkpoint by every way of loading one: nothing in it is run, and it is refused
with one line that names it, or loaded exactly."""

import hostile_checkpoint_cases as cases
import pytest
from hostile_checkpoint_ways import Ways

pytestmark = pytest.mark.soak
GROUPS = ("same", "code", "arrays", "code in options", "another file", "weights", "optimizer")
GROUPS += ("options", "around the model", "damaged", "pickle changed")


@pytest.mark.parametrize("group", GROUPS)
def test_refused_or_loaded_exactly(group, world, tmp_path):
    ways, marker, lost = Ways(world, tmp_path / "ways"), tmp_path / "marker", []
    groups = cases.groups(world.checkpoint, marker, cases.Damage(50, 200, 30, 20))
    assert set(groups) == set(GROUPS)
    for case in groups[group]:
        for outcome in ways.try_all(case.content, case.expected, case.other):
            if outcome.problem:
                lost.append(f"{outcome.way}, {case.name}: {outcome.problem}")
            if marker.exists():
                lost.append(f"{outcome.way}, {case.name}: its code was run")
                marker.unlink()
    assert lost == []
