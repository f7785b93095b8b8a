"""A download, from a server on loopback: cut off and resumed, checked, refused."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from resmlp_mt.errors import UserError
from resmlp_mt.prepare import fetch as fetch_module
from resmlp_mt.prepare.fetch import ATTEMPTS, BLOCK, fetch

CONTENT = bytes(range(256)) * 4000
SHA256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


class Home:
    """One file on loopback, served in a way that a test chooses.

    Attributes:
        cuts: bytes after which the next transfers break off, one after the other.
        failures: answers with 503 before the first good one.
        resumes: whether it answers requests for a part.
        ranges: what was asked for, request by request.
    """

    def __init__(self):
        self.content = CONTENT
        self.cuts, self.failures, self.resumes, self.ranges = [], 0, True, []
        home = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                home.answer(self)

            def log_message(self, *_):
                """Keep the test's output clean."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/corpus.tgz"
        threading.Thread(target=self.server.serve_forever, args=[0.01], daemon=True).start()

    def answer(self, request):
        asked = request.headers.get("Range")
        self.ranges.append(asked)
        if not request.path.endswith("/corpus.tgz"):
            return request.send_error(404)
        if self.failures:
            self.failures -= 1
            return request.send_error(503)
        begin = 0
        if asked and self.resumes:
            begin = int(asked.removeprefix("bytes=").removesuffix("-"))
            if begin >= len(self.content):
                return request.send_error(416)
            request.send_response(206)
        else:
            request.send_response(200)
        request.send_header("Content-Length", str(len(self.content) - begin))
        request.end_headers()
        cut = self.cuts.pop(0) if self.cuts else len(self.content)
        request.wfile.write(self.content[begin : begin + cut])
        return None


@pytest.fixture
def home(monkeypatch):
    monkeypatch.setattr(fetch_module, "PAUSE", 0)
    home = Home()
    yield home
    home.server.shutdown()
    home.server.server_close()


def get(home, tmp_path, known=None):
    return fetch(home.url, tmp_path / "cache" / "corpus.tgz", known)


def refused(said, home, tmp_path, known=None):
    with pytest.raises(UserError) as error:
        get(home, tmp_path, known)
    message = str(error.value)
    assert "\n" not in message and home.url in message and said in message, message


def files(tmp_path):
    return sorted(path.name for path in (tmp_path / "cache").iterdir())


def test_a_file_is_fetched_once_and_its_checksum_remembered(home, tmp_path):
    assert get(home, tmp_path) == SHA256
    path = tmp_path / "cache" / "corpus.tgz"
    assert path.read_bytes() == CONTENT
    assert files(tmp_path) == ["corpus.tgz", "corpus.tgz.sha256"]
    assert get(home, tmp_path) == SHA256 and home.ranges == [None]
    path.write_bytes(CONTENT[:-1] + b"x")
    refused(f"expected {SHA256}", home, tmp_path)
    assert not path.exists()
    home.content = CONTENT[:-1]  # nor is another one at its home
    refused(f"expected {SHA256}", home, tmp_path)
    assert files(tmp_path) == ["corpus.tgz.sha256"]


def test_transfers_that_are_cut_off_resume_as_often_as_they_bring_something(home, tmp_path):
    home.cuts = [3 * BLOCK + 100, *[BLOCK] * ATTEMPTS]
    assert get(home, tmp_path, SHA256) == SHA256
    assert home.ranges == [None, *(f"bytes={n * BLOCK}-" for n in range(3, 4 + ATTEMPTS))]
    assert (tmp_path / "cache" / "corpus.tgz").read_bytes() == CONTENT


@pytest.mark.parametrize("there", [700_000, len(CONTENT)])
def test_the_next_run_resumes_where_a_killed_one_was(home, tmp_path, there):
    """One that had all of the file but its name asks for more, and then for the whole."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "corpus.tgz.partial").write_bytes(CONTENT[:there])
    assert get(home, tmp_path) == SHA256
    assert home.ranges == [f"bytes={there}-", None][: 1 + (there == len(CONTENT))]


def test_a_server_that_is_busy_and_cannot_resume(home, tmp_path):
    home.resumes, home.cuts, home.failures = False, [300_000], ATTEMPTS - 1
    assert get(home, tmp_path) == SHA256
    assert (tmp_path / "cache" / "corpus.tgz").read_bytes() == CONTENT


def test_a_server_that_cannot_resume_and_cuts_off_ever_earlier(home, tmp_path):
    home.resumes, home.cuts = False, [300_000, 400_000, 200_000, 300_000]
    refused("check the network", home, tmp_path)
    assert len(home.ranges) == 3


def test_a_wrong_checksum_is_refused_and_nothing_kept(home, tmp_path):
    refused("wrong checksum md5:", home, tmp_path, "md5:" + "0" * 32)
    assert files(tmp_path) == []
    assert get(home, tmp_path, f"md5:{hashlib.md5(CONTENT).hexdigest()}") == SHA256


def test_a_corpus_that_has_gone_and_a_network_that_is_not_there(home, tmp_path):
    url, home.url = home.url, f"{home.url}.old"
    refused("404 Client Error", home, tmp_path)
    home.url = url
    home.server.shutdown()
    home.server.server_close()
    refused("run again, which resumes from here, or give text", home, tmp_path)
    assert files(tmp_path) == []
