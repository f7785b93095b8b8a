"""Metadata and dependencies. Build and tool settings are in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
HOME = "https://github.com/resmlp-mt/resmlp_mt"
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "resmlp_mt" / "__init__.py").read_text())[1]

PLOT = ["matplotlib"]
BENCHMARK = ["ctranslate2"]
TENSORBOARD = ["tensorboardX"]  # for --tensorboard-logdir of fairseq-train
TEST = ["hypothesis", "import-linter", "mypy", "packaging", "pytest", "pytest-cov", "pytest-xdist"]
TEST += ["ruff", "uv", *PLOT, *BENCHMARK]


def read_readme() -> str:
    """The README with links that work outside the repository, as on the package index."""
    text = (HERE / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^]]*\]\(|<img src=\")(?!https?:|#)", rf"\g<1>{HOME}/raw/main/", text)
    return re.sub(r"(?<!!)(\[[^]]*\]\()(?!https?:|#)", rf"\g<1>{HOME}/blob/main/", text)


setup(
    name="resmlp-mt",
    version=VERSION,
    description="ResMLP for machine translation: a fairseq plugin without self-attention",
    long_description=read_readme(),
    long_description_content_type="text/markdown",
    author="resmlp_mt contributors",
    license="MIT",
    license_files=["LICENSE"],
    keywords=["machine translation", "MLP", "ResMLP", "fairseq", "sequence to sequence"],
    url=HOME,
    project_urls={
        "Source": HOME,
        "Documentation": f"{HOME}/tree/main/docs",
        "Changes": f"{HOME}/blob/main/CHANGELOG.md",
        "Paper": "https://arxiv.org/abs/2105.03404",
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
    python_requires=">=3.11,<3.14",  # see scripts/make_env.sh
    packages=find_packages(include=["resmlp_mt", "resmlp_mt.*"]),
    package_data={
        "resmlp_mt": ["py.typed", "plot.mplstyle"],
        "resmlp_mt.pipeline.prepare": ["augment.toml"],
        "resmlp_mt.pipeline.train": ["recipes/*.toml"],
        "resmlp_mt.model": ["published.sha256"],
        "resmlp_mt.export": ["card.md"],
    },
    install_requires=[
        # fairseq for Python 3.11 and later, imported as fairseq; @replace marks our repairs
        "fairseq-fixed>=0.12.3.1,<0.13",
        "numpy>=1.26,<3",
        "omegaconf>=2.3,<2.4",
        "regex",
        f"resmlp-mt-runtime=={VERSION}",  # in runtime/: pip install ./runtime -e .
        "sacrebleu>=2.3,<3",
        "sacremoses>=0.2,<0.3",
        "safetensors>=0.5,<1",
        "sentencepiece>=0.2.3",  # a model file could crash it before: CVE-2026-1260
        "torch>=2.10,<3",  # its weights-only loader was unsafe before: CVE-2026-24747
    ],
    entry_points={"console_scripts": ["resmlp-mt = resmlp_mt.cli.main:main"]},
    extras_require={
        "plot": PLOT,
        "benchmark": BENCHMARK,
        "tensorboard": TENSORBOARD,
        "test": TEST,
    },
)
