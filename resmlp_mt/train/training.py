"""One training: its command line checked, its process watched, resumed from its last checkpoint."""

import contextlib
import io
import os
import tempfile
from argparse import Namespace
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Dict, List, Optional

import torch
from fairseq import options as fairseq_options
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_REGISTRY

from resmlp_mt import fairseq_fixes
from resmlp_mt.errors import UserError
from resmlp_mt.files import check_colon, lock, make_folder
from resmlp_mt.text.dictionaries import check_dictionaries
from resmlp_mt.train.command import (
    PRECISIONS,
    Devices,
    share_tokens,
    training_command,
)
from resmlp_mt.train.data import check_data, find_languages
from resmlp_mt.train.folder import TrainingFolder
from resmlp_mt.train.log import TrainingBar
from resmlp_mt.train.programs import VARIABLES, cost_added_to, quoted, run_command
from resmlp_mt.train.recipe import Options, Recipe, parse_options

fairseq_fixes.apply()  # our models are registered

# bytes of a name of a folder, to which workers of PyTorch add 32. A socket has at most 107
LONGEST = 75

# options of fairseq-train that have another way in, and what to write there
_OURS = {
    **dict.fromkeys(("--max-tokens", "--update-freq"), "--max-tokens and --tokens before --"),
    **dict.fromkeys(("--batch-size", "--max-sentences"), "--max-tokens before --"),
    **dict.fromkeys(("--distributed-world-size", "--distributed-rank"), "--gpus and --nodes"),
    **dict.fromkeys(("--fp16", "--fp16-no-flatten-grads"), "--precision"),
    **dict.fromkeys(("--source-lang", "--target-lang"), "them before --"),
    **dict.fromkeys(("--save-dir", "--restore-file"), "--out"),
    "--arch": "--arch before --",
    "--max-update": "--max-update before --",
    "--seed": "--seed before --",
    "--user-dir": "nothing: it is this package",
    "--amp": "--precision: with --amp fairseq divides the gradients by the loss scale twice, so "
    "that Adagrad learns ever less as the scale grows",
    "--bf16": "--precision: --bf16 of fairseq is for TPUs only",
}


def parse_training_options(words: List[str], failure: str) -> Namespace:
    """What ``fairseq-train`` makes of its command line.

    Args:
        words: the command line.
        failure: the beginning of the message if it makes nothing of them.

    Raises:
        UserError: with the last line of what fairseq said.
    """
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            parser = fairseq_options.get_training_parser()
            return fairseq_options.parse_args_and_arch(parser, input_args=words)
    except SystemExit as done:
        if done.code != 2:  # --help, SIGTERM
            raise
        message = errors.getvalue().strip().splitlines()[-1].partition("error: ")[2]
        raise UserError(f"{failure}: {message}") from None


@dataclass
class Training:
    """A training in a folder.

    Attributes:
        data: folder of binary data, of any language pair.
        out: folder for checkpoints, ``train.log``, ``train.json`` (what it was begun with) and
            ``cost.json``.
        arch: an architecture of fairseq or ours.
        recipe: what to train with.
        max_update: length of the training. None takes that of the recipe.
        devices: GPUs and nodes.
        precision: one of :data:`~resmlp_mt.train.command.PRECISIONS`.
        tokens: of an update on all GPUs together. None takes those of the recipe.
        max_tokens: of a batch on one GPU. None takes what the run was begun with, or the default of
            :func:`~resmlp_mt.train.command.share_tokens`.
        seed: of the first weights, the order of the batches and the dropout.
        threads: CPU threads. None takes the default of PyTorch.
        source_lang, target_lang: needed where *data* has several pairs, or if it is *planned*.
        fairseq_options: further words for ``fairseq-train``, which override the recipe.
        planned: *data* is not there yet; the training is only checked and described.

    Raises:
        UserError: for options that do not go together, data that is not there, or another run in
            the folder. Nothing is written before.
    """

    data: Path
    out: Path
    arch: str
    recipe: Recipe
    max_update: Optional[int] = None
    devices: Devices = Devices()
    precision: str = "fp32"
    tokens: Optional[int] = None
    max_tokens: Optional[int] = None
    seed: int = 1
    threads: Optional[int] = None
    source_lang: Optional[str] = None
    target_lang: Optional[str] = None
    fairseq_options: List[str] = field(default_factory=list)
    planned: bool = False

    def __post_init__(self):
        self.data, self.out = Path(self.data), Path(self.out)
        check_colon(self.data)
        self.folder = TrainingFolder(self.out)
        self.max_update = self.max_update or self.recipe.max_update
        self.tokens = self.tokens or self.recipe.tokens
        if not self.planned:
            languages = find_languages(self.data, self.source_lang, self.target_lang)
            self.source_lang, self.target_lang = languages
        self.options = self._options()
        self._find_devices()
        begun = self.folder.begun
        for start in self.options.get("--continue-once", []) if begun is None else []:
            if not Path(start).is_file():  # fairseq would begin with random weights
                raise UserError(f"--continue-once {start}: no such file: give a checkpoint")
        if not self.planned and begun is None:
            for name in ("--continue-once", "--finetune-from-model"):
                for start in self.options.get(name, []):
                    check_dictionaries(Path(start), self.data, languages)
        if self.max_tokens is None and begun is not None:
            self.max_tokens = int(begun["settings"]["--max-tokens"][0])
        positions = [self.options.get(f"--max-{side}-positions") for side in ("source", "target")]
        # what is no number is refused below, by the parser of fairseq
        longest = max(int(w[0]) if w and w[0].isdecimal() else 1 for w in positions)
        self.share = share_tokens(self.tokens, self.devices, self.max_tokens, longest)
        self._parse()
        if not self.planned:
            shared = "--share-all-embeddings" in self.options
            validated = "--disable-validation" not in self.options
            self.data_facts = check_data(self.data, languages, shared, validated)
            self.folder.check(self._settings, self.data_facts)

    def _options(self) -> Options:
        """Those of the recipe and the user, without what depends on the devices."""
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
                    raise UserError(f"{name} {where}: write {_OURS[name]}")
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
        """Let the parser of fairseq-train read the command line, before anything is written."""
        words = self.command()
        words = words[words.index("--user-dir") - 1 :]  # DATA stands before it
        args = parse_training_options(words, "fairseq-train does not take these options")
        if self.planned and ARCH_MODEL_NAME_REGISTRY[self.arch] == "resmlp_mt":
            self._build(args)

    def _build(self, args: Namespace) -> None:
        """The model without a vocabulary, before hours of preparing the text."""
        task = SimpleNamespace(source_dictionary=Dictionary(), target_dictionary=Dictionary())
        try:
            MODEL_REGISTRY["resmlp_mt"].build_model(args, task)
        except UserError:
            raise
        except (AssertionError, ValueError) as error:
            raise UserError(f"--arch {self.arch}: {error}") from None

    @property
    def _settings(self) -> dict:
        return {
            **self.options,
            "--tokens": [str(self.tokens)],
            "--max-tokens": [str(self.share.max_tokens)],
            "--precision": [self.precision],
        }

    @property
    def environment(self) -> Dict[str, str]:
        """Variables that the command needs beside those that are set."""
        variables = dict(VARIABLES.get(self.precision, {}))
        if self.threads:
            variables["OMP_NUM_THREADS"] = str(self.threads)
        return variables

    def command(self, node: Optional[int] = None) -> List[str]:
        """The words to run on a node. Default: this one."""
        node = self.devices.node_rank if node is None else node
        return training_command(self.data, self.options, self.share, self.devices, node)

    def describe(self) -> str:
        """The command of every node, with comments, to be pasted into a shell."""
        devices, share = self.devices, self.share
        lines = [
            f"# {self.max_update:,} updates of {self.tokens:,} tokens: batches of "
            f"{share.max_tokens:,} x {share.update_freq} an update x {devices}"
        ]
        if devices.nodes > 1 and devices.master_addr is None:
            lines.append("# MASTER_ADDR is the host name of the first node")
        for node in range(devices.nodes):
            if devices.nodes > 1:
                lines.append(f"# node {node}")
            lines.append(quoted(self.command(node), self.environment))
        return "\n".join(lines)

    def run(self) -> None:
        """Train, or resume from the last checkpoint, and wait for the end.

        Raises:
            UserError: if the GPUs are not there, another process works in the folder, its
                checkpoints cannot be resumed from, or fairseq-train fails.
        """
        self.check_machine()
        make_folder(self.out)
        if self.devices.node_rank > 0:  # the first node has the folder
            log = self.out / f"train.node-{self.devices.node_rank}.log"
            run_command("fairseq-train", self.command(), log, environment=self.environment)
            return
        with lock(self.out):
            notes = self.folder.mend(self.devices.processes)
            warm_up = int(self.options.get("--warmup-updates", ["0"])[0])
            if warm_up >= self.max_update:
                notes.append(
                    f"the warm-up ({warm_up} updates) does not end before the training "
                    f"({self.max_update} updates): shorten it with -- --warmup-updates N"
                )
            for note in notes:
                print(f"{self.out}: {note}", flush=True)
            self.folder.begin(self._settings, self.data_facts)
            with cost_added_to(self.out / "cost.json"), TrainingBar(self.max_update) as bar:
                log = self.out / "train.log"
                run_command("fairseq-train", self.command(), log, bar.show, self.environment)

    def check_machine(self) -> None:
        """
        Raises:
            UserError: if it has fewer GPUs than are asked for, no address of the first node, or a
                folder of temporary files whose name is too long.
        """
        gpus, here = self.devices.gpus, torch.cuda.device_count()
        if "--cpu" not in self.options and here < gpus:
            raise UserError(
                f"--gpus {gpus}: this machine has {here} that PyTorch can use: leave out --gpus to "
                "take what there is"
            )
        if self.devices.nodes > 1 and self.devices.master_addr is None:
            raise UserError("--nodes: give --master-addr, the host name of the first node")
        temporary = tempfile.gettempdir()
        workers = self.options.get("--num-workers") != ["0"]
        if workers and len(os.fsencode(temporary)) > LONGEST:
            raise UserError(
                f"TMPDIR {temporary}: has more than {LONGEST} bytes, too many for the sockets of "
                "PyTorch: set TMPDIR to a shorter path"
            )
