"""What every test shares: one thread, fixed random numbers, fixtures."""

import pytest
import torch
from hypothesis import HealthCheck, settings

from resmlp_mt.plugin import register

register()  # our models are registered, whichever test comes first
pytest_plugins = ["trained_models", "exported_models", "processes"]
# at once, because fixtures of a module or a session are made before those of a test
torch.set_num_threads(1)

# the speed of the machine is not what is tested
COMMON = {"deadline": None, "database": None}
COMMON["suppress_health_check"] = [HealthCheck.too_slow, HealthCheck.filter_too_much]
settings.register_profile("default", max_examples=30, derandomize=True, **COMMON)
settings.register_profile("soak", max_examples=1000, print_blob=True, **COMMON)
settings.load_profile("default")  # make soak chooses the other by --hypothesis-profile


@pytest.fixture(autouse=True)
def same_random_numbers():
    torch.manual_seed(1)
    torch.set_num_threads(1)


def pytest_collection_modifyitems(items):
    """The folders with long tests come first, so that no worker is left alone with them."""
    first = {"pipeline": 0, "train": 1, "examples": 2}
    items.sort(key=lambda item: first.get(item.path.parent.name, 3))
