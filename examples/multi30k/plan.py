"""Every run of the study: which model, which recipe, how long. README.md has what came of it.

A row is one training run. All have the width of `systems.py`, the vocabulary and batches below; a
budget is CPU minutes of training on one core, turned into updates at the speed that the trials
measured.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Dict, List, Tuple

from systems import PLACED, SCALE_1, SYSTEMS, TOEPLITZ, WIDTH, adagrad, adam, both_sides

VOCABULARY, MAX_TOKENS, POSITIONS = 4000, 1024, 128
SEEDS = (1, 2)
LANGUAGES = ("de", "fr")
TEST = "test_2016_flickr"  # of all comparisons
# trials of a few minutes each
TRIAL_UPDATES = {
    "lstm": 1000,
    "fconv": 1000,
    "transformer-3": 1000,
    "resmlp-3": 1200,
    "toeplitz-3": 1200,
}


@dataclass(frozen=True)
class Row:
    """One run.

    Attributes:
        name: of its result file and folder.
        table: the table it belongs to.
        label: what the table calls it.
        arch, options: of fairseq-train.
        updates: length of training.
        target: language; the source is English.
        scored: translate and score, not only train.
        text: what it is trained on, one of ``texts.TEXTS``.
    """

    name: str
    table: str
    label: str
    arch: str
    options: Tuple[str, ...]
    updates: int
    target: str = "de"
    seed: int = 1
    scored: bool = True
    text: str = "original"

    @property
    def train_options(self) -> List[str]:
        """The row's own options, then what all share but for those that it sets itself."""
        shared = (option for option in schedule(self.updates) if option[0] not in self.options)
        return [*self.options, *(part for option in shared for part in option)]

    def data(self, out: Path) -> Path:
        """The folder in *out* of pieces and binary data, shared by the rows of a text and pair."""
        return out / f"data.en-{self.target}{'' if self.text == 'original' else '.' + self.text}"


def schedule(updates: int) -> List[Tuple[str, ...]]:
    """What all runs share: linear warm-up, then a linear fall to 0 at the last update."""
    return [
        ("--lr-scheduler", "polynomial_decay"),
        ("--total-num-update", str(updates)),
        ("--warmup-updates", str(min(400, updates // 4))),
        ("--clip-norm", "1.0"),
        ("--criterion", "label_smoothed_cross_entropy"),
        ("--label-smoothing", "0.1"),
        ("--dropout", "0.1"),
        ("--max-tokens", str(MAX_TOKENS)),
        ("--patience", "0"),
        ("--max-source-positions", str(POSITIONS)),
        ("--max-target-positions", str(POSITIONS)),
        ("--skip-invalid-size-inputs-valid-test",),
    ]


def trials() -> List[Row]:
    """Three recipes for each system, on English to German, each on the schedule of a short run."""
    return [
        Row(
            name=f"trial.{name}.{number}",
            table="trials",
            label=name,
            arch=system.arch,
            options=(*system.options, *recipe),
            updates=TRIAL_UPDATES[name],
            scored=False,
        )
        for name, system in SYSTEMS.items()
        for number, recipe in enumerate(system.trials, 1)
    ]


# what the trials chose (a test compares)
CHOSEN = {"lstm": 3, "fconv": 2, "transformer": 3, "resmlp": 2, "toeplitz": 2}
# BUDGET minutes at the speed of the chosen trial, in CPU minutes; those without trials by their own
BUDGET = 15
UPDATES = {
    "lstm": 4300,
    "fconv": 4700,
    "transformer-3": 4400,
    "resmlp-3": 5200,
    "resmlp-6": 3100,
    "toeplitz-3": 5000,
    "toeplitz-6": 3000,
    "conv-3": 4700,
}


def recipe_of(system: str) -> Tuple[str, ...]:
    """The chosen recipe of a system, or of the one that it is like."""
    tried = SYSTEMS[system].like or system
    return SYSTEMS[tried].trials[CHOSEN[tried.split("-")[0]] - 1]


def table5() -> List[Row]:
    """The paper's Table 5 at this size: equal width, vocabulary and time."""
    return [
        Row(
            name=f"table5.en-{target}.{name}.{seed}",
            table="table5",
            label=name,
            arch=system.arch,
            options=(*system.options, *recipe_of(name)),
            updates=UPDATES[name],
            target=target,
            seed=seed,
        )
        for seed in SEEDS
        for target in LANGUAGES
        for name, system in SYSTEMS.items()
    ]


# one change each from resmlp-3, the paper's model
ABLATIONS: Dict[str, Tuple[str, ...]] = {
    "the paper": (),
    "A: none": ("--token-mixing", "none"),
    "A: MLP over positions": ("--token-mixing", "mlp"),
    "A: convolution of 3": ("--token-mixing", "conv"),
    "A: depthwise convolution of 3": ("--token-mixing", "depthwise-conv"),
    "A: separable convolution of 3": ("--token-mixing", "separable-conv"),
    "A: 8 heads": ("--token-mixing-heads", "8"),
    "A: Toeplitz": ("--token-mixing", "toeplitz"),
    "A: Toeplitz, 8 heads": tuple(TOEPLITZ),
    "A without bias": ("--no-token-mixing-bias",),
    "LayerNorm for Aff": ("--normalization", "layernorm"),
    "ReLU for GELU": ("--activation-fn", "relu"),
    "positional embeddings": ("--token-positional-embeddings",),
    "LayerScale 1": tuple(SCALE_1),
    "LayerScale 0.1": ("--layerscale-init", "0.1"),
    "LayerScale 1e-4": ("--layerscale-init", "1e-4"),
    "6 + 6 layers": tuple(both_sides(layers=6)),
    "12 + 12 layers": tuple(both_sides(layers=12)),
    "Adagrad, 0.05": adagrad(0.05),
    # more than one change: whether the convolutions repeat words because they know no positions
    "A: convolution of 3, positional embeddings": tuple(PLACED),
    "A: convolution of 3, positional embeddings, LayerScale 1": (*PLACED, *SCALE_1),
    # and again one
    "A begins at 0": ("--token-mixing-init-std", "0"),
    "A begins with std 0.1": ("--token-mixing-init-std", "0.1"),
}
# one change each from toeplitz-3, in search of more; unchanged it is the row BEFORE
BEFORE = "ablation.08"
FURTHER: Dict[str, Tuple[str, ...]] = {
    "32 heads": ("--token-mixing-heads", "32"),
    "128 heads, a matrix a channel": ("--token-mixing-heads", str(WIDTH)),
    "lr 0.006": adam(0.006),
    "dropout 0.2": ("--dropout", "0.2"),
    "5 + 2 layers": ("--encoder-layers", "5", "--decoder-layers", "2"),
    "LayerScale 1": tuple(SCALE_1),
}
ABLATION_UPDATES = UPDATES["resmlp-3"] // 2


def _changed(table: str, name: str, system: str, changes: Dict[str, Tuple[str, ...]]) -> List[Row]:
    """A row for each change of a system's options."""
    return [
        Row(
            name=f"{name}.{number:02}",
            table=table,
            label=label,
            arch=SYSTEMS[system].arch,
            # another optimizer has other options
            options=(
                *SYSTEMS[system].options,
                *(() if "--optimizer" in change else recipe_of(system)),
                *change,
            ),
            updates=ABLATION_UPDATES,
        )
        for number, (label, change) in enumerate(changes.items())
    ]


def ablations() -> List[Row]:
    return _changed("ablations", "ablation", "resmlp-3", ABLATIONS)


def further() -> List[Row]:
    return _changed("further", "further", "toeplitz-3", FURTHER)


def other_texts() -> List[Row]:
    """Table 5's ResMLPs on other training texts: a teacher's translations, longer sentences."""
    return [
        replace(row, name=f"{text}.{row.name.removeprefix('table5.')}", table=text, text=text)
        for text in ("distilled", "concatenated")
        for row in table5()
        if row.target == "de"
        and row.seed == 1
        and row.label in ("resmlp-3", "toeplitz-3", "conv-3")
    ]


def higher_rates() -> List[Row]:
    """Table 5's Transformer above the rates of its trials, the highest of which they chose."""
    return [
        replace(
            row,
            name=f"higher-rate.{row.name.removeprefix('table5.')}",
            table="higher-rate",
            options=(*SYSTEMS[row.label].options, *adam(0.006)),
        )
        for row in table5()
        if row.target == "de" and row.label == "transformer-3"
    ]


def rows() -> Dict[str, Row]:
    """All runs by name, in the order in which they are made."""
    made = [*trials(), *table5(), *ablations(), *further(), *other_texts(), *higher_rates()]
    return {row.name: row for row in made}
