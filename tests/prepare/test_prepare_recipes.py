"""The recipes in mtdata's own index, and a whole download from a server on loopback."""

import gzip
import hashlib
import io
import shutil
import socket
import tarfile
import threading
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from prepare_text import pairs_of, write_pairs
from sacrebleu.dataset import DATASETS

from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json
from resmlp_mt.prepare import corpora
from resmlp_mt.prepare.corpora import Corpora
from resmlp_mt.prepare.preparation import Preparation
from resmlp_mt.prepare.recipes import find_recipe, known_checksums
from resmlp_mt.text.lines import read_parallel


@pytest.fixture(scope="module")
def download():
    """The module. It takes seconds to import: not whenever tests are collected."""
    from resmlp_mt.prepare import download

    return download


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.parametrize(
    "name, train",
    [
        ("wmt14-en-de", ["europarl_wmt13-7", "commoncrawl_wmt13-1", "news_commentary-v9.1"]),
        (
            "wmt14-en-fr",
            ["europarl_wmt13-7", "commoncrawl_wmt13-1", "news_commentary-v9.1"]
            + ["multiun-v1", "giga_fren-v2"],
        ),
    ],
)
def test_both_recipes_resolve_without_a_network(no_network, download, name, train):
    recipe = find_recipe(name)
    listed = download.load_recipe(recipe)
    entries = download.resolve(listed)
    assert list(map(str, listed.langs)) == recipe.endings
    assert [f"{e.did.name}-{e.did.version}" for e in entries["train"]] == train
    german = name == "wmt14-en-de"
    years = ["2013"] if german else ["2012", "2013"]
    assert [(e.did.name, e.did.version) for e in entries["dev"]] == [("newstest", y) for y in years]
    test = [("newstest_deen" if german else "newstest_fren", "2014")]
    assert [(e.did.name, e.did.version) for e in entries["test"]] == test
    for entry in [*entries["train"], *entries["dev"], *entries["test"]]:
        assert {str(tag) for tag in entry.did.langs} == set(recipe.endings)
    # each published checksum is of an archive that is used
    assert set(known_checksums()) <= {entry.url for split in entries.values() for entry in split}


def test_a_recipe_of_mtdata(no_network, download):
    recipe = find_recipe("vaswani_etal_2017_ende")
    assert (recipe.source_lang, recipe.target_lang) == ("en", "de")
    assert recipe.endings == ["eng", "deu"] and not recipe.normalise
    assert len(download.resolve(download.load_recipe(recipe))["train"]) == 3
    with pytest.raises(UserError, match="tg01_2to1_test is not for two languages"):
        find_recipe("tg01_2to1_test")
    listed = download.load_recipe(recipe)
    listed.train = [type(listed.train[0]).parse("Statmt-europarl_wmt13-0-deu-eng")]
    with pytest.raises(UserError, match=r"^mtdata \S+: Could not find \S+$"):
        download.resolve(listed)


def test_the_checksum_of_the_held_out_sets_is_sacrebleus():
    url = "http://data.statmt.org/wmt20/translation-task/dev.tgz"
    dataset = DATASETS["wmt20/dev"]
    assert [address.replace("https:", "http:") for address in dataset.data] == [url]
    assert known_checksums()[url] == f"md5:{dataset.md5[0]}"


def tar(members: dict) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, lines in members.items():
            content = "".join(f"{line}\n" for line in lines).encode()
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def sgm(lines) -> list:
    return [f'<seg id="{number}">{line}</seg>' for number, line in enumerate(lines, 1)]


@pytest.fixture
def home(download, tmp_path, monkeypatch):
    """A server with a corpus in a tarball, one in a zip file and held-out sets, as WMT14's are.

    Gives its folder; mtdata's index is replaced by these.
    """
    folder = tmp_path / "home"
    folder.mkdir()
    first, second, dev, test = (pairs_of(n, seed) for seed, n in enumerate((150, 100, 9, 8)))
    english, german = (list(side) for side in zip(*first))
    (folder / "one.tgz").write_bytes(tar({"training/one.de": german, "training/one.en": english}))
    with zipfile.ZipFile(folder / "two.zip", "w") as archive:
        for side, name in enumerate(("two.en", "two.de")):
            archive.writestr(name, "".join(f"{pair[side]}\n" for pair in second))
    held_out = {
        "dev/newstest2013.en": [source for source, _ in dev],
        "dev/newstest2013.de": [target for _, target in dev],
        "dev/newstest2014-deen-src.de.sgm": sgm(target for _, target in test),
        "dev/newstest2014-deen-ref.en.sgm": sgm(source for source, _ in test),
    }
    (folder / "dev.tgz").write_bytes(tar(held_out))

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    in_tar, sides = ["training/one.de", "training/one.en"], ["*.en", "*.de"]
    newstest = ["dev/newstest2013.en", "dev/newstest2013.de"]
    newstest14 = ["dev/newstest2014-deen-src.de.sgm", "dev/newstest2014-deen-ref.en.sgm"]
    entries = {
        "train": [
            download.Entry("Made-one-1-deu-eng", f"{url}/one.tgz", in_paths=in_tar, in_ext="txt"),
            download.Entry("Made-two-v1-eng-deu", f"{url}/two.zip", in_paths=sides, in_ext="txt"),
        ],
        "dev": [
            download.Entry(
                "Statmt-newstest-2013-eng-deu", f"{url}/dev.tgz", in_paths=newstest, in_ext="txt"
            )
        ],
        "test": [
            download.Entry(
                "Statmt-newstest_deen-2014-deu-eng",
                f"{url}/dev.tgz",
                in_paths=newstest14,
                in_ext="sgm",
            )
        ],
    }
    monkeypatch.setattr(download, "resolve", lambda _: entries)
    monkeypatch.setattr(download.mtdata, "cache_dir", tmp_path / "cache")
    with_all(monkeypatch, 8)
    yield folder
    server.shutdown()
    server.server_close()


def with_all(monkeypatch, lines):
    """The recipe as if its whole test set had so many lines."""
    recipe = replace(find_recipe("wmt14-en-de"), test_pairs=lines)
    monkeypatch.setattr(corpora, "find_recipe", lambda _: recipe)


def prepare(tmp_path, vocab_size=90):
    text = Corpora.from_recipe("wmt14-en-de").prepared_with(vocab_size=vocab_size)
    Preparation(text, tmp_path / "out").run()
    return tmp_path / "out" / "data-bin"


def test_download_to_binary_data(home, tmp_path):
    data_bin = prepare(tmp_path)
    report = read_json(tmp_path / "out" / "corpora" / "report.json")
    assert report["pairs"] == {
        "Made-one-1-deu-eng": 150,
        "Made-two-v1-eng-deu": 100,
        "Statmt-newstest-2013-eng-deu": 9,
        "Statmt-newstest_deen-2014-deu-eng": 8,
    }
    digests = {url.rpartition("/")[2]: digest for url, digest in report["archives"].items()}
    assert digests == {
        path.name: f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in home.iterdir()
    }
    train = [pair for number, seed in ((150, 0), (100, 1)) for pair in pairs_of(number, seed)]
    text = tmp_path / "out" / "text"
    assert read_parallel(text / "train.en", text / "train.de") == train
    assert read_parallel(text / "test.en", text / "test.de") == pairs_of(8, 3)
    assert read_json(data_bin / "report.json")["splits"]["valid"]["pairs"] == 9
    for path in home.iterdir():
        path.unlink()  # what is here need not be fetched again
    shutil.rmtree(tmp_path / "out")
    assert prepare(tmp_path) == data_bin


def test_after_an_option_that_does_not_fit_nothing_is_fetched_again(home, tmp_path):
    with pytest.raises(UserError, match="--vocab-size 9000 is more than this corpus allows"):
        prepare(tmp_path, 9000)
    for path in home.iterdir():
        path.unlink()
    assert prepare(tmp_path).is_dir()


def test_half_a_download_of_another_recipe_is_not_trained_on(home, tmp_path):
    left = tmp_path / "out" / "corpora.partial" / "train-parts"
    write_pairs(left, "Other-corpus-1-deu-eng", ("deu", "eng"), pairs_of(9, 7))
    prepare(tmp_path)
    assert not list((tmp_path / "out" / "corpora").glob("**/Other*"))
    assert len((tmp_path / "out" / "text" / "train.en").read_text("utf-8").splitlines()) == 250


def test_the_filtered_test_set_is_refused(home, tmp_path, monkeypatch):
    with_all(monkeypatch, 3003)
    with pytest.raises(UserError, match="deu-eng has 8 lines, the whole test set 3003"):
        prepare(tmp_path)
    assert not (tmp_path / "out" / "corpora").exists()


@pytest.mark.parametrize("name", ["one.tgz", "two.zip"])
def test_a_damaged_archive_is_refused(home, download, tmp_path, name):
    folder, recipe = tmp_path / "corpora", corpora.find_recipe("wmt14-en-de")
    folder.mkdir()
    whole = (home / name).read_bytes()
    content = bytearray(whole)
    content[200:220] = bytes(20)
    (home / name).write_bytes(content)
    with pytest.raises(UserError, match=f"{name}: damaged archive .*: removed: run again"):
        download.download(recipe, folder)
    (home / name).write_bytes(whole)
    assert download.download(recipe, folder)["pairs"]["Made-one-1-deu-eng"] == 150


def test_a_damaged_file_of_several_is_fetched_anew(home, download, tmp_path):
    """A corpus of one file a side: the damaged one is named, and only that one is removed."""
    url = download.resolve(None)["train"][0].url.rpartition("/")[0]
    whole = gzip.compress(b"a line\n" * 99)
    (home / "x.de.gz").write_bytes(whole)
    (home / "x.en.gz").write_bytes(whole[:-9] + bytes(9))
    entry = download.Entry("Made-x-1-deu-eng", (f"{url}/x.de.gz", f"{url}/x.en.gz"), ext="gz")
    with pytest.raises(UserError, match="x.en.gz: damaged archive .*: removed: run again"):
        download.CheckedCache(tmp_path / "cache").get_entry(entry)
    unpacked = tar({"x.de": ["a line"] * 99, "x.en": ["a line"] * 99})
    (home / "x.tar").write_bytes(gzip.decompress(unpacked)[:-9000])
    sides = {"in_paths": ["x.de", "x.en"], "in_ext": "txt"}
    cut = download.Entry("Made-x-1-deu-eng", f"{url}/x.tar", **sides)
    with pytest.raises(UserError, match="x.tar: damaged archive"):
        download.CheckedCache(tmp_path / "cache").get_entry(cut)
    (home / "x.en.gz").write_bytes(whole)
    (home / "x.de.gz").unlink()
    found = download.CheckedCache(tmp_path / "cache").get_entry(entry)
    assert [path.name for path in found] == ["x.de.gz", "x.en.gz"]
