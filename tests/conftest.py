"""What every test shares: servers without a proxy, one thread, fixed random numbers."""

import gzip
import os

import pytest
import torch

pytest_plugins = ["trained_models", "installed"]
os.environ["no_proxy"] = "*"  # servers of tests are on this machine
# at once, because fixtures of a module or a session are made before those of a test
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def same_random_numbers():
    torch.manual_seed(1)
    torch.set_num_threads(1)


@pytest.fixture
def hundred_lines(tmp_path):
    """A corpus in the layout of Multi30k: 100 pairs to train, 6 in each other split."""
    folder = tmp_path / "multi30k"
    folder.mkdir()
    words = ["a", "man", "woman", "dog", "is", "runs", "sits", "in", "on", "the", "red", "park"]
    sides = {"en": words, "de": [word[::-1] for word in words]}
    for name in ("train", "val", "test_2016_flickr", "test_2017_flickr", "test_2017_mscoco"):
        for language, side in sides.items():
            lines = (
                " ".join(side[(i * k) % len(side)] for k in range(1, 5 + i % 4))
                for i in range(100 if name == "train" else 6)
            )
            with gzip.open(folder / f"{name}.{language}.gz", "wt") as file:
                file.writelines(f"{line}\n" for line in lines)
    return folder


# folders with files that take long
LONGEST = ("road", "train", "examples", "fairseq_fixes", "decoding", "translate", "plugin")


def pytest_collection_modifyitems(items):
    """The longest files come first, so that no process is left alone with them at the end."""
    rank = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.parent.name, len(rank)))
