"""Every run of the study, as data: which model, which recipe, how long. README.md has the results.

A row is one training. The rows of Table 5 and of the ablations have one width, one vocabulary and
one batch size. Their budget is CPU minutes of training on one core, turned into updates at the
speed that the trials measured.
"""

from dataclasses import dataclass, replace
from typing import Dict, List, Tuple

Options = Tuple[str, ...]

VOCABULARY, MAX_TOKENS, POSITIONS = 4000, 1024, 128
SEEDS = (1, 2)
LANGUAGES = ("de", "fr")
# by the names of fairseq-generate's --gen-subset
TESTS = {
    "test": "test_2016_flickr",
    "test1": "test_2017_flickr",
    "test2": "test_2017_mscoco",
}
TEST = TESTS["test"]  # of all comparisons


def size(layers: int, width: int = 128, hidden: int = 512, heads: int = 4) -> Options:
    """Options for the size of a Transformer or a ResMLP, the same on both sides."""
    options = both_sides(
        layers=layers, embed_dim=width, ffn_embed_dim=hidden, attention_heads=heads
    )
    return (*options, "--share-all-embeddings")


def both_sides(**options) -> Options:
    return tuple(
        str(part)
        for side in ("encoder", "decoder")
        for name, value in options.items()
        for part in (f"--{side}-{name.replace('_', '-')}", value)
    )


def adam(lr: float) -> Options:
    return ("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", f"{lr:g}")


def adagrad(lr: float) -> Options:
    return ("--optimizer", "adagrad", "--lr", f"{lr:g}")


def nag(lr: float) -> Options:
    """The optimizer of ConvS2S."""
    return ("--optimizer", "nag", "--lr", f"{lr:g}", "--momentum", "0.99")


TOEPLITZ = ("--token-mixing", "toeplitz", "--token-mixing-heads", "8")
GATED = ("--token-mixing", "gated", "--token-mixing-heads", "8")
# convolutions know no positions
PLACED = ("--token-mixing", "conv", "--token-positional-embeddings")
SCALE_1 = ("--layerscale-init", "1")


@dataclass(frozen=True)
class System:
    """A model of Table 5.

    Attributes:
        arch: fairseq's or our architecture.
        options: its size.
        updates: the budget of 15 CPU minutes, in updates.
        trials: the recipes tried for it, as options of fairseq-train; three each.
        chosen: the trial with the best validation nll, from 1 (a test compares).
        like: the system whose chosen recipe it takes, of one without trials.
        trial_updates: length of a trial, which takes a few minutes.
    """

    arch: str
    options: Options
    updates: int
    trials: Tuple[Options, ...] = ()
    chosen: int = 0
    like: str = ""
    trial_updates: int = 1000

    @property
    def recipe(self) -> Options:
        chosen = SYSTEMS[self.like] if self.like else self
        return chosen.trials[chosen.chosen - 1]


OURS = {"trials": (adam(0.002), adam(0.004), adagrad(0.05)), "chosen": 2, "trial_updates": 1200}
SYSTEMS: Dict[str, System] = {
    "lstm": System(
        "lstm",
        (
            *both_sides(layers=2, embed_dim=128, hidden_size=128),
            *("--encoder-bidirectional", "--decoder-out-embed-dim", "128"),
            "--share-all-embeddings",
        ),
        updates=4300,
        trials=(adam(0.001), adam(0.002), adam(0.004)),
        chosen=3,
    ),
    "fconv": System(
        "fconv",
        (
            *both_sides(layers="[(128, 3)] * 6", embed_dim=128),
            *("--decoder-out-embed-dim", "128", "--share-input-output-embed"),
        ),
        updates=4700,
        trials=(adam(0.001), adam(0.002), nag(0.25)),
        chosen=2,
    ),
    "transformer-3": System(
        "transformer",
        size(3),
        updates=4400,
        trials=(adam(0.001), adam(0.002), adam(0.004)),
        chosen=3,
    ),
    "resmlp-3": System("resmlp_mt_6", size(3), updates=5200, **OURS),
    "resmlp-6": System("resmlp_mt_6", size(6), updates=3100, like="resmlp-3"),
    "toeplitz-3": System("resmlp_mt_6", (*size(3), *TOEPLITZ), updates=5000, **OURS),
    "toeplitz-6": System("resmlp_mt_6", (*size(6), *TOEPLITZ), updates=3000, like="toeplitz-3"),
    # put together from the ablations
    "conv-3": System("resmlp_mt_6", (*size(3), *PLACED, *SCALE_1), updates=4700, like="resmlp-3"),
}


# what pages and pictures call them; a name that no size follows has 3 + 3 layers
NAMES = {
    "lstm": "LSTM",
    "fconv": "ConvS2S",
    "transformer-3": "Transformer",
    "resmlp-3": "ResMLP",
    "resmlp-6": "ResMLP, 6 + 6",
    "toeplitz-3": "ResMLP, Toeplitz",
    "toeplitz-6": "ResMLP, Toeplitz, 6 + 6",
    "conv-3": "ResMLP, convolutions",
    "gated-3": "ResMLP, gated",
}


@dataclass(frozen=True)
class Row:
    """One run.

    Attributes:
        name: of its result file and folder.
        table: the table it belongs to, and the folder of its result file.
        label: what the table calls it.
        arch, options: of fairseq-train.
        updates: length of training.
        target: language; the source is English.
        scored: translate and score the test sets, not only the validation set.
        text: what it is trained on, one of ``runs.TEXTS``.
        lenpen: length penalties to try on the validation set.
    """

    name: str
    table: str
    label: str
    arch: str
    options: Options
    updates: int
    target: str = "de"
    seed: int = 1
    scored: bool = True
    text: str = "original"
    lenpen: Tuple[float, ...] = (0.6, 1.0, 1.4)

    @property
    def train_options(self) -> List[str]:
        """The options of the row, then what all share but for those that it sets itself."""
        shared = (option for option in schedule(self.updates) if option[0] not in self.options)
        return [*self.options, *(part for option in shared for part in option)]


def schedule(updates: int) -> List[Options]:
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
            updates=system.trial_updates,
            scored=False,
        )
        for name, system in SYSTEMS.items()
        for number, recipe in enumerate(system.trials, 1)
    ]


def table5() -> List[Row]:
    """Table 5 of the paper at this size: equal width, vocabulary and time."""
    return [
        Row(
            name=f"table5.en-{target}.{name}.{seed}",
            table="table5",
            label=name,
            arch=system.arch,
            options=(*system.options, *system.recipe),
            updates=system.updates,
            target=target,
            seed=seed,
        )
        for seed in SEEDS
        for target in LANGUAGES
        for name, system in SYSTEMS.items()
    ]


# one change each from resmlp-3, the paper's model
ABLATIONS: Dict[str, Options] = {
    "the paper": (),
    "A: none": ("--token-mixing", "none"),
    "A: MLP over positions": ("--token-mixing", "mlp"),
    "A: convolution of 3": ("--token-mixing", "conv"),
    "A: depthwise convolution of 3": ("--token-mixing", "depthwise-conv"),
    "A: separable convolution of 3": ("--token-mixing", "separable-conv"),
    "A: 8 heads": ("--token-mixing-heads", "8"),
    "A: Toeplitz": ("--token-mixing", "toeplitz"),
    "A: Toeplitz, 8 heads": TOEPLITZ,
    "A without bias": ("--no-token-mixing-bias",),
    "LayerNorm for Aff": ("--normalization", "layernorm"),
    "ReLU for GELU": ("--activation-fn", "relu"),
    "positional embeddings": ("--token-positional-embeddings",),
    "LayerScale 1": SCALE_1,
    "LayerScale 0.1": ("--layerscale-init", "0.1"),
    "LayerScale 1e-4": ("--layerscale-init", "1e-4"),
    "6 + 6 layers": both_sides(layers=6),
    "12 + 12 layers": both_sides(layers=12),
    "Adagrad, 0.05": adagrad(0.05),
    # more than one change: whether the convolutions repeat words because they know no positions
    "A: convolution of 3, positional embeddings": PLACED,
    "A: convolution of 3, positional embeddings, LayerScale 1": (*PLACED, *SCALE_1),
    # and again one
    "A begins at 0": ("--token-mixing-init-std", "0"),
    "A begins with std 0.1": ("--token-mixing-init-std", "0.1"),
}
# one change each from toeplitz-3, in search of more; unchanged it is the row BEFORE
BEFORE = "ablation.08"
FURTHER: Dict[str, Options] = {
    "32 heads": ("--token-mixing-heads", "32"),
    "128 heads, a matrix a channel": ("--token-mixing-heads", "128"),
    "lr 0.006": adam(0.006),
    "dropout 0.2": ("--dropout", "0.2"),
    "5 + 2 layers": ("--encoder-layers", "5", "--decoder-layers", "2"),
    "LayerScale 1": SCALE_1,
}
ABLATION_UPDATES = SYSTEMS["resmlp-3"].updates // 2


def _changed(table: str, name: str, system: str, changes: Dict[str, Options]) -> List[Row]:
    """A row for each change of the options of a system."""
    unchanged = SYSTEMS[system]
    return [
        Row(
            name=f"{name}.{number:02}",
            table=table,
            label=label,
            arch=unchanged.arch,
            # another optimizer has other options
            options=(
                *unchanged.options,
                *(() if "--optimizer" in change else unchanged.recipe),
                *change,
            ),
            updates=ABLATION_UPDATES,
        )
        for number, (label, change) in enumerate(changes.items())
    ]


def other_texts() -> List[Row]:
    """The ResMLPs of Table 5 on other texts: translations of a teacher, longer sentences."""
    return [
        replace(row, name=row.name.replace("table5", text, 1), table=text, text=text)
        for text in ("distilled", "concatenated")
        for row in table5()
        if row.target == "de"
        and row.seed == 1
        and row.label in ("resmlp-3", "toeplitz-3", "conv-3")
    ]


def gated() -> List[Row]:
    """A gate over the Toeplitz A, in as many updates as the convolutions of Table 5, which take
    the same time."""
    return [
        replace(
            row,
            name=f"gated.en-de.gated-3.{row.seed}",
            table="gated",
            label="gated-3",
            options=(*size(3), *GATED, *SCALE_1, *SYSTEMS["conv-3"].recipe),
        )
        for row in table5()
        if row.target == "de" and row.label == "conv-3"
    ]


def higher_rates() -> List[Row]:
    """The Transformer of Table 5 above the rates of its trials, the highest of which they chose."""
    return [
        replace(
            row,
            name=row.name.replace("table5", "higher-rate", 1),
            table="higher-rate",
            options=(*SYSTEMS[row.label].options, *adam(0.006)),
        )
        for row in table5()
        if row.target == "de" and row.label == "transformer-3"
    ]


SMALL, TINY = size(3, width=256), size(4, hidden=256)
# longer runs of larger models: name, architecture, updates, options
LARGER: Dict[str, Tuple[str, int, Options]] = {
    "small.conv": (
        "resmlp_mt_conv_6",
        4800,
        (*SMALL, *adam(0.002), "--dropout", "0.3", *SCALE_1),
    ),
    "small.toeplitz-8": (
        "resmlp_mt_6",
        7000,
        (*SMALL, *adam(0.0015), "--dropout", "0.2", *TOEPLITZ),
    ),
    "small.transformer-dropout-0.3": (
        "transformer",
        4100,
        (*SMALL, *adam(0.002), "--dropout", "0.3"),
    ),
    "small.transformer": ("transformer", 4200, (*SMALL, *adam(0.001), "--dropout", "0.2")),
    "tiny.resmlp": ("resmlp_mt_tiny", 2500, (*TINY, *adagrad(0.05))),
    "tiny.transformer": ("transformer", 2200, (*TINY, *adam(0.0015))),
}


def larger() -> List[Row]:
    return [
        Row(
            name=f"en-de.{name}.1",
            table="larger",
            label=name,
            arch=arch,
            options=(*options, "--max-tokens", "2048"),
            updates=updates,
            lenpen=(0.6, 1.0, 1.4, 1.8),
        )
        for name, (arch, updates, options) in LARGER.items()
    ]


def rows() -> Dict[str, Row]:
    """All runs by name, in the order in which they are made."""
    made = [
        *trials(),
        *table5(),
        *_changed("ablations", "ablation", "resmlp-3", ABLATIONS),
        *_changed("further", "further", "toeplitz-3", FURTHER),
        *other_texts(),
        *gated(),
        *higher_rates(),
        *larger(),
    ]
    return {row.name: row for row in made}
