"""Multi30k's download: whole or not at all."""

import gzip
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from fetch import SPLITS, find_corpora

from resmlp_mt.errors import UserError


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        """Keep the test's output clean."""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A server on loopback with the corpus's files; gives its folder."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name in SPLITS.values():
        for side in ("en", "de"):
            (folder / f"{name}.{side}.gz").write_bytes(gzip.compress(f"{name} {side}\n".encode()))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("MULTI30K_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.delenv("MULTI30K", raising=False)
    yield folder
    server.shutdown()


def test_all_splits_are_fetched_once(home, tmp_path):
    corpora = find_corpora("de", tmp_path / "cache")
    assert list(corpora) == list(SPLITS)
    assert gzip.decompress(corpora["valid"][1].read_bytes()) == b"val de\n"
    for path in home.iterdir():
        path.unlink()  # what is here need not be fetched again
    assert find_corpora("de", tmp_path / "cache") == corpora


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_bad_transfer_leaves_nothing(home, tmp_path, damage):
    bad = home / "val.de.gz"
    if damage == "missing":
        bad.unlink()
    else:
        bad.write_bytes(bad.read_bytes()[:-6])
    with pytest.raises(UserError, match="val.de.gz"):
        find_corpora("de", tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("val.de*"))


def test_a_folder_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTI30K", str(tmp_path))
    (tmp_path / "val.de").write_text("plain\n")
    corpora = find_corpora("de", tmp_path / "cache")
    assert corpora["valid"][1] == tmp_path / "val.de"
    assert corpora["train"][0] == tmp_path / "train.en.gz" and not (tmp_path / "cache").exists()
    monkeypatch.setenv("MULTI30K", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="nowhere: no such folder"):
        find_corpora("de", tmp_path / "cache")
