"""The kernels that ``--torch-compile generation`` makes on this CPU, by this PyTorch.

They take a compiler of C++ and half a minute, so that compatibility.py runs this for each PyTorch.
``make test`` captures the same graphs and runs them operation by operation.
"""

from test_compile import check_translations, no_graphs_yet  # noqa: F401


def test_the_same_translations():
    assert check_translations(2, [(3, 5)]) == 2
