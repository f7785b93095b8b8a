"""Where text is found, what is in it, and what is refused before any work is done."""

import gzip
import shutil

import pytest
from prepare_text import pairs_of, write_layout, write_pairs, write_side

from resmlp_mt.errors import UserError
from resmlp_mt.prepare.corpora import Corpora, inspect
from resmlp_mt.prepare.recipes import Recipe, our_recipes

TAGS = ("eng", "deu")


def refused(said, find):
    with pytest.raises(UserError) as error:
        inspect(find(), 2)
    assert "\n" not in str(error.value) and said in str(error.value), error.value


@pytest.fixture
def folder(tmp_path):
    return write_layout(tmp_path / "raw", TAGS, {"a-v1.0": pairs_of(9, 1), "b": pairs_of(8, 2)})


def from_folder(folder):
    return Corpora.from_recipe("wmt14-en-de", folder)


def pack(path):
    """Put a gzip file in place of a plain one."""
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


def test_prefixes(tmp_path):
    """Any languages, any names; plain and gzip; several corpora and test sets."""
    for number, name in enumerate(("one", "two.v1", "dev", "t1", "t2")):
        write_pairs(tmp_path / "in.put", name, ("xa", "zh-Hans"), pairs_of(5 + number, number))
    pack(tmp_path / "in.put" / "two.v1.xa")
    pack(tmp_path / "in.put" / "t2.zh-Hans")
    at = tmp_path / "in.put"
    given = (f"{at}/one,{at}/two.v1", f"{at}/dev", f"{at}/t1,{at}/t2")
    found = Corpora.from_prefixes("zh-Hans", "xa", *given)
    assert found.languages == ("zh-Hans", "xa")
    contents = inspect(found, 2)
    pairs = {split: each.pairs for split, each in contents.items()}
    assert pairs == {"train": 5, "train1": 6, "valid": 7, "test": 8, "test1": 9}
    sides = [(side[0].decode(), side[1].decode()) for side in found.train[1].pairs()]
    assert sides == [(f"{target}\n", f"{source}\n") for source, target in pairs_of(6, 1)]
    without = Corpora.from_prefixes("xa", "zh-Hans", f"{at}/one", f"{at}/dev")
    assert list(without.all()) == ["train", "valid"]


def test_prefixes_that_are_wrong(tmp_path):
    prefix = write_pairs(tmp_path, "one", ("xa", "xb"), pairs_of(5, 1))

    def prefixes(train=prefix, valid=prefix, test=prefix, languages=("xa", "xb")):
        return lambda: Corpora.from_prefixes(*languages, train, valid, test)

    refused("one.xc is missing: give both sides", prefixes(languages=("xa", "xc")))
    refused("are both xa", prefixes(languages=("xa", "xa")))
    refused(f"{tmp_path}/no.xa is missing", prefixes(test=f"{prefix},{tmp_path}/no"))
    refused("separated by commas", prefixes(train=f"{prefix},"))
    write_side(tmp_path / "one.xb", ["x"] * 4)
    refused(f"{prefix}.xa has 5 lines but {prefix}.xb has 4", prefixes())
    write_side(tmp_path / "one.xb", ["x"] * 4 + [b"\xc3"])
    refused("one.xb, line 5: invalid UTF-8", prefixes())
    (tmp_path / "one.xb.gz").write_bytes(b"")
    refused("two files of one corpus: remove one", prefixes())
    write_side(tmp_path / "one.xb", [])
    (tmp_path / "one.xb.gz").unlink()
    refused("one.xb: empty file", prefixes())


def test_what_is_in_a_folder(folder):
    parts = folder / "train-parts"
    write_side(parts / "notes.txt", ["not a corpus"])
    pack(parts / "b.eng")
    (parts / "b.deu").rename(parts / "b.deu_AT")
    (parts / "a-v1.0.deu").write_bytes(b"x\n" * 8 + b"no line break at its end")
    write_pairs(folder, "test10", TAGS, pairs_of(4, 4))
    write_pairs(folder, "test2", TAGS, pairs_of(3, 3))
    found = from_folder(folder)
    assert [corpus.name for corpus in found.train] == ["a-v1.0", "b"]
    contents = inspect(found, 2)
    pairs = {split: each.pairs for split, each in contents.items()}
    assert pairs == {"train": 9, "train1": 8, "valid": 20, "test": 20, "test1": 3, "test2": 4}


def test_the_other_way_round(folder):
    found = Corpora.from_recipe("wmt14-en-de", folder, "de")
    assert found.languages == ("de", "en")
    assert next(found.train[0].pairs())[0].decode() == f"{pairs_of(9, 1)[0][1]}\n"
    with pytest.raises(UserError, match="has en-de and its reverse: not fr-[?]"):
        Corpora.from_recipe("wmt14-en-de", folder, "fr")
    with pytest.raises(UserError, match="not en-en"):
        Corpora.from_recipe("wmt14-en-de", folder, "en", "en")


def test_lines_that_are_not_utf8(folder):
    """In the training text of a recipe they are left out later; a held-out set is refused."""
    write_side(folder / "train-parts" / "b.deu", ["x"] * 7 + [b"\xff"])
    assert inspect(from_folder(folder), 2)["train1"].pairs == 8
    write_side(folder / "dev.deu", [b"\xff"] + ["x"] * 19)
    refused("dev.deu, line 1: invalid UTF-8", lambda: from_folder(folder))


@pytest.mark.parametrize(
    "name, said",
    [
        ("train-parts/b.deu", "b.deu is missing: a corpus needs both sides"),
        ("dev.eng", "dev.eng is missing"),
        ("test1.deu", "test1.deu is missing"),
        ("train-parts", "put NAME.eng and NAME.deu in train-parts/"),
        (".", "raw: no such folder"),
    ],
)
def test_what_is_missing(folder, name, said):
    lost = folder / name
    shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
    refused(said, lambda: from_folder(folder))


def test_the_character_coverage_is_by_language():
    found = [Recipe(source, "en").coverage for source in ("de", "zh", "ja", "zh_CN", "zha")]
    assert found == [1, 0.9995, 0.9995, 0.9995, 1]
    assert [recipe.coverage for recipe in our_recipes().values()] == [0.99999] * 2
