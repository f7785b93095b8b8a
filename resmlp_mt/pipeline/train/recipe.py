"""Recipes: how to train, average and search, in TOML files. ``recipes/paper.toml`` explains one."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from resmlp_mt_runtime.arguments import COUNT, RANGES
from resmlp_mt_runtime.errors import UserError

FOLDER = Path(__file__).with_name("recipes")
NAMES = ("trial", "small", "mixed", "iwslt", "paper")

Options = dict[str, list[str]]  # a command line: the values of each option, none for a switch
Value = str | int | float | bool
# options whose values are text; with others a recipe could name files to write or a program to run
_TEXTS = "activation-fn adam-betas adafactor-eps adaptive-softmax-cutoff best-checkpoint-metric "
_TEXTS += "criterion ddp-backend decoder-attention decoder-conv-type decoder-kernel-size-list "
_TEXTS += "decoder-layers decoder-layers-to-keep encoder-attention encoder-conv-type "
_TEXTS += "encoder-kernel-size-list encoder-layers encoder-layers-to-keep eval-bleu-args "
_TEXTS += "eval-bleu-detok eval-bleu-detok-args eval-bleu-remove-bpe lr lr-scheduler normalization "
_TEXTS += "optimizer task token-mixing update-epoch-batch-itr"


@dataclass(frozen=True)
class Recipe:
    """A recipe file. Its ``options`` are those of ``fairseq-train``, by section: ``"all"`` models;
    one by its registered name. A table in a section is for a language pair such as en-fr."""

    name: str
    max_update: int
    tokens: int  # per update, on all GPUs together
    vocab_size: int
    average_by: str  # "epoch" or "update"
    average_count: int
    beam: int
    lenpen: list[float]  # the validation set chooses one
    options: dict[str, dict]

    def options_for(self, model: str, pair: str, max_update: int) -> Options:
        """The options of ``fairseq-train`` for a registered *model* and a pair SOURCE-TARGET."""
        named = [name for name in self.options if name != "all"]
        if named and model not in named:
            wrong = f"recipe {self.name} has no options for the model {model}"
            wrong += f", only for {', '.join(named)}"
            own = f"add [options.{model}] to a recipe of your own"
            raise UserError(f"{wrong}: choose another --arch, or {own}")
        values: dict[str, Value] = {}
        for table in (self.options.get("all", {}), self.options.get(model, {})):
            values.update((name, v) for name, v in table.items() if not isinstance(v, dict))
            values.update(table.get(pair, {}))
        options: Options = {}
        for name, value in values.items():
            if value is True:
                options[f"--{name}"] = []
            elif value is not False:
                options[f"--{name}"] = [str(max_update if value == "max-update" else value)]
        return options


def _is_option(name: str, value) -> bool:
    """Whether it is one option, without another in its value: --user-dir would import a module."""
    if not re.fullmatch(r"[A-Za-z][\w-]*", name) or not isinstance(value, Value):
        return False
    if isinstance(value, str) and value != "max-update" and name not in _TEXTS.split():
        return False
    return not re.match(r"-[^\d.]", str(value).strip())


def _flat(tables: dict, prefix: str = "options") -> Iterator[tuple[str, str, Value]]:
    """Yield (dotted path, option, value) of all options."""
    for name, value in tables.items():
        place = f"{prefix}.{name}"
        if isinstance(value, dict) and place.count(".") <= 2:  # options.MODEL.PAIR
            yield from _flat(value, place)
        else:
            yield place, name, value


# for each key a test of its value, and what the value must be
_COUNT, _BEAM = ((allowed.has, str(allowed)) for allowed in (COUNT, RANGES["beam"]))
_KEYS = {
    **dict.fromkeys(("max-update", "tokens", "vocab-size", "average-count"), _COUNT),
    "beam": _BEAM,
    "average-by": (lambda v: v in ("epoch", "update"), '"epoch" or "update"'),
    "lenpen": (
        lambda v: isinstance(v, list) and v and all(map(RANGES["lenpen"].has, v)),
        "a list of numbers from -10 to 10",
    ),
    "options": (
        lambda v: isinstance(v, dict) and v and all(type(x) is dict for x in v.values()),
        "a table for all models, or for each",
    ),
}


def load_recipe(name: str | Path) -> Recipe:
    """A recipe of this package by name, or a TOML file of the user's; UserError if it is wrong."""
    path = FOLDER / f"{name}.toml" if str(name) in NAMES else Path(name)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        choices = f"choose {', '.join(NAMES)}, or give a TOML file"
        raise UserError(f"--recipe {name}: {error.strerror}: {choices}") from None
    except (ValueError, RecursionError) as error:  # tomllib names the line
        raise UserError(f"{path}: not a TOML file in UTF-8: {error}") from None
    for key in {**values, **_KEYS}:
        if key not in _KEYS:
            raise UserError(f"{path}: {key}: no such key: choose from {', '.join(_KEYS)}")
        right, expected = _KEYS[key]
        if key not in values:
            raise UserError(f"{path}: {key} is missing: it must be {expected}")
        if not right(values[key]):
            raise UserError(f"{path}: {key} = {values[key]!r:.60}: it must be {expected}")
    for place, option, value in _flat(values["options"]):
        if not _is_option(option, value):
            expected = "a number, true, false, or a word or literal where fairseq-train expects one"
            given = f"{place} = {value!r:.60}"
            raise UserError(f"{path}: {given}: it must be {expected} (give other options after --)")
    return Recipe(name=str(name), **{key.replace("-", "_"): v for key, v in values.items()})


def parse_options(words: list[str]) -> Options:
    """The words of a command line by option: ``["--lr", "0.1"]`` as ``{"--lr": ["0.1"]}``."""
    options: Options = {}
    values = None
    for word in words:
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            values = options[name] = [value] if equals else []
        elif values is None or (word[:1] == "-" and word[1:2].isalpha()):
            raise UserError(f"{word}: after -- write the options of fairseq-train by long names")
        else:
            values.append(word)
    return options


def command_line(options: Options) -> list[str]:
    """The inverse of :func:`parse_options`."""
    return [word for name, values in options.items() for word in (name, *values)]
