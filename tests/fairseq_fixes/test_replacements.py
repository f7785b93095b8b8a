"""What is replaced in fairseq is listed, with a reason and a test for each."""

import re
from pathlib import Path

from fairseq.data import data_utils

from resmlp_mt.cli.main import main
from resmlp_mt.patching import REPLACEMENTS, TRIED


def test_each_names_a_test_that_exists():
    texts = {path.name: path.read_text("utf-8") for path in Path("tests").rglob("test_*.py")}
    everything = "".join(texts.values())
    assert len(REPLACEMENTS) > 25 and len({each[:2] for each in REPLACEMENTS}) == len(REPLACEMENTS)
    for each in REPLACEMENTS:
        named = re.findall(r"\btest_\w+(?:\.py)?", each.reason)
        assert named and str(each).endswith("."), each
        for name in named:
            assert name in texts or f"def {name}(" in everything, (each, name)


def test_each_is_printed_with_the_version(capsys):
    assert main(["--version", "-v"]) == 0
    version, heading, *lines = capsys.readouterr().out.splitlines()
    assert TRIED in heading and lines == list(map(str, REPLACEMENTS))
    name = "fairseq.data.data_utils.batch_by_size"
    assert f"{name}: The last batch stays, also if its size is no multiple of 8." in lines
    assert data_utils.batch_by_size.__wrapped__.__module__ == "fairseq.data.data_utils"
