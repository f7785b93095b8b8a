"""The speeds in scripts/README.md are those of the result files beside it."""

import json
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
FILES = sorted((SCRIPTS / "results").glob("*.json"))


def test_there_are_results():
    assert {"decode", "train", "memory", "shares", "length"} <= {
        json.loads(path.read_text())["mode"] for path in FILES
    }


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_command_and_speeds(path):
    """Each file's command is there, and for decode and train every speed with its spread."""
    result, text = json.loads(path.read_text()), (SCRIPTS / "README.md").read_text()
    assert result["command"] in " ".join(text.replace("\\\n", " ").split())
    assert result["versions"]["commit"]
    if result["mode"] not in ("decode", "train"):
        return
    for line in result["lines"]:
        for name, column in line["columns"].items():
            if name == "transformer":
                continue  # the 1 that the others are measured by
            speed = column["speed"]
            row = f"{speed['median']:.2f} ({speed['low']:.2f} .. {speed['high']:.2f})"
            assert f"| {name} |" in text and row in text
