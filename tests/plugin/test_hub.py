"""The hub interface: any line gets one answer, the same as elsewhere. Published models by name:
fetched, checked, kept. Checkpoints of earlier versions load."""

import copy
import json
import shutil
from argparse import Namespace
from pathlib import Path
from unittest import mock

import pytest
import torch
from command import resmlp
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig
from fairseq.sequence_generator import SequenceGeneratorWithAlignment
from fairseq_programs import ROOT, generate, hypotheses, load
from helpers import pad_batch
from trained_models import write_other_dictionaries

from resmlp_mt import ResMLPModel
from resmlp_mt.model import hub as published
from resmlp_mt.model_folder import model_of_run
from resmlp_mt.text import TextSettings, train_subwords
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.lines import sha256_of
from resmlp_mt_runtime.pieces import NFC, Subwords

FIXTURES = ROOT / "tests" / "fixtures"


@pytest.fixture(scope="module")
def hub(trained):
    return ResMLPModel.from_pretrained(trained.folder, trained.path.name, trained.data)


def test_hub_interface(trained, corpus, hub):
    """from_pretrained(...).translate(...) says what fairseq-generate does."""
    sources = (corpus.text / "test.xx").read_text(encoding="utf-8").splitlines()
    found = hypotheses(generate(trained.data, trained.path))
    translations = hub.translate(sources, beam=4)
    assert translations == [" ".join(found[number][0][1]) for number in range(len(sources))]
    for each in (hub, copy.deepcopy(hub)):
        assert each.translate(sources[0], beam=4) == translations[0]


def test_the_beam_is_that_of_loading_or_of_the_call(trained, hub):
    """fairseq's interface would take 5 instead of that of loading."""
    wide = ResMLPModel.from_pretrained(trained.folder, trained.path.name, trained.data, beam=3)
    seen = {"autospec": True, "side_effect": published.Hub.generate}
    with mock.patch.object(published.Hub, "generate", **seen) as generate:
        for each in (hub, wide):
            each.translate(["w01"])
        wide.translate(["w01"], beam=2)
    assert [call.args[2] for call in generate.call_args_list] == [5, 3, 2]
    for wrong in ({"lenpen": float("nan")}, {"generation_args": {"lenpen": "1"}}):
        with pytest.raises(UserError, match="lenpen .*: give a number from -10 to 10"):
            ResMLPModel.from_pretrained(trained.folder, trained.path.name, trained.data, **wrong)
    with pytest.raises(UserError, match="^lenpn is not an option of "):
        ResMLPModel.from_pretrained(trained.folder, trained.path.name, trained.data, lenpn=1)
    known = {"lenpen": 1.0, "dropout": 0.0, "left_pad_source": True}
    ResMLPModel.from_pretrained(trained.folder, trained.path.name, trained.data, **known)


@pytest.mark.parametrize(
    "line, options, said",
    [
        ("w01", {"num_beams": 1}, "num_beams is not a search option: fairseq-generate --help"),
        ("w01", {"nbest": 2}, "nbest: leave it out: generate gives the whole beam"),
        ("w01", {"beam": 0}, "beam 0: give a whole number from 1 to 1000"),
        (b"w01", {}, "line 1 is not a string: b'w01'"),
    ],
)
def test_what_is_no_option_and_what_is_no_text_is_refused(hub, line, options, said):
    with pytest.raises(UserError, match=said):
        hub.translate([line], **options)


def test_each_line_of_any_iterable_has_one_answer(hub):
    """A blank one stays blank; too long a sentence is translated in parts."""
    (word,) = hub.translate(["w01 w02"])
    assert word and hub.translate(["", "w01 w02", " \t", "w01 w02"]) == ["", word, "", word]
    assert hub.translate([""]) == hub.translate([" ", ""])[1:] == [""] and hub.translate("") == ""
    assert hub.translate([]) == []
    lines = ["w01 w02", "", "w03"]
    expected, long = hub.translate(lines), " ".join(["w01"] * 99)
    assert hub.translate(line for line in lines) == expected
    parts, rest = hub.translate([" ".join(["w01"] * 31), " ".join(["w01"] * 6)])
    assert hub.translate([long, *lines]) == [f"{parts} {parts} {parts} {rest}", *expected]


def test_the_hub_refuses_other_dictionaries(world, tmp_path):
    for folder in ("model", "other"):
        shutil.copytree(world.data, tmp_path / folder)
    shutil.copy(world.checkpoint, tmp_path / "model" / "model.pt")
    write_other_dictionaries(world.data, tmp_path / "other")
    for folder in ("model", "."):  # of `run`, too
        with pytest.raises(UserError, match="model.pt was trained with other dictionaries"):
            ResMLPModel.from_pretrained(tmp_path / folder, data_name_or_path="../other")


def test_the_folder_of_a_run_or_of_an_export(tmp_path):
    (tmp_path / "model").mkdir()
    assert model_of_run(tmp_path) == tmp_path
    (tmp_path / "model" / "model.pt").touch()
    assert model_of_run(tmp_path) == tmp_path / "model"
    (tmp_path / "model.pt").touch()
    assert model_of_run(tmp_path) == tmp_path
    (tmp_path / "config.json").touch()
    an_export = "is an export: load it with resmlp_mt_runtime.Model"
    for folder, said in ((tmp_path, an_export), ("gone", "gone/model.pt: no such file: give the")):
        with pytest.raises(UserError, match=said):
            ResMLPModel.from_pretrained(folder)
    (tmp_path / "config.json").unlink()
    with pytest.raises(UserError, match="gone: no such folder: give the one with"):
        ResMLPModel.from_pretrained(tmp_path, data_name_or_path="gone")


def test_the_hub_finds_the_subwords(world, tmp_path):
    """Beside the model, then beside the data. A model that is named comes before both."""
    other = train_subwords([f"quick foxes {x}" for x in "abcdefgh"], tmp_path / "other", 30)
    (tmp_path / "model.pt").symlink_to(world.checkpoint)
    (tmp_path / "spm.model").symlink_to(other)
    expected, different = (" ".join(Subwords(spm).encode("w01 w02")) for spm in (world.spm, other))
    apart = world.checkpoint.parent, world.checkpoint.name
    for words, named, pieces in (
        ((*apart, "../data-bin"), {}, expected),
        ((*apart, world.data), {"sentencepiece_model": str(other)}, different),
        ((tmp_path, "model.pt", world.data), {}, different),
    ):
        assert ResMLPModel.from_pretrained(*words, **named).bpe.encode("w01 w02") == pieces


def test_options_of_the_hub(tmp_path):
    """Those that an older checkpoint does not have are known."""
    options = {"token_mixing_init_std": 0.1, "layerscale_init": 0.1}
    state = load(FIXTURES / "linear.pt")
    for name in options:
        vars(state["cfg"]["model"]).pop(name, None)
    # as the first versions of fairseq have it
    task = {key: value for key, value in state["cfg"]["task"].items() if key != "_name"}
    state["args"] = Namespace(**{**vars(state.pop("cfg")["model"]), **task})
    torch.save(state, tmp_path / "model.pt")
    options.update(source_lang="xx", seed=3, lenpen=2.0, user_dir=None, generation_args={"beam": 3})
    options.update(tokenizer="moses", moses_no_escape=True, dropout=0.1)
    hub = ResMLPModel.from_pretrained(tmp_path, data_name_or_path=FIXTURES, **options)
    cfg = hub.cfg
    assert (cfg.generation.beam, cfg.generation.lenpen, cfg.common.seed) == (3, 2, 3)
    assert cfg.model.dropout == 0.1 and cfg.tokenizer.moses_no_escape


def test_text_is_made_as_it_was_prepared(world, tmp_path):
    """By the rule that the data have, if they have one."""
    line, encode = "w01\x07w02", Subwords(world.spm).encode
    for rule, expected in ((None, line), (NFC, "w01 w02")):
        folder = tmp_path / str(rule)
        folder.mkdir()
        spm = shutil.copy(world.spm, folder / "spm.model")
        if rule:
            TextSettings("xx", "yy", spm, rule).save(folder)
        where = (world.checkpoint.parent, world.checkpoint.name, world.data)
        hub = ResMLPModel.from_pretrained(*where, sentencepiece_model=str(spm))
        assert hub.bpe.encode(line) == " ".join(encode(expected))
        # fairseq-interactive asks the task for its subwords
        assert hub.task.build_bpe(hub.cfg.bpe).encode(line) == " ".join(encode(expected))
        if rule:
            with pytest.raises(UserError, match="not Unicode text: half of a surrogate pair"):
                hub.encode("w01 \ud83d")
        bpe = SentencepieceConfig(sentencepiece_model=str(spm))
        bpe.sentencepiece_enable_sampling, bpe.sentencepiece_alpha = True, 0.5
        sampled = SentencepieceBPE(bpe)
        assert len({sampled.encode("w01 w02 w03 w04") for _ in range(20)}) > 1


NAME = "resmlp_mt.en-de"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A copy of the published files on this machine, and an empty cache."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "cache"))
    home = tmp_path / "home"
    for folder in published.FOLDERS.values():
        shutil.copytree(ROOT / folder, home / folder)
    monkeypatch.setattr(published, "HOME", home.as_uri())
    return home


def test_the_list_has_the_files_of_the_repository():
    """After other models: sha256sum FILES > published.sha256, as CONTRIBUTING.md says."""
    lines = [line.split() for line in published.PUBLISHED.read_text(encoding="utf-8").splitlines()]
    assert [(sha256_of(ROOT / path), path) for _, path in lines] == list(map(tuple, lines))
    for folder in published.FOLDERS.values():
        names = {path.name for path in (ROOT / folder).iterdir()} - {"README.md"}
        assert {Path(path).name for _, path in lines if Path(path).parent == Path(folder)} == names


def test_a_model_is_fetched_once(home, tmp_path):
    """By its name in Python, by torch.hub and by a command. The length penalty is that of its
    folder."""
    model = ResMLPModel.from_pretrained(NAME)
    assert model.translate("I like tea.", beam=4) == "Ich mag Tee."
    shutil.rmtree(home)
    command = ("translate", "--cpu", "--path", NAME)
    assert resmlp(*command, stdin=b"I like tea.\n") == (0, "Ich mag Tee.\n", "")
    (search,) = tmp_path.rglob("cache/**/search.json")
    search.write_text('{"lenpen": 1.25}')
    again = torch.hub.load(str(ROOT), NAME, source="local")
    assert again.translate("I like tea.", beam=4) == "Ich mag Tee."
    assert again.cfg.generation.lenpen == 1.25


def test_other_files_are_refused_and_not_kept(home, tmp_path):
    path = home / published.FOLDERS[NAME] / "spm.model"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    for said in ("invalid hash value", "No such file"):
        with pytest.raises(UserError, match=f"^{NAME}: file:.*spm.model: .*{said}[^\\n]*$"):
            ResMLPModel.from_pretrained(NAME)
        assert not list((tmp_path / "cache").rglob("spm.model*"))
        path.unlink(missing_ok=True)


KEPT = json.loads((FIXTURES / "answers.json").read_text())["answers"]


@torch.no_grad()
def answers(path: Path):
    """Log-probabilities at every target position, and the best four translations of each source."""
    (model,), cfg, task = load_model_ensemble_and_task([str(path)], {"data": str(FIXTURES)})
    model.eval()
    dictionary = task.source_dictionary
    sources, targets = (
        [dictionary.encode_line(line, add_if_not_exist=False).long() for line in lines]
        for lines in (["a b c", "e d", "c a d b e a d"], ["c a", "b e d a", "d"])
    )
    lengths = torch.tensor(list(map(len, sources)))
    batch = {"src_tokens": pad_batch(sources, dictionary, left=True), "src_lengths": lengths}
    logits = model(**batch, prev_output_tokens=pad_batch([s.roll(1) for s in targets], dictionary))
    rows = model.get_normalized_probs(logits, log_probs=True)
    rows = torch.cat([rows[i, : len(target)] for i, target in enumerate(targets)])
    model.prepare_for_inference_(cfg)
    search = SequenceGeneratorWithAlignment([model], dictionary, beam_size=4, max_len_b=8)
    return rows, search.generate([model], {"net_input": batch})


@pytest.mark.parametrize("layout", KEPT)
def test_an_old_checkpoint_computes_what_it_did(layout):
    rows, translations = answers(FIXTURES / f"{layout}.pt")
    near = dict(rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(rows, torch.tensor(KEPT[layout]["log_probabilities"]), **near)
    for now, before in zip(translations, KEPT[layout]["translations"], strict=True):
        assert [h["tokens"].tolist() for h in now] == [h["tokens"] for h in before]
        scores = torch.stack([h["score"] for h in now])
        torch.testing.assert_close(scores, torch.tensor([h["score"] for h in before]), **near)


def test_the_optimizers_state_fits():
    """So training continues from an old checkpoint: the state goes by the order of parameters."""
    path = FIXTURES / "linear.pt"
    (model,), _, _ = load_model_ensemble_and_task([str(path)], {"data": str(FIXTURES)})
    checkpoint = load(path)
    assert list(checkpoint["model"]) == list(model.state_dict())
    sums = checkpoint["last_optimizer_state"]["state"]
    for number, parameter in enumerate(model.parameters()):
        assert sums[number]["sum"].shape == parameter.shape
