"""What every test shares: the package on the path, one thread, fixed random numbers."""

import os
import sys

import pytest
import torch

pytest_plugins = ["cli_fixtures"]
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(autouse=True)
def same_random_numbers():
    torch.manual_seed(1)
    torch.set_num_threads(1)
