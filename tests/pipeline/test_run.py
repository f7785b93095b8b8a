"""``resmlp-mt run``: any pair, killed in every step, twice at once, bound to its options."""

import contextlib
import os
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest
import torch
from command import ran, refused, resmlp
from fairseq_programs import SMALL, load
from prepare_text import pairs_of, read_parallel, write_pairs
from processes import forked

from resmlp_mt.pipeline import run as pipeline_run
from resmlp_mt.pipeline.steps import Steps
from resmlp_mt.pipeline.train.recipe import FOLDER as RECIPES
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import read_json, source_of
from resmlp_mt_runtime.lines import sha256_of

pytestmark = pytest.mark.usefixtures("trained_here")
UPDATES = 12
WORDS = (
    "run --source-lang de --target-lang en --trainpref text/train --validpref text/valid "
    "--testpref text/test --vocab-size 120 --arch resmlp_mt_tiny --recipe small --seed 1 "
    f"--lenpen 1 --max-update {UPDATES} --cpu --workers 1 --threads 1 --out run -- "
    f"--warmup-updates 2 {SMALL} --num-workers 0"
)
STEPS = ("1/3", "2/3", "3/3", "2/5", "3/5", "4/5")  # of prepare, of the run


def write_corpus(folder: Path, source: str, target: str) -> None:
    """Made-up words. One line has no translation."""
    for seed, (split, size) in enumerate({"train": 100, "valid": 9, "test": 7}.items()):
        pairs = pairs_of(size, seed)
        if split == "test":
            pairs[0] = ("", pairs[0][1])
        write_pairs(folder, split, (source, target), pairs)


def scores(folder: Path) -> dict:
    result = read_json(folder / "run" / "scores.json")
    assert next(iter(result)) == "scores"
    return result["scores"]


@pytest.fixture(scope="module")
def german(tmp_path_factory):
    """The folder of a finished run from German to English."""
    folder = tmp_path_factory.mktemp("german")
    write_corpus(folder / "text", "de", "en")
    with contextlib.chdir(folder):
        said = ran(*WORDS.split())
    found = scores(folder)
    assert set(found) == {"test"}
    assert f"BLEU {found['test']['bleu']:.2f} {found['test']['bleu_signature']}" in said.out
    assert said.out.startswith("model: run/model, length penalty 1\n")
    pairs = read_parallel(folder / "text/test.de", folder / "run/translations/test.en")
    assert len(pairs) == 7
    example = "example: {}\n      -> {}\n".format(*next(pair for pair in pairs if all(pair)))
    assert said.out.endswith(f"{example}next: resmlp-mt translate --path run/model --input TEXT\n")
    return folder


@pytest.fixture
def copy(german, tmp_path, monkeypatch):
    """A copy of that run, which is the working folder."""
    shutil.copytree(german, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"


def test_a_second_call_makes_nothing_again(copy, monkeypatch):
    """Also without the checkpoints, and on a machine with no GPU or too few."""
    shutil.rmtree("run/checkpoints")
    monkeypatch.setattr(pipeline_run, "__version__", "99")  # of the scores, if written again
    made = Path("run/model/model.pt").stat().st_mtime_ns
    before = {p: p.read_bytes() for p in Path("run").rglob("*") if p.is_file()}
    more = WORDS.replace(" --cpu", " --gpus 64").replace("--threads 1", "--threads 2")
    for again in (WORDS, WORDS.replace(" --cpu", ""), more):
        ran(*again.split())
        assert {p: p.read_bytes() for p in Path("run").rglob("*") if p.is_file()} == before
    assert Path("run/model/model.pt").stat().st_mtime_ns == made


def test_what_is_gone_is_made_again(german, copy):
    """The model has its length penalty beside it again, too. A copy of the recipe is the same."""
    shutil.rmtree("run/model")
    shutil.rmtree("run/translations")
    shutil.copy(RECIPES / "small.toml", "mine.toml")
    ran(*WORDS.replace("--recipe small", "--recipe mine.toml").split())
    assert scores(copy) == scores(german)
    assert read_json("run/model/search.json") == {"lenpen": 1}


def test_a_damaged_model_leaves_the_translations(copy):
    before, path = Path("run/translations/test.en").read_bytes(), Path("run/model/model.pt")
    path.write_bytes(path.read_bytes()[:-40])
    found = resmlp(*WORDS.split())
    assert found.status == 1 and "run/model/model.pt is damaged or cut off" in found.err
    assert Path("run/translations/test.en").read_bytes() == before


def made_from(name: str) -> dict:
    return source_of(Path("run", name))


def test_more_updates_continue_the_training_and_make_all_results_again(copy):
    longer = WORDS.replace(f"--max-update {UPDATES}", f"--max-update {UPDATES + 2}")
    assert "    Loaded checkpoint " in ran(*longer.split()).err
    loaded = rf"Loaded checkpoint .*checkpoint_last.pt \(epoch \d+ @ {UPDATES} updates"
    assert re.search(loaded, Path("run/checkpoints/train.log").read_text(encoding="utf-8"))
    assert made_from("translations/test.en")["model"] == [sha256_of(Path("run/model/model.pt"))]
    assert made_from("scores.json")["test"][0] == sha256_of(Path("run/translations/test.en"))
    assert made_from("scores.json")["model"]["max_update"] == UPDATES + 2
    refused(f"max_update = {UPDATES + 2}, not {UPDATES}: raise it, or choose", *WORDS.split())
    shutil.rmtree("run/checkpoints")
    longer = longer.replace(f"--max-update {UPDATES + 2}", f"--max-update {UPDATES + 4}")
    refused("run/checkpoints has no checkpoint_last.pt to continue from", *longer.split())


def test_a_model_that_was_trained_on_by_hand_is_translated_and_scored_anew(copy):
    for path in Path("run/checkpoints").glob("*.pt"):
        state = load(path)
        state["model"]["decoder.embed_tokens.weight"].neg_()
        torch.save(state, path)
    before = [made_from(name) for name in ("translations/test.en", "scores.json")]
    ran(*WORDS.split())
    after = [made_from(name) for name in ("translations/test.en", "scores.json")]
    assert after[0] == {**before[0], "model": [sha256_of(Path("run/model/model.pt"))]}
    assert after[0] != before[0] and after[1] != before[1]


def test_the_validation_set_chooses_the_length_penalty(copy, monkeypatch):
    """And the scores tell which it was, also where it changed no translation."""
    tested = made_from("scores.json")["test"]

    def chosen(lenpen):
        ran(*WORDS.replace("--lenpen 1", f"--lenpen {lenpen}").split())
        result = read_json("run/scores.json")
        lenpen = result["lenpen"]["chosen"]
        assert read_json("run/model/search.json") == {"lenpen": lenpen}
        assert made_from("translations/test.en")["lenpen"] == lenpen
        return result

    assert chosen("1.0001")["lenpen"] == {"chosen": 1.0001}
    assert made_from("scores.json")["test"] == tested
    bleu, score = iter((3, 9, 5)), pipeline_run.score

    def stub(*texts, **more):  # of the first three calls
        return {"bleu": found} if (found := next(bleu, None)) else score(*texts, **more)

    monkeypatch.setattr(pipeline_run, "score", stub)
    result = chosen("0.5 1.4 2 --beam 3")
    assert made_from("translations/test.en")["beam"] == 3
    assert result["lenpen"] == {"chosen": 1.4, "valid_bleu": {"0.5": 3, "1.4": 9, "2": 5}}
    assert set(result["scores"]) == {"valid", "test"}


def test_other_options_in_the_folder_are_refused(german, monkeypatch):
    monkeypatch.chdir(german)
    for old, new, said in (
        ("--seed 1", "--max-tokens 64 --seed 2", "seed = 1, not 2"),
        ("--recipe small", "--recipe mixed", "another recipe:"),
        ("--warmup-updates 2", "--warmup-updates 3", 'fairseq_options = ["--warmup-updates", "2"'),
    ):
        refused(f"run holds results made with {said}", *WORDS.replace(old, new).split())


def test_other_text_is_refused_where_its_data_are_gone(copy):
    """What was trained on the text before, or translated of it, is not scored with the new one."""
    shutil.rmtree("run/data")
    lines = Path("text/test.en").read_text(encoding="utf-8").splitlines(True)
    Path("text/test.en").write_text("".join(lines[::-1]), encoding="utf-8")
    refused("made with another data text of test", *WORDS.split())


@pytest.mark.parametrize(
    "words, said",
    [
        ("-- --dropuot 0.2", "unrecognized arguments: --dropuot"),
        ("-t ja", "target language ja needs a tokenizer: pip install sacrebleu[ja]"),
        ("-t ja --lenpen 0 1", "target language ja needs a tokenizer: pip install"),
        ("-t ja -- --dropuot 0.2", "unrecognized arguments: --dropuot"),  # nothing is scored
    ],
)
def test_what_a_later_step_lacks_is_refused_before_the_first(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "MeCab", None)
    write_corpus(tmp_path / "text", "de", "ja" if "ja" in words else "en")
    command, _, _ = WORDS.partition(" -- ")
    if words not in ("-t ja", "-- --dropuot 0.2"):
        command = command.replace("--testpref text/test", "")
    refused(said, *f"{command} {words}".split())
    assert not (tmp_path / "run").exists()


def test_a_language_without_its_tokenizer_is_noticed_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "text", "de", "cn")
    Path("text/valid.cn").write_text("我喜欢茶。\n" * 9, encoding="utf-8")
    said = resmlp(*WORDS.replace("lang en", "lang cn").split(), "--dropuot", "0.2").err
    assert said.startswith("warning: no spaces between words: for BLEU, give the language, ")


def test_two_test_sets_of_one_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "text", "en", "fr")
    shutil.copytree("text", "b")
    words = WORDS.replace("lang en", "lang fr").replace("lang de", "lang en")
    words = words.replace("text/test", "text/test,b/test")
    said = ran(*words.split(), "--disable-validation").out
    # the names that fairseq gives them
    assert re.findall(r"(?m)^(\w+): BLEU", said)[-2:] == ["test", "test1"]
    assert set(scores(tmp_path)) == {"test", "test1"}
    assert len(Path("run/translations/test1.fr").read_text("utf-8").splitlines()) == 7


def test_killed_in_each_step_it_ends_with_the_same_scores(german, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "text", "de", "en")
    words = WORDS.split()
    for step in STEPS:
        log = tmp_path / f"{step.replace('/', '-')}.log"
        process = forked("resmlp-mt", words, log)
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


def other_options(said, folder, options):
    with pytest.raises(UserError, match=said), Steps(folder, options, 1).locked():
        pass


def touch(folder):
    (folder / "file").touch()


def test_options_hold_from_the_first_result(tmp_path):
    """A folder within guards itself: its text may be mended before a step of this one is done."""
    (tmp_path / "one.host.7.tmp").mkdir()  # left by a run that was killed
    touch(tmp_path / "one.host.7.tmp")
    for text in ("empty", "mended"):
        inner = Steps(tmp_path / "data", {"seed": 1}, 1)
        with Steps(tmp_path, {"text": text}, 1).locked(), inner.locked() as within:
            within.step("one", "first", touch)
    with Steps(tmp_path, {"text": "mended"}, 1).locked() as steps:
        steps.step("one", "first", touch)
    said = 'holds results made with text = "mended", not "other": choose another --out'
    other_options(said, tmp_path, {"text": "other"})
    assert read_json(tmp_path / "manifest.json") == {"text": "mended"}


def test_options_hold_from_the_first_checkpoint(tmp_path):
    training = tmp_path / "checkpoints"
    for rate in (1, 2):  # nothing was trained yet
        with Steps(tmp_path, {"lr": rate}, 1).locked():
            training.mkdir(exist_ok=True)
            (training / "train.json").touch()
            (training / "crash.pt").touch()  # where it has diverged
    (training / "checkpoint_last.pt").touch()
    with Steps(tmp_path, {"lr": 2}, 1).locked():
        pass
    other_options("lr = 2, not 3", tmp_path, {"lr": 3})


def test_folders_that_cannot_be_used(tmp_path):
    (tmp_path / "one").mkdir()
    touch(tmp_path / "one")
    other_options("holds other folders", tmp_path, {})
    (tmp_path / "manifest.json").write_text('{"seed": ')
    other_options("manifest.json: not a JSON file", tmp_path, {})
    (tmp_path / "manifest.json").write_text('{"seed": ["x"]}')
    with pytest.raises(UserError, match="manifest.json is damaged or altered"):
        Steps(tmp_path, {"seed": 1}, 1, grows="seed").locked().__enter__()
    (tmp_path / "manifest.json").write_text('{"name": "a page", "icons": []}')
    other_options("manifest.json belongs to another program", tmp_path, {"seed": 1})
    assert read_json(tmp_path / "manifest.json")["name"] == "a page"
