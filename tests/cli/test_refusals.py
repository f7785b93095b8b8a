"""Bad input: one line that says what is wrong, and nothing is written."""

import gzip
import shlex
import shutil

import pytest
import torch
from command import refused
from fairseq_programs import altered, load
from helpers import save_model
from prepare_text import pairs_of, sentences, write_pairs
from trained_models import write_other_dictionaries

from resmlp_mt.text import train_subwords


@pytest.fixture(scope="module")
def folder(world, tmp_path_factory):
    """Bad files of every kind, and good ones."""
    folder = tmp_path_factory.mktemp("refused")
    shutil.copytree(world.data, folder / "data")
    (folder / "good.pt").symlink_to(world.checkpoint)
    write_pairs(folder / "own", "a", ("xa", "xb"), pairs_of(20, 1))
    lines = {"text": ["w01 w02", "w03"], "ref": sentences(60, 1, ""), "short": sentences(59, 1, "")}
    for name, text in lines.items():
        (folder / name).write_text("\n".join(text) + "\n", encoding="utf-8")
    (folder / "blank").write_text("\n")
    (folder / "latin").write_bytes(b"ein\nStra\xdfe\n")
    (folder / "utf16").write_text("w01 w02\n", encoding="utf-16-be")
    (folder / "cut.gz").write_bytes(gzip.compress((folder / "ref").read_bytes())[:-9])
    (folder / "folder.svg").mkdir()
    (folder / "exported").mkdir()
    (folder / "exported" / "config.json").touch()
    state = load(world.checkpoint)
    matrix, weights = "encoder.layers.1.token_mixing.mixing.weight", state["model"]
    for name, changed in {
        "zz": {"cfg__task__source_lang": "xx", "cfg__task__target_lang": "zz"},
        "lm": {"cfg__task___name": "language_modeling"},
        "unfit": {"model": {name: w for name, w in weights.items() if name != matrix}},
    }.items():
        torch.save(altered(state, **changed), folder / f"{name}.pt")
    torch.save({"model": {"w": torch.zeros(2)}, "cfg": {"model": {}}}, folder / "other.pt")
    (folder / "other").mkdir()
    write_other_dictionaries(world.data, folder / "other")
    shutil.copy(world.checkpoint, folder / "other" / "model.pt")
    for name in ("checkpoint1.pt", "checkpoint_last.pt"):
        torch.save({"model": {}, "optimizer_history": []}, folder / "other" / name)
    train_subwords([f"quick brown foxes {x}" for x in "abcdefgh"], folder / "foreign", 30)
    save_model(folder / "ours.pt")
    save_model(folder / "none.pt", token_mixing="none")
    save_model(folder / "encoder.pt", decoder_layers=0)
    return folder


TRANSLATE = "translate --cpu --data data --path good.pt"
TEXT = f"{TRANSLATE} --input text"
SCORE = "score --references ref -i ref"
PREPARE = "prepare -s xa -t xb --trainpref own/a --validpref own/a --out run"
AVERAGE = "average --output a.pt --inputs"
EXPORT = "export good.pt --data data --out new --verify"
PLOT = "plot -o a.png"
REFUSED = {
    f"{TRANSLATE} --input latin": "latin, line 2: invalid UTF-8",
    f"{TRANSLATE} --input utf16": "utf16, line 1: not text (it has NUL bytes)",
    f"{TRANSLATE} --input cut.gz": "cut.gz: damaged gzip",
    f"{TRANSLATE} --input gone": "gone: No such file",
    f"{TEXT} --output text": "text is an input",
    f"{TEXT} --output good.pt": "good.pt is an input",
    f"{TEXT} --output data/spm.model": "data/spm.model is an input",
    f"{TEXT} --output data/dict.xx.txt": "data/dict.xx.txt is an input",
    f"{TEXT} --output folder.svg": "folder.svg is a folder",
    f"{TEXT} --output no/out": "no/out: there is no folder no",
    f"{TEXT} --output out.gz": "leave off .gz",
    f"{TEXT} --resume": "--resume: name the file",
    f"{TEXT} --resume --output ref": "--resume: ref is not known to be made with the same beam: wi",
    f"{TEXT} --engine numpy": "--engine: only for folders of resmlp-mt export, but good.pt is not",
    f"{TEXT} --path gone.pt": "gone.pt: no such file",
    "translate --cpu --input text --path ref": "ref is damaged, or not a fairseq checkpoint",
    f"{TEXT} --path ref": "ref is damaged, or not a fairseq checkpoint",
    f"{TEXT} --path lm.pt": "its task is language_modeling",
    f"{TEXT} --path unfit.pt": "unfit.pt does not fit the model",
    f"{TEXT} --path good.pt:zz.pt": "zz.pt translates xx-zz, but",
    f"{TEXT} --path other": "other/model.pt was trained with other dictionaries",
    f"{TEXT} --data .": ". has no text.json",
    f"{TEXT} --data . --spm foreign.model": ". has no file such as train.en-de.en.idx",
    f"{TEXT} --spm text": "is not a SentencePiece model",
    f"{TEXT} --spm /dev/null": "/dev/null: Not a file",
    f"{TEXT} --spm foreign.model": "subwords in the dictionary of",
    f"{TEXT} --beam 0": "--beam: give a whole number from 1 to 1000, not 0",
    f"{TEXT} --threads 2.5": "--threads: give a whole number from 1 to 1073741824, not 2.5",
    f"{TEXT} --nbest 5": "--nbest 5: more than --beam 4",
    f"{TEXT} --lenpen 300": "--lenpen: give a number from -10 to 10, not 300",
    f"{TEXT} --max-len-a 1e9": "--max-len-a: give a number from 0 to 1000, not 1e9",
    f"{TEXT.replace('--cpu ', '')} --fp16": "--fp16: needs a GPU",
    "score --references ref -i short": "short has 59 lines but ref has 60",
    "score --references ref": "standard input: empty file",
    "score --references -": "only one file can be standard input",
    f"{SCORE} -t xx --tokenized": "--tokenized: not available for language 'xx'",
    f"{SCORE} --tokenized": "--tokenized needs the language",
    f"{AVERAGE} .": ".: add --num-epoch-checkpoints N or --num-update-checkpoints N",
    f"{AVERAGE} other --num-epoch-checkpoints 1": "checkpoint_last.pt has no number of updates",
    f"{AVERAGE} good.pt --num-epoch-checkpoints 1": "--inputs: give one folder with --num-epoch-c",
    f"{AVERAGE} . --num-epoch-checkpoints 0": "-checkpoints: give a whole number from 1 to",
    f"{AVERAGE} good.pt gone.pt": "gone.pt: No such file or directory",
    f"{AVERAGE} good.pt --output good.pt": "is an input",
    f"{EXPORT} text short": "line by line",
    f"{EXPORT} text text text": "give a text",
    f"{EXPORT} blank": "every line is blank",
    f"{PLOT} other.pt": "other.pt is a checkpoint of another",
    f"{PLOT} unfit.pt": "unfit.pt does not fit",
    f"{PLOT} exported": "exported is an export: give a checkpoint",
    f"{PLOT} ours.pt:none.pt": "ours.pt:none.pt: No such file or directory",
    f"{PLOT} none.pt": "none.pt: its token mixing has no matrix",
    f"{PLOT} encoder.pt": "encoder.pt lacks encoder or decoder layers: there is no matrix",
    "plot ours.pt -o a.gif": "a.gif: name a .png or .svg",
    f"{PLOT} ours.pt -o no/a.svg": "no/a.svg: there is no folder no",
    f"{PLOT} ours.pt --length 0": "--length: give a whole number from 1 to",
    "train data --out a:b": "a:b: fairseq cannot use a folder with : in its name",
    "train a${b} --out run": "a${b}: fairseq cannot use a folder with ${ in its name",
    f"{TEXT} --data a:b": "a:b: fairseq cannot use a folder with : in its name",
    "train data --out run --dropout 0.3": "--dropout 0.3: no such option; options of fairseq-train",
    "prepare -s xa -t xb": "required: --trainpref, --validpref",
    f"{PREPARE} --max-pieces 0": "--max-pieces: give a whole number from 1 to",
    f"{PREPARE} --max-ratio 0.5": "--max-ratio: give a number from 1 to 1000000, not 0.5",
    f"{PREPARE} --character-coverage 0.97": "--character-coverage: give a number from 0.98 to 1",
    f"{PREPARE} --out own/a.xa/out": "own/a.xa/out: Not a directory",
    f"{PREPARE} --out ''": "empty argument after --out, perhaps a variable that is not set: see",
    "translate --path= -i text": "empty argument --path=, perhaps",
    "export '' --out out": "empty argument after resmlp-mt export, perhaps",
    f"{PREPARE} -s xa.b": "xa.b: a language name cannot have a dot",
    f"{PREPARE} -s xb": "--source-lang and --target-lang are both xb",
    f"{PREPARE} --subword-model no": "no does not exist: give the one of the data",
    f"{PREPARE} --subword-model no --vocab-size 99": "give one or the other",
    f"{PREPARE} --validpref no": "no no.xa or no.xa.gz: give a prefix of files, without .xa",
    f"{PREPARE} --testpref own/b,": "b,: give a prefix such as text/test",
    f"{PREPARE} --validpref own/a,own/b": "b: give a prefix such as text/valid",
}


@pytest.mark.parametrize("words", REFUSED)
def test_bad_input_is_refused_in_one_line_and_nothing_is_written(folder, monkeypatch, words):
    monkeypatch.chdir(folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    refused(REFUSED[words], *shlex.split(words))
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
