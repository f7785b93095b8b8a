"""One training: its command line checked, its process watched, resumed from its last checkpoint."""

import contextlib
import hashlib
import io
import logging
import os
import sys
from argparse import Namespace
from copy import copy
from ctypes.util import find_library
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from fairseq import options as fairseq_options
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset, infer_dataset_impl
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_REGISTRY
from fairseq.models.transformer import DEFAULT_MAX_SOURCE_POSITIONS

from resmlp_mt.autocast import AUTOCAST
from resmlp_mt.model.model import ARCHITECTURES
from resmlp_mt.model_folder import TRAINING, check_dictionaries, check_name, dictionary_digest
from resmlp_mt.patching import logging_as_before
from resmlp_mt.pipeline.train.command import (
    MAX_TOKENS,
    PRECISIONS,
    TrainingOptions,
    TrainingProgress,
    run_command,
    training_command,
)
from resmlp_mt.pipeline.train.recipe import Options, command_line, parse_options
from resmlp_mt.plugin import place_in, register, register_user_dir
from resmlp_mt_runtime.errors import UserError, say
from resmlp_mt_runtime.files import as_written, lock, read_own, write_json
from resmlp_mt_runtime.lines import sha256_of

register()  # our models

# options of fairseq-train that follow from one of ours; fairseq's --amp divides the gradients by
# the loss scale twice, and its --bf16 is for TPUs
_OURS = {name: name for name in ["--arch", "--seed", "--max-update", "--max-tokens"]}
_OURS |= {name: name for name in ["--source-lang", "--target-lang", "--user-dir"]}
_OURS |= dict.fromkeys(["--save-dir", "--restore-file", "--log-file"], "--out")
_OURS |= dict.fromkeys(["--batch-size", "--max-sentences"], "--max-tokens")
_OURS |= {"--update-freq": "--tokens", "--distributed-world-size": "--gpus"}
_OURS |= dict.fromkeys(["--log-format", "--no-last-checkpoints"], "itself")
_OURS |= dict.fromkeys(["--fp16", "--fp16-no-flatten-grads", "--amp", "--bf16"], "--precision")
_STARTS = ("--continue-once", "--finetune-from-model")
# what may change when a training resumes: how far, and what it runs on
_FREE = {"--max-update", "--total-num-update", "--max-tokens", "--update-freq", "--cpu"}
_FREE |= {"--save-dir", "--user-dir"}


@dataclass
class Training:
    """A training in a folder. Bad options are refused when it is made, before the data exist."""

    data: Path  # folder of binary data
    out: Path  # folder for checkpoints, train.log and train.json
    options: TrainingOptions
    source_lang: str | None = None  # None: the data's
    target_lang: str | None = None

    def __post_init__(self):
        check_name(self.data)
        check_name(self.out)
        if self.source_lang and self.target_lang:
            self.languages = self.source_lang, self.target_lang
        else:
            self.languages = find_languages(self.data, self.source_lang, self.target_lang)
        if self.options.user_dir is not None:
            register_user_dir(self.options.user_dir)
        self.arguments = self._arguments()
        gpus = self._find_gpus()
        if not gpus:
            self.arguments["--cpu"] = []
        self.processes = gpus or 1
        self.begun = self._begun()
        self.arguments |= self._share_tokens()
        self.args = self._parse()
        self._build_model()
        self.starts = [Path(start) for name in _STARTS for start in self.arguments.get(name, [])]
        for start in self.starts:
            # fairseq would begin with random weights; to resume it does not read the file
            if not start.is_file() and not self.begun:
                raise UserError(f"{start}: no such file: give a checkpoint to start from")

    def _begun(self) -> dict:
        """What a training here that has a checkpoint was run with last; ``{}`` if there is none."""
        path = self.out / TRAINING
        begun = read_own(path, "settings")  # refuses a file of another program
        if not (begun and (self.out / "checkpoint_last.pt").exists()):
            return {}
        with as_written(path):
            int(begun["settings"]["--max-tokens"][0])  # which is used again
            return {**begun["settings"], **begun["data"]}

    def _arguments(self) -> Options:
        """The recipe's options and the user's, before the GPUs are known."""
        arch, recipe = self.options.arch, self.options.recipe
        model = ARCH_MODEL_NAME_REGISTRY.get(arch)
        if model is None:
            known = f"{', '.join(ARCHITECTURES)}, transformer_small or one of fairseq"
            known += ", or give the --user-dir that registers it"
            raise UserError(f"--arch {arch}: there is no such architecture: choose {known}")
        by_recipe = recipe.options_for(model, "-".join(self.languages), self.options.max_update)
        extra, user_dir = parse_options(self.options.fairseq_options), self.options.user_dir
        for where, options in ((f"recipe {recipe.name}", by_recipe), ("after --", extra)):
            for name in options:
                if name in _OURS:
                    raise UserError(f"{name} {where}: resmlp-mt sets it by {_OURS[name]}")
        return {
            "--arch": [arch],
            "--seed": [str(self.options.seed)],
            "--source-lang": [self.languages[0]],
            "--target-lang": [self.languages[1]],
            "--log-format": ["json"],  # what parse_record reads
            "--update-epoch-batch-itr": ["True"],  # else a resumed training has other batches
            **by_recipe,
            **PRECISIONS[self.options.precision],
            "--max-update": [str(self.options.max_update)],
            "--save-dir": [str(self.out)],
            **({"--user-dir": [str(user_dir)]} if user_dir else {}),
            **extra,
        }

    def _find_gpus(self) -> int:
        """How many GPUs to train on, 0 for the CPU."""
        gpus, there = self.options.gpus, torch.cuda.device_count()
        if self.options.cpu or "--cpu" in self.arguments:
            return 0
        if gpus and gpus > there:
            raise UserError(f"--gpus {gpus}: PyTorch finds {there} here: leave it out to use all")
        return gpus or there

    def _share_tokens(self) -> Options:
        """The tokens per update are the product of these two and the number of GPUs. With the same
        --max-tokens every update sees the same batches, on any number of GPUs."""
        tokens, gpus = self.options.tokens, self.processes
        before = self.begun.get("--max-tokens", [MAX_TOKENS])
        most = min(int(before[0]), max(1, tokens // gpus))
        max_tokens = self.options.max_tokens or most
        update_freq, rest = divmod(tokens, gpus * max_tokens)
        if rest:
            wrong = f"--tokens {tokens} must be a multiple of GPUs x --max-tokens"
            other = "change --gpus or --max-tokens, or --tokens in a new --out"
            raise UserError(f"{wrong} ({gpus} x {max_tokens}): {other}")
        return {"--max-tokens": [str(max_tokens)], "--update-freq": [str(update_freq)]}

    def _parse(self) -> Namespace:
        """The options with the defaults of fairseq-train's parser."""
        words, output = [str(self.data), *command_line(self.arguments)], io.StringIO()
        try:
            with contextlib.redirect_stderr(output):
                parser = fairseq_options.get_training_parser()
                return fairseq_options.parse_args_and_arch(parser, input_args=words)
        except SystemExit as stop:
            if not stop.code:  # after -- --help
                raise
            message = output.getvalue().strip().splitlines()[-1].partition("error: ")[2]
            raise UserError(f"fairseq-train does not accept these options: {message}") from None

    def _build_model(self) -> None:
        """Raise what building our model would raise after hours of preparing text."""
        if ARCH_MODEL_NAME_REGISTRY[self.options.arch] == "resmlp_mt":
            task = SimpleNamespace(source_dictionary=Dictionary(), target_dictionary=Dictionary())
            try:
                # a user's class may read the values that it makes; fairseq-train warns of it
                device = "cpu" if self.options.user_dir else "meta"
                with torch.device(device), logging_as_before(logging.WARNING):
                    MODEL_REGISTRY["resmlp_mt"].build_model(copy(self.args), task)
            except Exception as error:
                folder = self.options.user_dir
                if folder and not isinstance(error, UserError) and (at := place_in(folder, error)):
                    raise UserError(f"{at}{type(error).__name__}: {error}") from None
                kinds = (AssertionError, ArithmeticError, RuntimeError, TypeError, ValueError)
                if not isinstance(error, kinds):
                    raise
                raise UserError(f"--arch {self.options.arch}: {error}") from None

    def check_data(self) -> None:
        """Refuse data that do not fit the options or the checkpoint to start from."""
        find_languages(self.data, *self.languages)
        if self.begun:
            changed = self._changed()
            for name in ("--arch", "--seed", "dictionary"):
                if name in changed:
                    said = f"{self.out} holds a training run with another {name}"
                    raise UserError(f"{said}: choose another --out")
        else:
            for start in self.starts:
                check_dictionaries(start, self.data, self.languages)
        self._check_lengths()

    def _made_of(self) -> dict[str, Any]:
        """What train.json holds: the options, and what tells the dictionaries and the lengths of
        the sentences from others."""
        settings = {**self.arguments, "--tokens": [str(self.options.tokens)]}
        settings["--precision"] = [self.options.precision]
        return {"settings": settings, "data": self._text}

    @cached_property
    def _text(self) -> dict[str, str | None]:
        paths = sorted(self.data.glob(f"train*.{'-'.join(self.languages)}.*.idx"))
        lengths = hashlib.sha256("".join(map(sha256_of, paths)).encode()).hexdigest()[:16]
        return {"dictionary": dictionary_digest(self.data, self.languages), "text": lengths}

    def _changed(self) -> set[str]:
        """What differs from the record of this training; an older record has no text."""
        made_of = self._made_of()
        now = {**made_of["settings"], **made_of["data"]}
        before = {"text": now["text"], **self.begun}
        return {name for name in {**now, **before} if before.get(name) != now.get(name)}

    def _check_lengths(self) -> None:
        """Refuse a --max-tokens below the longest sentence, which fairseq would leave out in
        training and fail on in validation. Sentences beyond the model's positions do not count."""
        most = int(self.arguments["--max-tokens"][0])
        for split in ("train", "valid"):
            prefix = self.data / f"{split}.{'-'.join(self.languages)}"
            paths = [f"{prefix}.{language}" for language in self.languages]
            there = [*map(MMapIndexedDataset.exists, paths)]
            if not all(there):
                if any(there):  # fairseq would take it for text without translations
                    missing = paths[there.index(False)]
                    raise UserError(f"{missing} lacks its .bin or .idx: prepare the data again")
                continue
            if "cached" in map(infer_dataset_impl, paths):  # of another --dataset-impl
                continue
            sides = [MMapIndexedDataset(path) for path in paths]
            if len(sides[0]) != len(sides[1]):
                wrong = f"{prefix} has {len(sides[0])} sources and {len(sides[1])} targets"
                raise UserError(f"{wrong}: prepare the data again")
            sizes = np.array([side.sizes for side in sides])
            options = ("max_source_positions", "max_target_positions")
            limits = [[getattr(self.args, x, 0) or DEFAULT_MAX_SOURCE_POSITIONS] for x in options]
            longest = sizes[:, (sizes <= limits).all(axis=0)].max(initial=0)
            if longest > most:
                least = f"at least {longest}"
                if self.options.tokens < longest * self.processes:
                    least += f" and --tokens at least {longest * self.processes}"
                wrong = f"--max-tokens {most}: a sentence of {split} has {longest} tokens"
                lower = "a lower --max-source-positions and --max-target-positions"
                raise UserError(f"{wrong}: give {least}, or after -- {lower}")

    def command(self) -> list[str]:
        """``fairseq-train ...``, or ``env NAME=VALUE fairseq-train ...`` if it needs variables."""
        variables = [f"{AUTOCAST}=bfloat16"] if self.options.precision == "bf16" else []
        if self.options.threads:
            variables.append(f"OMP_NUM_THREADS={self.options.threads}")
        # Batches of many shapes leave free blocks of many sizes. glibc searches them one by one, a
        # quarter of an update at first, half of it after some thousands; tcmalloc does not.
        on_cpu = "--cpu" in self.arguments and sys.platform == "linux"
        if on_cpu and (library := find_library("tcmalloc_minimal")):
            preloaded = os.environ.get("LD_PRELOAD", "").split()
            variables.append(f"LD_PRELOAD={' '.join([*preloaded, library])}")
        command = training_command(self.data, self.arguments, self.processes)
        return ["env", *variables, *command] if variables else command

    def run(self) -> None:
        """Train, or resume from the last checkpoint, to the end."""
        self.check_data()
        if self.begun:
            if other := ", ".join(sorted(self._changed() - _FREE)):
                wrong = f"{self.out} holds a training run with another {other}"
                say(f"warning: {wrong}: to keep them apart, choose another --out")
            warn_of_other_code(self.out, self.options.user_dir)
        with lock(self.out), TrainingProgress(self.options.max_update) as progress:
            record = self._made_of()
            if self.options.user_dir:
                record["code"] = code_of(self.options.user_dir)

            def follow(line: str) -> None:
                if "Loaded checkpoint" in line:  # until then, the old record describes it
                    write_json(self.out / TRAINING, record)
                progress.show(line)

            if not self.begun:
                write_json(self.out / TRAINING, record)
            run_command(self.command(), self.out / "train.log", follow)


def code_of(folder: Path) -> str:
    """A digest of the Python files of a --user-dir."""
    files = (path for path in sorted(folder.rglob("*.py")) if path.is_file())
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


def warn_of_other_code(out: Path, user_dir: Path | None) -> None:
    """Warn if a training in *out* was run with other code of its --user-dir."""
    code = read_own(out / TRAINING, "settings").get("code") if user_dir else None
    if user_dir and code and code != code_of(user_dir):
        wrong = f"{out} holds a training run with other code of {user_dir}"
        say(f"warning: {wrong}: to train with this one, choose another --out")


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
        remedy = "give the folder data-bin of resmlp-mt prepare or fairseq-preprocess"
        raise UserError(f"{data} has no train.{pair}.*.idx: {remedy} for this direction")
    return pairs.pop()
