"""Recipes: what fairseq reads in them, and files that are refused."""

import pytest
import torch
from fairseq import options as fairseq_options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.optim import build_optimizer
from fairseq.optim.lr_scheduler import build_lr_scheduler

from resmlp_mt.pipeline.train.recipe import FOLDER, NAMES, command_line, load_recipe
from resmlp_mt_runtime.errors import UserError


def config(recipe, arch, model, pair="en-de"):
    recipe = load_recipe(recipe)
    options = command_line(recipe.options_for(model, pair, recipe.max_update))
    words = ["data", "--arch", arch, "--max-update", str(recipe.max_update), *options]
    parser = fairseq_options.get_training_parser()
    return convert_namespace_to_omegaconf(fairseq_options.parse_args_and_arch(parser, words))


RATES = {  # of the paper, section 3: dropout by pair, the rate after so many updates
    "resmlp_mt": ({"en-de": 0.15, "de-en": 0.15, "en-fr": 0.1}, {0: 0, 16_000: 0.1, 300_000: 0.2}),
    "transformer": ({"en-fr": 0.1}, {0: 0, 2_000: 0.00035, 4_000: 0.0007, 16_000: 0.00035}),
}


@pytest.mark.parametrize("model", RATES)
def test_a_training_of_the_paper(model):
    """What fairseq makes of its words: the rate rises in a line, then stays or falls."""
    dropout, rates = RATES[model]
    arch = {"resmlp_mt": "resmlp_mt_6"}.get(model, model)
    for pair, share in dropout.items():
        cfg = config("paper", arch, model, pair)
        assert cfg.model.dropout == share
    optimizer = build_optimizer(cfg.optimizer, [torch.nn.Parameter(torch.zeros(1))])
    scheduler = build_lr_scheduler(cfg.lr_scheduler, optimizer)
    scheduler.step_begin_epoch(1)
    for update, rate in rates.items():
        assert scheduler.step_update(update) == pytest.approx(rate, abs=1e-5)


def test_every_recipe_is_in_the_package_and_one_that_fairseq_takes():
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(NAMES)
    for name in NAMES:
        for arch, model in (("resmlp_mt_small", "resmlp_mt"), ("transformer_small", "transformer")):
            cfg = config(name, arch, model)
            assert cfg.optimization.max_update == load_recipe(name).max_update
            assert cfg.model.share_all_embeddings
            options = load_recipe(name).options_for(model, "en-de", 9)
            assert not {"--log-format", "--update-epoch-batch-itr"} & options.keys()  # train's own


LAST = "log-interval = 20\n"  # of small.toml


def load_own(path, old, new):
    """The recipe ``small`` with a part of its text replaced, from a file of the user's."""
    text = (FOLDER / "small.toml").read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return load_recipe(path)


def test_a_recipe_of_ones_own(tmp_path):
    more = '[options.lstm.xx-yy]\ndropout = 0.5\nlr = "0.1,0.2"\nencoder-layers = "[(5, 3)] * 2"'
    more += '\ndecoder-layers = -1\neval-bleu-args = \'{"beam": 4, "x": true}\'\n'
    recipe = load_own(tmp_path / "own.toml", LAST, f"{LAST}{more}")
    with pytest.raises(UserError, match="for the model fconv, only for lstm: .*, or add"):
        recipe.options_for("fconv", "xx-yy", 7)
    options = recipe.options_for("lstm", "xx-yy", 7)
    assert options["--dropout"] == ["0.5"] and options["--lr"] == ["0.1,0.2"]
    assert options["--total-num-update"] == ["7"]
    assert recipe.options_for("lstm", "yy-xx", 7)["--dropout"] == ["0.3"]
    # some editors begin a file with a byte order mark
    marked = tmp_path / "marked.toml"
    marked.write_text((tmp_path / "own.toml").read_text(), encoding="utf-8-sig")
    assert load_recipe(marked).options == recipe.options


WRONG = [
    ("beam = 4", "beam = ", "own.toml: not a TOML file in UTF-8: Invalid value (at line"),
    ("beam = 4", f"x = {'[' * 99_999}", "own.toml: not a TOML file in UTF-8: "),
    ("beam = 4", "beam = 4\nbeems = 4", "own.toml: beems: no such key: choose from max-update"),
    ("beam = 4", "", "own.toml: beam is missing: it must be a whole number"),
    ("beam = 4", "beam = true", "own.toml: beam = True: it must be a whole number from 1 to 1000"),
    ("beam = 4", "beam = 1001", "own.toml: beam = 1001: it must be a whole number from 1 to 1000"),
    ("[0.6, 1.0", "[nan, 1.0", "own.toml: lenpen = [nan, 1.0, 1.4, 1.8]: it must be a list of num"),
    ('"epoch"', '"hour"', 'own.toml: average-by = \'hour\': it must be "epoch" or "update"'),
    ("lr = 0.004", "lr = [0.1]", "own.toml: options.all.lr = [0.1]: it must be a number, true"),
    ("lr = 0.004", 'lr = "--user-dir=evil"', "own.toml: options.all.lr = '--user-dir=evil': it "),
    ("lr = 0.004", '"user-dir=evil" = true', "own.toml: options.all.user-dir=evil = True: it "),
    ("lr = 0.004", 'post-save-script = "touch x"', "options.all.post-save-script = 'touch x': it "),
    (LAST, "[options.other.de-en]\nx = \"f'{a}'\"", "options.other.de-en.x = "),
    ("[options.all]", "[options]\nx = 1\n[options.all]", "it must be a table for all models, or"),
    ("[options.all]", "options = {}\n[more]", "options = {}: it must be a table for all models"),
    (LAST, "[options.other.de-en.y]\nx = 1", "options.other.de-en.y = {'x': 1}: "),
]


@pytest.mark.parametrize("old, new, message", WRONG, ids=[new[:40] for _, new, _ in WRONG])
def test_a_wrong_value_is_refused_with_its_file_and_key(tmp_path, old, new, message):
    with pytest.raises(UserError) as error:
        load_own(tmp_path / "own.toml", old, new)
    assert message in str(error.value) and "\n" not in str(error.value)
