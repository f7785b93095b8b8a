"""One training from its command line to the process that does it."""

import contextlib
import io
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import List, Optional

import torch
from fairseq import options as fairseq_options

from resmlp_mt.errors import UserError
from resmlp_mt.prepare.recipes import find_pair
from resmlp_mt.train.command import (
    Devices,
    quoted,
    share_tokens,
    training_command,
)
from resmlp_mt.train.folder import TrainingFolder, check_data
from resmlp_mt.train.recipe import (
    TOKENS_PER_UPDATE,
    UPDATES,
    Options,
    parse_options,
    recipe,
)

# options of fairseq's that this command sets itself, with what to write instead
_OURS = {
    **dict.fromkeys(("--max-tokens", "--update-freq"), "--max-tokens and --tokens before --"),
    **dict.fromkeys(("--batch-size", "--max-sentences"), "--max-tokens before --"),
    **dict.fromkeys(("--distributed-world-size", "--distributed-rank"), "--gpus and --nodes"),
    **dict.fromkeys(("--fp16", "--fp16-no-flatten-grads"), "--precision"),
    **dict.fromkeys(("--source-lang", "--target-lang"), "the pair"),
    **dict.fromkeys(("--save-dir", "--restore-file"), "--out"),
    "--arch": "--arch before --",
    "--max-update": "--updates",
    "--seed": "--seed before --",
    "--user-dir": "nothing: it is this package",
    "--amp": "--precision: fairseq's --amp divides the gradients by the loss scale twice, so that "
    "Adagrad learns ever less as the scale grows",
    "--bf16": "--precision: fairseq's --bf16 is for TPUs only",
}
_TF32 = {"RESMLP_MT_MATMUL_PRECISION": "high"}


@dataclass
class Training:
    """
    Attributes:
        pair: ``en-de`` or ``en-fr``.
        arch, precision: see :func:`resmlp_mt.train.recipe.recipe`.
        data: folder of binary data.
        out: folder for checkpoints.
        devices: GPUs and nodes.
        node: number of this node.
        tokens: of an update.
        max_tokens: of a batch on one GPU; None: what the run was begun with, or the default.
        updates: length of the training.
        seed: of the first weights, the order of the batches and the dropout.
        extra: further options of ``fairseq-train``, which count before the recipe's.
    """

    pair: str
    arch: str
    data: Path
    out: Path
    devices: Devices
    node: int = 0
    precision: str = "fp32"
    tokens: int = TOKENS_PER_UPDATE
    max_tokens: Optional[int] = None
    updates: int = UPDATES
    seed: int = 1
    extra: List[str] = field(default_factory=list)

    def __post_init__(self):
        """
        Raises:
            UserError: for options that do not go together, data that is not there, or another run
                in the folder.
        """
        pair = find_pair(self.pair)
        extra = parse_options(self.extra)
        for name in extra:
            if name in _OURS:
                raise UserError(f"{name} after --: write {_OURS[name]}")
        self.options: Options = {
            **recipe(pair, self.arch, self.precision),
            **{"--seed": [str(self.seed)], "--max-update": [str(self.updates)]},
            "--save-dir": [str(self.out)],
            **extra,
        }
        if not 0 <= self.node < self.devices.nodes:
            raise UserError(
                f"--node-rank {self.node}: with --nodes {self.devices.nodes} they are numbered "
                f"from 0 to {self.devices.nodes - 1}"
            )
        self.folder = TrainingFolder(self.out)
        begun = self.folder.begun
        if self.max_tokens is None and begun is not None:
            self.max_tokens = int(begun["settings"]["--max-tokens"][0])
        positions = [self.options[f"--max-{side}-positions"] for side in ("source", "target")]
        longest = max(int(words[0]) for words in positions if words and words[0].isdigit())
        self.share = share_tokens(self.tokens, self.devices, self.max_tokens, longest)
        self.data_facts = check_data(self.data, pair)
        self._check_options()
        self.folder.check(self._settings, self.data_facts)

    @property
    def _settings(self) -> dict:
        return {
            **self.options,
            "--tokens": [str(self.tokens)],
            "--max-tokens": [str(self.share.max_tokens)],
            "--precision": [self.precision],
        }

    @property
    def environment(self) -> dict:
        """Variables that the command needs beside those that are set."""
        return _TF32 if self.precision == "tf32" else {}

    def command(self, node: int) -> List[str]:
        """The words to run on a node."""
        return training_command(self.data, self.options, self.share, self.devices, node)

    def _check_options(self) -> None:
        """Have fairseq-train's own parser read the command line, before anything is written."""
        words = self.command(0)
        words = words[words.index(str(self.data)) :]
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                parser = fairseq_options.get_training_parser()
                fairseq_options.parse_args_and_arch(parser, input_args=words)
        except SystemExit:
            message = said.getvalue().strip().splitlines()[-1].partition("error: ")[2]
            raise UserError(f"fairseq-train does not take these options: {message}") from None

    def describe(self) -> str:
        """The command of every node, with comments, to be pasted into a shell."""
        devices, share = self.devices, self.share
        lines = [
            f"# {self.updates:,} updates of {self.tokens:,} tokens: batches of "
            f"{share.max_tokens:,} x {share.update_freq} an update x {devices.processes} GPU"
            f"{'s' * (devices.processes > 1)}"
        ]
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        prefix = f"env {' '.join(variables)} " if variables else ""
        if devices.nodes > 1 and devices.master_addr is None:
            lines.append("# MASTER_ADDR is the host name of the first node")
        for node in range(devices.nodes):
            if devices.nodes > 1:
                lines.append(f"# node {node}")
            lines.append(prefix + quoted(self.command(node)))
        return "\n".join(lines)

    def run(self) -> None:
        """Become the training process: this call does not return.

        Raises:
            UserError: if the GPUs are not there, or the folder's checkpoints cannot be gone on
                from.
        """
        cpu, gpus = "--cpu" in self.options, self.devices.gpus
        if cpu and self.devices.processes > 1:
            raise UserError("--cpu after --: trains in one process: add --gpus 1")
        if not cpu and torch.cuda.device_count() < gpus:
            raise UserError(
                f"--gpus {gpus}: this machine has {torch.cuda.device_count()} that PyTorch can "
                "use: take what there is, or try it on a CPU with -- --cpu"
            )
        if self.devices.nodes > 1 and self.devices.master_addr is None:
            raise UserError("--nodes: give --master-addr, the host name of the first node")
        if self.node == 0:
            note = self.folder.mend(self.devices.processes)
            if note:
                print(f"{self.out}: {note}", flush=True)
            self.folder.begin(self._settings, self.data_facts, self.devices.processes)
        command = self.command(self.node)
        print(quoted(command), flush=True)
        sys.stderr.flush()
        os.execve(command[0], command, {**os.environ, **self.environment})
