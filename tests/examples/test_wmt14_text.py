"""WMT14's text from a mirror on this machine: whole, checked, or put there by hand."""

import hashlib
import io
import re
import tarfile
from pathlib import Path

import pytest
from command import shell

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "wmt14_text.sh"
SEGMENTS = '<doc>\n<seg id="1">A test.</seg>\n<seg id="2"> Two. </seg>\n</doc>\n'
MEMBERS = {
    "training-parallel-europarl-v7.tgz": {"training/europarl-v7.de-en.{}": "europarl {}\n"},
    "training-parallel-commoncrawl.tgz": {"commoncrawl.de-en.{}": "crawl {}\n"},
    "training-parallel-nc-v9.tgz": {"training/news-commentary-v9.de-en.{}": "news {}\n"},
    "dev.tgz": {"dev/newstest2013.{}": "2013 {}\n"},
}


@pytest.fixture
def mirror(tmp_path):
    """A folder of small archives; text.sh knows their checksums."""
    home, script = tmp_path / "mirror", SCRIPT.read_text(encoding="utf-8")
    home.mkdir()
    for archive, members in MEMBERS.items():
        files = {
            name.format(language): text.format(language)
            for name, text in members.items()
            for language in ("en", "de")
        }
        if archive == "dev.tgz":
            files["dev/newstest2014-deen-ref.en.sgm"] = SEGMENTS
            files["dev/newstest2014-deen-src.de.sgm"] = SEGMENTS.replace("test", "Test")
        with tarfile.open(home / archive, "w:gz") as packed:
            for name, text in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(text)
                packed.addfile(member, io.BytesIO(text.encode()))
        digest = hashlib.sha256((home / archive).read_bytes()).hexdigest()
        script = re.sub(rf"({re.escape(archive)} \S+) [0-9a-f]{{64}}", rf"\1 {digest}", script)
    (tmp_path / "text.sh").write_text(script, encoding="utf-8")
    return home


def test_the_text_of_wmt14(mirror, tmp_path):
    command, out = "bash text.sh en-de out", tmp_path / "out"
    done = shell(command, tmp_path, MIRROR="file:///nowhere")
    first = "out/archives/training-parallel-europarl-v7.tgz"
    assert done.returncode == 1 and f"put it at {first} by hand" in done.stderr
    assert done.stderr.count("\n") == 1 and not list(out.glob("train*"))
    (tmp_path / first).write_bytes((mirror / Path(first).name).read_bytes())
    done = shell(command, tmp_path, MIRROR=mirror.as_uri())
    assert done.returncode == 0, done.stderr
    assert (out / "train.de").read_text() == "europarl de\ncrawl de\nnews de\n"
    assert (out / "valid.en").read_text() == "2013 en\n"
    assert (out / "test.en").read_text() == "A test.\nTwo.\n"
    assert (out / "test.de").read_text() == "A Test.\nTwo.\n"
    (tmp_path / first).write_bytes(b"?")
    done = shell(command, tmp_path, MIRROR=mirror.as_uri())
    assert done.returncode == 1 and f"{first} is damaged: delete it" in done.stderr
