"""The download of Multi30k: each file whole or not at all."""

import gzip
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from fetch import NAMES, fetch
from study.runs import corpus_folder

from resmlp_mt.errors import UserError


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        """Keep the test's output clean."""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A server on loopback with the corpus's files; gives its folder."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name in NAMES:
        for side in ("en", "de"):
            (folder / f"{name}.{side}.gz").write_bytes(gzip.compress(f"{name} {side}\n".encode()))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("MULTI30K_URL", f"http://127.0.0.1:{server.server_port}")
    yield folder
    server.shutdown()


def test_every_file_is_fetched_once(home, tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "train.de").write_text("mine\n")
    fetch(tmp_path / "corpus", ("en", "de"))
    assert gzip.decompress((tmp_path / "corpus/val.de.gz").read_bytes()) == b"val de\n"
    assert not (tmp_path / "corpus" / "train.de.gz").exists()
    for path in home.iterdir():
        path.unlink()  # what is here need not be fetched again
    fetch(tmp_path / "corpus", ("en", "de"))


@pytest.mark.parametrize("damage", ["missing", "cut", "no deflate stream"])
def test_a_bad_transfer_leaves_nothing(home, tmp_path, damage):
    bad = home / "val.de.gz"
    if damage == "missing":
        bad.unlink()
    elif damage == "cut":
        bad.write_bytes(bad.read_bytes()[:-6])
    else:
        bad.write_bytes(bad.read_bytes()[:10] + b"\xff" * 20)
    with pytest.raises(UserError, match="val.de.gz"):
        fetch(tmp_path / "cache", ("en", "de"))
    assert not list((tmp_path / "cache").glob("val.de*"))


def test_a_folder_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTI30K", str(tmp_path))
    assert corpus_folder("de") == tmp_path
    monkeypatch.setenv("MULTI30K", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="nowhere: no such folder"):
        corpus_folder("de")
