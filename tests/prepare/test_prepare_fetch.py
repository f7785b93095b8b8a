"""A download, from a server on loopback: cut off and resumed, checked, refused."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from resmlp_mt.errors import UserError
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
        self.content, self.version = CONTENT, '"1"'
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
        if asked and self.resumes and request.headers.get("If-Range", self.version) == self.version:
            begin = int(asked.removeprefix("bytes=").removesuffix("-"))
            if begin >= len(self.content):
                request.send_response(416)
                request.send_header("Content-Range", f"bytes */{len(self.content)}")
                request.end_headers()
                return None
            request.send_response(206)
            end = len(self.content) - 1
            request.send_header("Content-Range", f"bytes {begin}-{end}/{len(self.content)}")
        else:
            request.send_response(200)
        request.send_header("Content-Length", str(len(self.content) - begin))
        request.send_header("ETag", self.version)
        request.end_headers()
        cut = self.cuts.pop(0) if self.cuts else len(self.content)
        request.wfile.write(self.content[begin : begin + cut])
        return None


@pytest.fixture
def home():
    home = Home()
    yield home
    home.server.shutdown()
    home.server.server_close()


def get(home, tmp_path, known=None):
    return fetch(home.url, tmp_path / "cache" / "corpus.tgz", known, pause=0)


def refused(home, tmp_path, known=None):
    with pytest.raises(UserError) as error:
        get(home, tmp_path, known)
    message = str(error.value)
    assert "\n" not in message and home.url in message
    return message


def files(tmp_path):
    return sorted(path.name for path in (tmp_path / "cache").iterdir())


def test_a_file_is_fetched_once_and_its_checksum_remembered(home, tmp_path):
    assert get(home, tmp_path) == SHA256
    assert (tmp_path / "cache" / "corpus.tgz").read_bytes() == CONTENT
    assert files(tmp_path) == ["corpus.tgz", "corpus.tgz.sha256"]
    assert get(home, tmp_path) == SHA256 and home.ranges == [None]


def test_a_transfer_that_is_cut_off_goes_on_where_it_stopped(home, tmp_path):
    home.cuts = [3 * BLOCK + 100, 2 * BLOCK]
    assert get(home, tmp_path, SHA256) == SHA256
    assert home.ranges == [None, f"bytes={3 * BLOCK}-", f"bytes={5 * BLOCK}-"]
    assert (tmp_path / "cache" / "corpus.tgz").read_bytes() == CONTENT


def test_attempts_that_bring_something_are_no_failures(home, tmp_path):
    home.cuts = [BLOCK] * (2 * ATTEMPTS)
    assert get(home, tmp_path) == SHA256 and len(home.ranges) == 2 * ATTEMPTS + 1


def test_the_next_run_goes_on_where_a_killed_one_was(home, tmp_path):
    home.cuts = [2 * BLOCK]
    partial = tmp_path / "cache" / "corpus.tgz.partial"
    partial.parent.mkdir()
    partial.write_bytes(CONTENT[:700_000])
    assert get(home, tmp_path) == SHA256
    assert home.ranges == ["bytes=700000-", f"bytes={700_000 + 2 * BLOCK}-"]


def test_a_run_killed_before_it_could_rename_a_complete_file(home, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "corpus.tgz.partial").write_bytes(CONTENT)
    assert get(home, tmp_path) == SHA256 and home.ranges == [f"bytes={len(CONTENT)}-"]


def test_a_file_that_changed_meanwhile_is_fetched_from_its_beginning(home, tmp_path):
    home.cuts = [300_000] + [0] * ATTEMPTS
    refused(home, tmp_path)
    home.content, home.version, home.cuts = CONTENT[::-1], '"2"', []
    get(home, tmp_path)
    assert (tmp_path / "cache" / "corpus.tgz").read_bytes() == CONTENT[::-1]


def test_a_server_that_cannot_resume(home, tmp_path):
    home.resumes, home.cuts = False, [300_000]
    assert get(home, tmp_path) == SHA256
    assert (tmp_path / "cache" / "corpus.tgz").read_bytes() == CONTENT


def test_a_server_that_is_busy_at_first(home, tmp_path):
    home.failures = ATTEMPTS - 1
    assert get(home, tmp_path) == SHA256


def test_a_wrong_checksum_is_refused_and_nothing_kept(home, tmp_path):
    wrong = "md5:" + "0" * 32
    assert "wrong checksum md5:" in refused(home, tmp_path, wrong) and files(tmp_path) == []
    assert get(home, tmp_path, f"md5:{hashlib.md5(CONTENT).hexdigest()}") == SHA256


def test_a_file_that_is_no_longer_what_was_fetched_is_refused(home, tmp_path):
    get(home, tmp_path)
    path = tmp_path / "cache" / "corpus.tgz"
    path.write_bytes(CONTENT[:-1] + b"x")
    assert f"expected {SHA256}" in refused(home, tmp_path) and not path.exists()
    home.content = CONTENT[:-1]  # nor is another one at its home
    assert f"expected {SHA256}" in refused(home, tmp_path) and not path.exists()


def test_no_network(home, tmp_path):
    home.server.shutdown()
    home.server.server_close()
    message = refused(home, tmp_path)
    assert f"no connection ({ATTEMPTS} attempts)" in message and "--from" in message
    assert files(tmp_path) == []


def test_a_corpus_that_has_gone(home, tmp_path):
    home.url += ".old"
    assert "404 Not Found" in refused(home, tmp_path) and files(tmp_path) == []
