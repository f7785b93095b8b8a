#!/usr/bin/env python3
"""An exported model in a new environment of the Python that runs this: size, time to translate.

    python3.14 scripts/deploying_environment.py EXPORTED --out FILE

The environment has numpy, onnxruntime and sentencepiece and nothing else. FILE gets a row for this
Python, beside those of others. It is a result file behind docs/deploying.md. This script imports
nothing but the standard library.
"""

import argparse
import json
import platform
import re
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import venv
from hashlib import sha256
from pathlib import Path

PACKAGES = ("numpy", "onnxruntime", "sentencepiece")
LINE = "The old man is asleep.\n"
RUNS = 5


def children_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def measure(exported: Path) -> dict:
    """The row of this Python.

    Raises:
        subprocess.CalledProcessError: if the installation or the translation fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python, bare = Path(folder, "bin", "python"), megabytes(Path(folder, "lib"))
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
        listed = subprocess.run(
            [python, "-m", "pip", "list", "--format", "json"], check=True, capture_output=True
        )
        versions = {one["name"]: one["version"] for one in json.loads(listed.stdout)}
        size = megabytes(Path(folder, "lib")) - bare
        seconds, printed = [], set()
        for _ in range(RUNS):
            before = children_cpu_seconds()
            done = subprocess.run(
                [python, exported / "runtime.py"],
                input=LINE,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            seconds.append(children_cpu_seconds() - before)
            printed.add(done.stdout)
    (translation,) = printed
    return {
        "python": platform.python_version(),
        "packages": {name: versions[name] for name in PACKAGES},
        "megabytes": size,
        "cpu_seconds": statistics.median(seconds),
        "translation": translation.strip(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("exported", type=Path, help="folder that resmlp-mt export made")
    parser.add_argument("--out", type=Path, required=True, help="JSON file")
    args = parser.parse_args()
    config = (args.exported / "config.json").read_bytes()
    of_model = {"precision": json.loads(config)["precision"], "config": sha256(config).hexdigest()}
    kept = {**of_model, "environments": []}
    if args.out.exists():
        kept = json.loads(args.out.read_text(encoding="utf-8"))
    if any(kept.get(name) != value for name, value in of_model.items()):
        sys.exit(f"{args.out} is of another model than {args.exported}: delete it")
    row = measure(args.exported)
    others = [one for one in kept["environments"] if one["python"] != row["python"]]
    result = {
        "command": shlex.join(["python3", *sys.argv]),
        **of_model,
        "line": LINE.strip(),
        "runs": RUNS,
        "environments": sorted(
            [*others, row], key=lambda one: list(map(int, re.findall(r"\d+", one["python"])))
        ),
    }
    args.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
