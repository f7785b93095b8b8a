"""Metadata and dependencies; build and tool settings are in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "resmlp_mt" / "__init__.py").read_text())[1]

PLOT = ["matplotlib"]
BENCHMARK = ["ctranslate2", *PLOT]  # beside which scripts/benchmark.py can measure
TENSORBOARD = ["tensorboardX"]  # for fairseq-train --tensorboard-logdir
WMT14 = ["mtdata>=0.5.1", "requests"]  # with which `resmlp-mt prepare --recipe` fetches corpora
TEST = ["hypothesis", "pytest", "pytest-xdist", "ruff", *BENCHMARK, *WMT14]

setup(
    name="resmlp-mt",
    version=VERSION,
    description="ResMLP for machine translation: a fairseq plugin without self-attention",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.11,<3.14",  # see scripts/make_env.sh
    packages=find_packages(include=["resmlp_mt", "resmlp_mt.*"]),
    package_data={
        "resmlp_mt.prepare": ["*.yml", "*.toml"],
        "resmlp_mt.train": ["recipes/*.toml"],
    },
    install_requires=[
        "fairseq-fixed>=0.12.3.1",  # fairseq for Python 3.11 and later; imported as fairseq
        "torch>=2.10",  # its weights-only loader was unsafe before: CVE-2026-24747
        "sacrebleu>=2.3",
        "sacremoses>=0.2",
        "sentencepiece>=0.2",
        "filelock",  # one process at a time in a folder of results
        "numpy",
        "tabulate",
        "tqdm",
    ],
    entry_points={"console_scripts": ["resmlp-mt = resmlp_mt.cli.main:main"]},
    extras_require={
        "plot": PLOT,
        "tensorboard": TENSORBOARD,
        "benchmark": BENCHMARK,
        "wmt14": WMT14,
        "test": TEST,
    },
)
