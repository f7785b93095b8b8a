"""One training: its command line checked, its process watched, resumed from its last checkpoint."""

import contextlib
import io
from argparse import Namespace
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from fairseq import options as fairseq_options
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_REGISTRY

from resmlp_mt import fairseq_fixes
from resmlp_mt.errors import UserError
from resmlp_mt.files import lock, make_folder, read_own, write_json
from resmlp_mt.loss import AUTOCAST
from resmlp_mt.model_folder import TRAINING, check_dictionaries, dictionary_digest
from resmlp_mt.pipeline.train.command import (
    PRECISIONS,
    Devices,
    cost_added_to,
    run_command,
    share_tokens,
    training_command,
)
from resmlp_mt.pipeline.train.log import TrainingProgress
from resmlp_mt.pipeline.train.recipe import Options, Recipe, command_line, parse_options

fairseq_fixes.apply()  # our models are registered

# options of fairseq-train that follow from one of ours; fairseq's --amp divides the gradients by
# the loss scale twice, and its --bf16 is for TPUs
_OURS = {name: name for name in ["--arch", "--seed", "--max-update", "--max-tokens"]}
_OURS |= {name: name for name in ["--source-lang", "--target-lang"]}
_OURS |= dict.fromkeys(["--save-dir", "--restore-file", "--log-file"], "--out")
_OURS |= dict.fromkeys(["--batch-size", "--max-sentences"], "--max-tokens")
_OURS |= {"--update-freq": "--tokens", "--user-dir": "itself"}
_OURS |= {"--distributed-world-size": "--gpus", "--distributed-rank": "--node-rank"}
_OURS |= dict.fromkeys(["--fp16", "--fp16-no-flatten-grads", "--amp", "--bf16"], "--precision")
_STARTS = ("--continue-once", "--finetune-from-model")


@dataclass
class Training:
    """A training in a folder. Bad options are refused when it is made, before the data exist."""

    data: Path  # folder of binary data
    out: Path  # folder for checkpoints, train.log, train.json and cost.json
    arch: str
    recipe: Recipe
    max_update: int | None = None  # None: the recipe's
    devices: Devices = Devices()
    precision: str = "fp32"
    tokens: int | None = None  # per update; None: the recipe's
    max_tokens: int | None = None  # per batch; None: as before in this folder
    seed: int = 1
    threads: int | None = None
    source_lang: str | None = None  # None: the data's
    target_lang: str | None = None
    fairseq_options: list[str] = field(default_factory=list)  # override the recipe

    def __post_init__(self):
        self.data, self.out = Path(self.data), Path(self.out)
        self.updates = self.max_update or self.recipe.max_update
        self.tokens = self.tokens or self.recipe.tokens
        if self.source_lang and self.target_lang:
            self.languages = self.source_lang, self.target_lang
        else:
            self.languages = find_languages(self.data, self.source_lang, self.target_lang)
        self.options = self._options()
        self._find_devices()
        self.begun: dict = {}  # train.json of a training that has a checkpoint
        if (self.out / "checkpoint_last.pt").exists():
            self.begun = read_own(self.out / TRAINING, "settings")
        if self.max_tokens is None and self.begun:
            self.max_tokens = int(self.begun["settings"]["--max-tokens"][0])
        share = share_tokens(self.tokens, self.devices, self.max_tokens)
        for name, value in zip(("--max-tokens", "--update-freq"), share):
            self.options[name] = [str(value)]
        self.args = self._parsed()
        self._build_model()
        for name in _STARTS:
            for start in self.options.get(name, []):
                if not Path(start).is_file():  # fairseq would begin with random weights
                    raise UserError(f"{name} {start}: no such file: give a checkpoint")
        if "--cpu" not in self.options and torch.cuda.device_count() < self.devices.gpus:
            raise UserError(
                f"--gpus {self.devices.gpus}: this machine has {torch.cuda.device_count()} that "
                "PyTorch can use: leave out --gpus to take what there is"
            )
        if self.devices.nodes > 1 and self.devices.master_addr is None:
            raise UserError("--nodes: give --master-addr, the host name of the first node")

    def _options(self) -> Options:
        """The recipe's and the user's, before the devices are known."""
        model = ARCH_MODEL_NAME_REGISTRY.get(self.arch)
        if model is None:
            ours = [name for name, m in ARCH_MODEL_NAME_REGISTRY.items() if m == "resmlp_mt"]
            raise UserError(
                f"--arch {self.arch}: there is no such architecture: choose {', '.join(ours)}, or "
                "one of fairseq"
            )
        for name in self.recipe.options:
            if name not in (*MODEL_REGISTRY, "all", "other"):
                raise UserError(f"recipe {self.recipe.name}: options.{name}: no such model")
        recipe = self.recipe.options_for(model, "-".join(self.languages), self.updates)
        extra = parse_options(self.fairseq_options)
        for where, options in ((f"recipe {self.recipe.name}", recipe), ("after --", extra)):
            for name in options:
                if name in _OURS:
                    raise UserError(f"{name} {where}: resmlp-mt sets it by {_OURS[name]}")
        return {
            "--arch": [self.arch],
            "--seed": [str(self.seed)],
            "--source-lang": [self.languages[0]],
            "--target-lang": [self.languages[1]],
            **recipe,
            **PRECISIONS[self.precision],
            "--max-update": [str(self.updates)],
            "--save-dir": [str(self.out)],
            **extra,
        }

    def _find_devices(self) -> None:
        nodes, rank = self.devices.nodes, self.devices.node_rank
        if not 0 <= rank < nodes:
            raise UserError(
                f"--node-rank {rank}: with --nodes {nodes} they are numbered from 0 to {nodes - 1}"
            )
        if self.devices.gpus is None:
            gpus = 0 if "--cpu" in self.options else torch.cuda.device_count()
            if gpus == 0:
                self.options["--cpu"] = []
            self.devices = replace(self.devices, gpus=max(1, gpus))
        if "--cpu" in self.options and self.devices.processes > 1:
            raise UserError("on a CPU training takes one process: leave out --gpus and --nodes")
        if "--cpu" in self.options and self.precision == "fp16":
            raise UserError("--precision fp16: training in 16 bits needs a GPU")

    def _parsed(self) -> Namespace:
        """The options with the defaults of fairseq-train's parser."""
        words, output = [str(self.data), *command_line(self.options)], io.StringIO()
        try:
            with contextlib.redirect_stderr(output):
                parser = fairseq_options.get_training_parser()
                return fairseq_options.parse_args_and_arch(parser, input_args=words)
        except SystemExit:
            message = output.getvalue().strip().splitlines()[-1].partition("error: ")[2]
            raise UserError(f"fairseq-train does not take these options: {message}") from None

    def _build_model(self) -> None:
        """Raise what building our model would raise after hours of preparing text."""
        if ARCH_MODEL_NAME_REGISTRY[self.arch] == "resmlp_mt":
            task = SimpleNamespace(source_dictionary=Dictionary(), target_dictionary=Dictionary())
            try:
                with torch.device("meta"):
                    MODEL_REGISTRY["resmlp_mt"].build_model(copy(self.args), task)
            except (AssertionError, ValueError) as error:
                raise UserError(f"--arch {self.arch}: {error}") from None

    @property
    def shape(self) -> str:
        """Such as "3 + 3 layers, 256 channels, 512 hidden units", the encoder's before the
        decoder's where they differ; "" if the model has no such options."""
        names = ("layers", "embed_dim", "ffn_embed_dim")
        sides = ("encoder", "decoder")
        sizes = [[getattr(self.args, f"{side}_{name}", None) for side in sides] for name in names]
        if not all(isinstance(size, int) for pair in sizes for size in pair):
            return ""
        channels, hidden = ("/".join(map(str, dict.fromkeys(pair))) for pair in sizes[1:])
        return "{} + {} layers".format(*sizes[0]) + f", {channels} channels, {hidden} hidden units"

    def check_data(self) -> None:
        """Refuse data that do not fit the options or the checkpoint to start from."""
        find_languages(self.data, *self.languages)
        self.dictionary = dictionary_digest(self.data, self.languages)
        self._check_start()
        self._check_lengths()

    def _check_lengths(self) -> None:
        """fairseq leaves out sentences of more than --max-tokens in training, and ends at the first
        validation. Those beyond --max-source-positions or --max-target-positions do not count."""
        most = int(self.options["--max-tokens"][0])
        for split in ("train", "valid"):
            prefix = self.data / f"{split}.{'-'.join(self.languages)}"
            paths = [f"{prefix}.{language}" for language in self.languages]
            if not all(map(MMapIndexedDataset.exists, paths)):
                continue
            sides = [MMapIndexedDataset(path) for path in paths]  # their sizes end with them
            sizes = np.array([side.sizes for side in sides])
            limits = [[self.args.max_source_positions], [self.args.max_target_positions]]
            longest = sizes.max(0, where=(sizes <= limits).all(0), initial=0).max(initial=0)
            if longest > most:
                raise UserError(
                    f"--max-tokens {most}: a sentence of {split} has {longest} tokens: give at "
                    f"least {longest}, or after -- a lower --max-source-positions and "
                    "--max-target-positions"
                )

    def _check_start(self) -> None:
        """Refuse a checkpoint of another architecture or dictionary, here or as a start."""
        if self.begun:
            other = "--arch" if self.begun["settings"]["--arch"] != [self.arch] else None
            if self.begun["data"]["dictionary"] != self.dictionary:
                other = other or "dictionary"
            if other:
                raise UserError(
                    f"{self.out} holds a training with another {other}: choose another folder for "
                    "--out"
                )
            return
        for start in (start for name in _STARTS for start in self.options.get(name, [])):
            check_dictionaries(Path(start), self.data, self.languages)

    def command(self) -> list[str]:
        """What to run on this node."""
        return training_command(self.data, self.options, self.devices)

    def environment(self) -> dict[str, str]:
        """The variables that the command needs."""
        variables: dict[str, str] = {AUTOCAST: "bfloat16"} if self.precision == "bf16" else {}
        return {**variables, "OMP_NUM_THREADS": str(self.threads)} if self.threads else variables

    def run(self) -> None:
        """Train, or resume from the last checkpoint, to the end."""
        self.check_data()
        make_folder(self.out)
        words, environment = self.command(), self.environment()
        if self.devices.node_rank > 0:  # the first node locks the folder
            log = self.out / f"train.node-{self.devices.node_rank}.log"
            run_command("fairseq-train", words, log, environment=environment)
            return
        with lock(self.out), TrainingProgress(self.updates, self.shape) as progress:
            read_own(self.out / TRAINING, "settings")  # refuses a file of another program
            settings = {**self.options, "--tokens": [str(self.tokens)]}
            settings["--precision"] = [self.precision]
            made_of = {"settings": settings, "data": {"dictionary": self.dictionary}}
            write_json(self.out / TRAINING, made_of)
            with cost_added_to(self.out / "cost.json"):
                log = self.out / "train.log"
                run_command("fairseq-train", words, log, progress.show, environment)


def find_languages(data: Path, source_lang: str | None, target_lang: str | None) -> tuple[str, str]:
    """Source and target of a folder of data, from the names ``train.SOURCE-TARGET.SOURCE.idx``."""
    pairs = set()
    for path in data.glob("train.*-*.*.idx"):
        _, pair, source, _ = path.name.split(".", 3)
        target = pair.removeprefix(f"{source}-")
        if target != pair and source_lang in (None, source) and target_lang in (None, target):
            pairs.add((source, target))
    if len(pairs) > 1:
        names = ", ".join(sorted("-".join(pair) for pair in pairs))
        raise UserError(f"{data} has several pairs ({names}): add --source-lang and --target-lang")
    if not pairs:
        pair = f"{source_lang or 'SOURCE'}-{target_lang or 'TARGET'}"
        raise UserError(
            f"{data} has no train.{pair}.*.idx: give the folder data-bin of resmlp-mt prepare or "
            "fairseq-preprocess for this direction"
        )
    return pairs.pop()
