"""``resmlp-mt run``: any pair, killed in every step, twice at once, from an installed package."""

import contextlib
import gzip
import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest
import torch
from command import ran, refused, shell
from fairseq_programs import ROOT, SMALL, load
from prepare_text import pairs_of, write_pairs
from processes import Forked

from resmlp_mt.cli.main import main
from resmlp_mt.pipeline import run as pipeline_run
from resmlp_mt.pipeline.train.recipe import FOLDER as RECIPES
from resmlp_mt_runtime.files import source_of
from resmlp_mt_runtime.lines import sha256_of

pytestmark = pytest.mark.usefixtures("trained_here")
UPDATES = 12
OPTIONS = (
    "--arch resmlp_mt_tiny --recipe small --seed 1 --lenpen 1 "
    f"--max-update {UPDATES} --cpu --workers 1 --threads 1 --out run -- --warmup-updates 2 "
    f"{SMALL} --num-workers 0"
)
STEPS = ("1/3", "2/3", "3/3", "2/5", "3/5", "4/5")  # of prepare, of the run


def write_corpus(folder: Path, source: str, target: str, packed: bool = False) -> None:
    """Made-up words; those of Amharic are in its own script. One line has no translation."""
    for seed, (split, size) in enumerate({"train": 100, "valid": 9, "test": 7, "more": 5}.items()):
        pairs = pairs_of(size, seed)
        if split == "test":
            pairs[0] = ("", pairs[0][1])
        if target == "am":
            pairs = [(one, re.sub("[a-z]", amharic, other)) for one, other in pairs]
        write_pairs(folder, split, (source, target), pairs)
        for path in list(folder.glob(f"{split}.*")) if packed else ():
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()


def amharic(letter: re.Match) -> str:
    return chr(0x1200 + ord(letter[0]))


def words_of(source: str, target: str) -> str:
    prefs = "--trainpref text/train --validpref text/valid --testpref text/test"
    pair = f"--source-lang {source} --target-lang {target}"
    return f"run {pair} {prefs} --vocab-size 120 {OPTIONS}"


def scores(folder: Path) -> dict:
    result = json.loads((folder / "run" / "scores.json").read_text(encoding="utf-8"))
    assert next(iter(result)) == "scores"
    return result["scores"]


@pytest.fixture(scope="module")
def german(tmp_path_factory):
    """The folder of a finished run from German to English."""
    folder = tmp_path_factory.mktemp("german")
    write_corpus(folder / "text", "de", "en")
    with contextlib.chdir(folder):
        said = ran(*words_of("de", "en").split())
    found = scores(folder)
    assert set(found) == {"test"}
    assert f"BLEU {found['test']['bleu']:.2f} {found['test']['bleu_signature']}" in said.out
    translated = (folder / "run" / "translations" / "test.en").read_text(encoding="utf-8")
    assert len(translated.splitlines()) == 7
    assert said.out.startswith("model: run/model, length penalty 1\n")
    source = (folder / "text" / "test.de").read_text(encoding="utf-8").splitlines()
    pairs = zip(source, translated.splitlines())
    example = "example: {}\n      -> {}\n".format(*next(pair for pair in pairs if all(pair)))
    assert said.out.endswith(f"{example}next: resmlp-mt translate --path run/model --input TEXT\n")
    return folder


@pytest.fixture
def copy(german, tmp_path, monkeypatch):
    """A copy of that run, which is the working folder."""
    shutil.copytree(german, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.soak
def test_an_installed_package_makes_the_same(german, tmp_path):
    source, site = tmp_path / "source", tmp_path / "site"  # nothing is built in the checkout
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "resmlp_mt", source / "resmlp_mt", ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = "python -m pip --quiet install --no-deps --no-build-isolation --target site ./source"
    assert shell(pip, tmp_path).returncode == 0
    write_corpus(tmp_path / "text", "de", "en")
    command = f"site/bin/resmlp-mt {words_of('de', 'en')}"
    done = shell(command, tmp_path, PYTHONPATH=str(site), PYTHONWARNINGS="ignore")
    assert done.returncode == 0, done.stderr
    assert scores(tmp_path) == scores(german)


def test_a_second_call_makes_nothing_again(copy, monkeypatch):
    """Also without the checkpoints, and on a machine with no GPU or too few."""
    shutil.rmtree("run/checkpoints")
    monkeypatch.setattr("resmlp_mt.__version__", "99")
    made = Path("run/model/model.pt").stat().st_mtime_ns
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    words = words_of("de", "en")
    for again in (words, words.replace(" --cpu", ""), words.replace(" -- ", " --gpus 64 -- ")):
        ran(*again.split())
        assert {
            path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()
        } == before
    assert Path("run/model/model.pt").stat().st_mtime_ns == made


@pytest.mark.parametrize("gone", ["model", "translations"])
def test_what_is_gone_is_made_again(gone, german, copy):
    """The model has its length penalty beside it again, too. A copy of the recipe is the same."""
    shutil.rmtree(Path("run", gone))
    shutil.copy(RECIPES / "small.toml", "mine.toml")
    ran(*words_of("de", "en").replace("--recipe small", "--recipe mine.toml").split())
    assert scores(copy) == scores(german)
    assert json.loads(Path("run/model/search.json").read_text()) == {"lenpen": 1}


def made_from(name: str) -> dict:
    return source_of(Path("run", name))


def test_more_updates_continue_the_training_and_make_all_results_again(copy):
    words = words_of("de", "en")
    longer = words.replace(f"--max-update {UPDATES}", f"--max-update {UPDATES + 2}")
    ran(*longer.split())
    log = Path("run/checkpoints/train.log").read_text(encoding="utf-8")
    assert re.search(
        rf"Loaded checkpoint .*checkpoint_last.pt \(epoch \d+ @ {UPDATES} updates", log
    )
    assert made_from("translations/test.en")["model"] == [sha256_of(Path("run/model/model.pt"))]
    assert made_from("scores.json")["test"][0] == sha256_of(Path("run/translations/test.en"))
    assert made_from("scores.json")["model"]["max_update"] == UPDATES + 2
    refused(f"max_update = {UPDATES + 2}, not {UPDATES}: raise it, or choose", *words.split())
    shutil.rmtree("run/checkpoints")
    longer = longer.replace(f"--max-update {UPDATES + 2}", f"--max-update {UPDATES + 4}")
    refused("run/checkpoints has no checkpoint_last.pt to continue from", *longer.split())


def test_a_model_that_was_trained_on_by_hand_is_translated_and_scored_anew(copy):
    """Also where its folder was deleted: translations of the old one are not scored."""
    for path in Path("run/checkpoints").glob("*.pt"):
        state = load(path)
        state["model"]["decoder.embed_tokens.weight"].neg_()
        torch.save(state, path)
    shutil.rmtree("run/model")
    before = [made_from(name) for name in ("translations/test.en", "scores.json")]
    ran(*words_of("de", "en").split())
    after = [made_from(name) for name in ("translations/test.en", "scores.json")]
    assert after[0] == {**before[0], "model": [sha256_of(Path("run/model/model.pt"))]}
    assert after[0] != before[0] and after[1] != before[1]


def test_another_beam_translates_again_with_the_same_model(copy):
    model = Path("run/model/model.pt").stat().st_mtime_ns
    ran(*words_of("de", "en").replace("--lenpen 1", "--lenpen 1 --beam 1").split())
    assert Path("run/model/model.pt").stat().st_mtime_ns == model
    assert made_from("translations/test.en")["beam"] == 1


def test_the_validation_set_chooses_the_length_penalty(copy, monkeypatch):
    """And the scores tell which it was, also where it changed no translation."""
    words, tested = words_of("de", "en"), made_from("scores.json")["test"]

    def chosen(lenpen):
        ran(*words.replace("--lenpen 1", f"--lenpen {lenpen}").split())
        result = json.loads(Path("run/scores.json").read_text())
        lenpen = result["lenpen"]["chosen"]
        assert json.loads(Path("run/model/search.json").read_text()) == {"lenpen": lenpen}
        assert made_from("translations/test.en")["lenpen"] == lenpen
        return result

    assert chosen("1.0001")["lenpen"] == {"chosen": 1.0001}
    assert made_from("scores.json")["test"] == tested
    bleu, score = iter((3, 9, 5)), pipeline_run.score
    stub = lambda *texts: {"bleu": next(bleu)} if texts[3:] else score(*texts)  # noqa: E731
    monkeypatch.setattr(pipeline_run, "score", stub)
    result = chosen("0.5 1.4 2")
    assert result["lenpen"] == {"chosen": 1.4, "valid_bleu": {"0.5": 3, "1.4": 9, "2": 5}}
    assert set(result["scores"]) == {"valid", "test"}


def test_other_options_in_the_folder_are_refused(german, monkeypatch):
    monkeypatch.chdir(german)
    for old, new, said in (
        ("--seed 1", "--seed 2", "seed = 1, not 2"),
        ("--recipe small", "--recipe mixed", "another recipe:"),
        ("--warmup-updates 2", "--warmup-updates 3", 'fairseq_options = ["--warmup-updates", "2"'),
    ):
        other = words_of("de", "en").replace(old, new)
        refused(f"run holds results made with {said}", *other.split())


def test_other_text_is_refused_where_its_data_are_gone(german, copy):
    """What was trained on the text before, or translated of it, is not scored with the new one."""
    shutil.rmtree("run/data")
    lines = Path("text/test.en").read_text(encoding="utf-8").splitlines(True)
    Path("text/test.en").write_text("".join(lines[::-1]), encoding="utf-8")
    refused("made with another data text of test", *words_of("de", "en").split())


def test_the_model_translates_as_the_run_did(german, tmp_path, monkeypatch):
    monkeypatch.chdir(german)
    shutil.copytree("run/model", tmp_path / "model")
    command = ("translate", "--cpu", "--path", tmp_path / "model", "--input", "text/test.de")
    ran(*command, "--output", tmp_path / "same")
    expected = Path("run/translations/test.en").read_text(encoding="utf-8")
    assert (tmp_path / "same").read_text(encoding="utf-8") == expected


@pytest.mark.parametrize(
    "words, said",
    [
        ("--max-tokens 1", "--max-tokens 1: a sentence may have 251 tokens"),
        ("--max-tokens 1 -- --max-source-positions 64 --max-target-positions 64", "have 64 tokens"),
        ("--gpus 99", "--gpus 99: this machine has "),
        ("-- --dropuot 0.2", "unrecognized arguments: --dropuot"),
        (
            "-- --encoder-embed-dim 17 --decoder-embed-dim 17",
            "resmlp_mt_tiny: --token-mixing-heads 8 does not divide the 17 channels",
        ),
    ],
)
def test_a_bad_training_is_refused_before_the_text_is_prepared(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "text", "de", "en")
    command, _, _ = words_of("de", "en").replace("--cpu", "").partition(" -- ")
    refused(said, *f"{command} {words}".split())
    assert not (tmp_path / "run").exists()


def test_a_tokenizer_that_scoring_lacks_is_asked_for_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "MeCab", None)
    write_corpus(tmp_path / "text", "de", "ja")
    said = "target language ja: its tokenizer is not installed: pip install sacrebleu[ja]"
    refused(said, *words_of("de", "ja").split())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("source, target, packed", [("en", "fr", True), ("de", "am", False)])
def test_gzip_files_and_another_script_run(source, target, packed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "text", source, target, packed)
    shutil.copytree("text", "b")
    # two of one name go by fairseq's
    more, name, size = ("text/more", "more", 5) if packed else ("b/test", "test1", 7)
    words = words_of(source, target).replace("text/test", f"text/test,{more}")
    words += " --disable-validation" * packed
    assert re.findall(r"(?m)^(\w+): BLEU", ran(*words.split()).out)[-2:] == ["test", name]
    assert set(scores(tmp_path)) == {"test", "test1"}
    lines = (tmp_path / "run" / "translations" / f"test1.{target}").read_text(encoding="utf-8")
    assert len(lines.splitlines()) == size


def test_killed_in_each_step_and_refused_twice_it_ends_with_the_same_scores(
    german, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "text", "de", "en")
    words = words_of("de", "en").split()
    for step in STEPS:
        log = tmp_path / f"{step.replace('/', '-')}.log"
        process = Forked(lambda: sys.exit(main(words)), log)
        process.until(lambda text, begun=f"{step}] ": begun in text)
        if step == "2/5":
            os.kill(process.pid, signal.SIGSTOP)  # so that it cannot end before the second asks
            refused("another process is working in run", *words)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    ran(*words)
    assert scores(tmp_path) == scores(german)
    for name in ("data-bin/train.de-en.de.bin", "data-bin/dict.en.txt", "subwords/spm.model"):
        same = [folder / "run" / "data" / name for folder in (german, tmp_path)]
        assert same[0].read_bytes() == same[1].read_bytes(), name
