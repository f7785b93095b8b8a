"""One training: its command line checked, its process watched, resumed from its last checkpoint."""

import contextlib
import io
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import torch
from fairseq import options as fairseq_options
from fairseq.data import Dictionary
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

# our own options set these; fairseq's --amp divides the gradients by the loss scale twice, and its
# --bf16 is for TPUs: --precision takes their place
_OURS = {
    *("--arch", "--seed", "--user-dir", "--save-dir", "--restore-file", "--max-update"),
    *("--source-lang", "--target-lang", "--max-tokens", "--update-freq", "--batch-size"),
    *("--max-sentences", "--distributed-world-size", "--distributed-rank"),
    *("--fp16", "--fp16-no-flatten-grads", "--amp", "--bf16"),
}


@dataclass
class Training:
    """A training in a folder. Bad options are refused before anything is written."""

    data: Path  # folder of binary data
    out: Path  # folder for checkpoints, train.log, train.json and cost.json
    arch: str
    recipe: Recipe
    max_update: int | None = None  # None: the recipe's
    devices: Devices = Devices()
    precision: str = "fp32"
    tokens: int | None = None  # of an update; None: the recipe's
    max_tokens: int | None = None  # of a batch; None: as the training was begun
    seed: int = 1
    threads: int | None = None
    source_lang: str | None = None
    target_lang: str | None = None
    fairseq_options: list[str] = field(default_factory=list)  # override the recipe
    planned: bool = False  # the data is not there yet: only check the options

    def __post_init__(self):
        self.data, self.out = Path(self.data), Path(self.out)
        self.max_update = self.max_update or self.recipe.max_update
        self.tokens = self.tokens or self.recipe.tokens
        if not self.planned:
            languages = find_languages(self.data, self.source_lang, self.target_lang)
            self.source_lang, self.target_lang = languages
        self.options = self._options()
        self._find_devices()
        begun = {}
        if (self.out / "checkpoint_last.pt").exists():
            begun = read_own(self.out / TRAINING, "settings")
        if not self.planned:
            self.dictionary = dictionary_digest(self.data, languages)
            self._check_start(languages, begun)
        if self.max_tokens is None and begun:
            self.max_tokens = int(begun["settings"]["--max-tokens"][0])
        share = share_tokens(self.tokens, self.devices, self.max_tokens)
        for name, value in zip(("--max-tokens", "--update-freq"), share):
            self.options[name] = [str(value)]
        self._parse()
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
        pair = f"{self.source_lang}-{self.target_lang}"
        recipe = self.recipe.options_for(model, pair, self.max_update)
        extra = parse_options(self.fairseq_options)
        for where, options in ((f"recipe {self.recipe.name}", recipe), ("after --", extra)):
            for name in options:
                if name in _OURS:
                    raise UserError(f"{name} {where}: our own options set it: see train --help")
        return {
            "--arch": [self.arch],
            "--seed": [str(self.seed)],
            "--source-lang": [self.source_lang],
            "--target-lang": [self.target_lang],
            **recipe,
            **PRECISIONS[self.precision],
            "--max-update": [str(self.max_update)],
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
            here = 0 if "--cpu" in self.options else torch.cuda.device_count()
            if here == 0:
                self.options["--cpu"] = []
            self.devices = replace(self.devices, gpus=max(1, here))
        if "--cpu" in self.options and self.devices.processes > 1:
            raise UserError("on a CPU training takes one process: leave out --gpus and --nodes")
        if "--cpu" in self.options and self.precision == "fp16":
            raise UserError("--precision fp16: training in 16 bits needs a GPU")

    def _parse(self) -> None:
        """Let fairseq-train's parser read the options. For a plan, build the model too, without
        words, before hours of preparing text."""
        words, said = [str(self.data), *command_line(self.options)], io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                parser = fairseq_options.get_training_parser()
                args = fairseq_options.parse_args_and_arch(parser, input_args=words)
        except SystemExit:
            message = said.getvalue().strip().splitlines()[-1].partition("error: ")[2]
            raise UserError(f"fairseq-train does not take these options: {message}") from None
        if self.planned and ARCH_MODEL_NAME_REGISTRY[self.arch] == "resmlp_mt":
            task = SimpleNamespace(source_dictionary=Dictionary(), target_dictionary=Dictionary())
            try:
                MODEL_REGISTRY["resmlp_mt"].build_model(args, task)
            except (AssertionError, ValueError) as error:
                raise UserError(f"--arch {self.arch}: {error}") from None

    def _check_start(self, languages: tuple[str, str], begun: dict) -> None:
        """Refuse a checkpoint of another architecture or dictionary, here or as a start."""
        if begun:
            other = "--arch" if begun["settings"]["--arch"] != [self.arch] else None
            if begun["data"]["dictionary"] != self.dictionary:
                other = other or "dictionary"
            if other:
                raise UserError(
                    f"{self.out} holds a training with another {other}: choose another folder for "
                    "--out"
                )
            return
        for name in ("--continue-once", "--finetune-from-model"):
            for start in map(Path, self.options.get(name, [])):
                if not start.is_file():  # fairseq would begin with random weights
                    raise UserError(f"{name} {start}: no such file: give a checkpoint")
                check_dictionaries(start, self.data, languages)

    def command(self) -> list[str]:
        """What to run on this node."""
        return training_command(self.data, self.options, self.devices)

    def environment(self) -> dict[str, str]:
        """The variables that the command needs."""
        variables = {AUTOCAST: "bfloat16"} if self.precision == "bf16" else {}
        return {**variables, "OMP_NUM_THREADS": str(self.threads)} if self.threads else variables

    def run(self) -> None:
        """Train, or resume from the last checkpoint, to the end."""
        make_folder(self.out)
        words, environment = self.command(), self.environment()
        if self.devices.node_rank > 0:  # the first node locks the folder
            log = self.out / f"train.node-{self.devices.node_rank}.log"
            run_command("fairseq-train", words, log, environment=environment)
            return
        with lock(self.out), TrainingProgress(self.max_update) as progress:
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
