"""Trained models that translate subwords, by the loading, collation and search of fairseq.

Any checkpoint that the translation task of fairseq loads will do, ours or another. Several are an
ensemble, which averages probabilities at each word.
"""

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.data.data_utils import batch_by_size, infer_language_pair
from fairseq.dataclass.configs import GenerationConfig
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.translation import TranslationTask
from fairseq.utils import move_to_cuda, resolve_max_positions

from resmlp_mt.checkpoints import read_checkpoint
from resmlp_mt.decoding.length_penalty import DEFAULT as LENPEN
from resmlp_mt.decoding.length_penalty import RANGE, is_length_penalty
from resmlp_mt.decoding.search import NotFinite
from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes.errors_and_noise import explain
from resmlp_mt.files import check_colon
from resmlp_mt.text.dictionaries import check_dictionaries
from resmlp_mt.text.lines import sha256_of
from resmlp_mt.text.settings import FILE, TextSettings

# what may be wrong with a hypothesis
BLANK = "blank source"
TOO_LONG = "source too long"  # for the positions of the model
EMPTY = "empty output"
LIMIT = "length limit"  # the search had to end it
UNKNOWN = "unknown word"
NOT_FINITE = "scores not finite"

Sentence = List[str]  # its subwords


class Hypothesis(NamedTuple):
    """
    Attributes:
        text: detokenized; empty for a source that could not be translated.
        score: log probability divided by length to the power of the length penalty; None where
            nothing was translated.
        wrong: what makes it unfit to learn from, or None.
    """

    text: str
    score: Optional[float]
    wrong: Optional[str]


@dataclass(frozen=True)
class SearchOptions:
    """The models, and how they search. Names and meanings are those of fairseq-generate.

    Attributes:
        paths: one checkpoint, or those of an ensemble.
        data: folder of binary data that the models were trained on, for its dictionaries and, if
            ``resmlp-mt prepare`` made it, for what was decided about its text.
        spm: SentencePiece model in place of that of the data.
        max_len_a, max_len_b: a hypothesis has at most A x source + B subwords; the positions of the
            model limit it too.
        max_tokens: source subwords of a batch, padding included.
        threads: CPU threads of all processes together; the choice of PyTorch by default.
        processes: default: one a GPU, and one on a CPU.
        overrides: model options in place of those in the checkpoints.

    Raises:
        UserError: naming an option with an impossible value.
    """

    paths: Tuple[Path, ...]
    data: Path
    spm: Optional[Path] = None
    beam: int = 4
    lenpen: float = LENPEN
    nbest: int = 1
    max_len_a: float = 0.0
    max_len_b: int = 200
    no_repeat_ngram_size: int = 0
    max_tokens: int = 4096
    fp16: bool = False
    cpu: bool = False
    threads: Optional[int] = None
    processes: Optional[int] = None
    overrides: dict = field(default_factory=dict)

    def __post_init__(self):
        check_colon(self.data)
        for name in ("max_len_a", "no_repeat_ngram_size"):
            if getattr(self, name) < 0:
                option = name.replace("_", "-")
                raise UserError(f"--{option} {getattr(self, name)}: must be at least 0")
        if self.max_len_a > 1000:
            raise UserError(f"--max-len-a {self.max_len_a:g}: must be at most 1000")
        if not is_length_penalty(self.lenpen):
            raise UserError("--lenpen {:g}: must be from {} to {}".format(self.lenpen, *RANGE))
        if self.nbest > self.beam:
            raise UserError(
                f"--nbest {self.nbest}: a search with --beam {self.beam} has no more hypotheses "
                "than that: raise --beam"
            )

    def text_settings(self) -> TextSettings:
        """How the text of the data was made.

        Raises:
            UserError: if nothing says so, or a checkpoint is not there.
        """
        for path in self.paths:
            if not path.is_file():
                raise UserError(f"{path}: no such file: give a checkpoint or a folder of a model")
        if (self.data / FILE).is_file():
            settings = TextSettings.load(self.data)
            return replace(settings, subword_model=self.spm or settings.subword_model)
        if self.spm is None:
            raise UserError(
                f"{self.data} has no {FILE}, which says how its text was made: give the folder of "
                "the binary data with --data, or its SentencePiece model with --spm"
            )
        return TextSettings("", "", False, self.spm)

    def identity(self) -> dict:
        """What the hypotheses depend on, as JSON values; files by their SHA-256.

        Raises:
            UserError: if a file cannot be read.
        """
        settings = self.text_settings()
        dictionaries = sorted(self.data.glob("dict.*.txt"))
        if not dictionaries:
            raise UserError(
                f"{self.data} has no dictionaries such as dict.en.txt: give the folder of the "
                "binary data"
            )
        searched = ("beam", "lenpen", "nbest", "max_len_a", "max_len_b", "no_repeat_ngram_size")
        return {
            "path": [sha256_of(path) for path in self.paths],
            "dictionaries": [sha256_of(path) for path in dictionaries],
            "spm": sha256_of(settings.subword_model),
            "normalise": settings.normalise,
            **{name: getattr(self, name) for name in (*searched, "fp16", "overrides")},
        }

    def devices(self) -> Tuple[int, int]:
        """How many processes to start, and how many GPUs there are for them.

        Raises:
            UserError: if there are too few GPUs.
        """
        gpus = 0 if self.cpu else torch.cuda.device_count()
        processes = self.processes or max(1, gpus)
        if gpus and processes > gpus:
            raise UserError(
                f"--processes {processes}: there are {gpus} GPUs, one a process: lower it, or add "
                "--cpu"
            )
        if self.fp16 and not gpus:
            raise UserError("--fp16: needs a GPU: leave it out")
        return processes, gpus


class Translator:
    """
    Args:
        options: models and search.
        device: where to translate.

    Attributes:
        task: fairseq's, with the dictionaries.
        encode: gives the subwords of a line, separated by spaces.
        positions: subwords of a source sentence that the models take, with its end.

    Raises:
        UserError: if a checkpoint cannot be used, or the files do not fit together.
    """

    def __init__(self, options: SearchOptions, device: torch.device):
        self.options, self.device = options, device
        settings = options.text_settings()
        try:
            self.models, self.task = _load_models(options)
        except Exception as error:
            message = explain(error)
            if message is None:
                raise
            raise UserError(" ".join(message.split())) from None
        settings = settings.reading(self.task.cfg.source_lang)
        _check_subwords(settings, self.task.source_dictionary, options.data)
        self.encode = settings.encode_source
        generation = GenerationConfig(
            beam=options.beam,
            lenpen=options.lenpen,
            max_len_a=options.max_len_a,
            max_len_b=options.max_len_b,
            no_repeat_ngram_size=options.no_repeat_ngram_size,
        )
        for model in self.models:
            model.eval()
            if options.fp16:
                model.half()
            model.to(device)
            model.prepare_for_inference_(SimpleNamespace(generation=generation))
        self.generator = self.task.build_generator(self.models, generation)
        limits = resolve_max_positions(
            self.task.max_positions(), *(model.max_positions() for model in self.models)
        )
        self.positions = int(limits[0])

    def search(self, batch: Sequence[Sentence]) -> List[List[dict]]:
        """The hypotheses of fairseq for each sentence, the best first.

        Raises:
            UserError: if the batch does not fit into the memory of a GPU.
        """
        dictionary = self.task.source_dictionary
        tokens = [
            dictionary.encode_line(pieces, list, add_if_not_exist=False).long() for pieces in batch
        ]
        dataset = self.task.build_dataset_for_inference(tokens, [len(words) for words in tokens])
        sample = dataset.collater([dataset[number] for number in range(len(dataset))])
        if self.device.type == "cuda":
            sample = move_to_cuda(sample, self.device)
        try:
            found = self.task.inference_step(self.generator, self.models, sample)
        except torch.OutOfMemoryError:
            raise UserError(
                f"{self.device}: out of memory with --max-tokens {self.options.max_tokens}: "
                "lower it"
            ) from None
        in_order = dict(zip(sample["id"].tolist(), found, strict=True))
        return [in_order[number] for number in range(len(batch))]

    def nbest(self, batch: Sequence[Sentence]) -> List[List[Hypothesis]]:
        """At least one hypothesis for each sentence and at most ``nbest``, the best first.

        A sentence whose scores are not finite has one that says so, and does not touch the others.
        """
        searched = range(len(batch))
        try:
            found = self.search(batch)
        except (NotFinite, AssertionError) as error:
            # the search of fairseq names no sentence: it asserts that all have a hypothesis
            named = isinstance(error, NotFinite)
            lost = set(error.sentences if named else self._unfinished(batch))
            searched = [i for i in range(len(batch)) if i not in lost]
            of_rest = self.search([batch[i] for i in searched]) if searched else []
            by_number = dict(zip(searched, of_rest))
            found = [by_number.get(i, []) for i in range(len(batch))]
        # the longest of those that were searched together; the end of sentence counts
        longest = max((len(batch[i]) for i in searched), default=0) + 1
        limit = int(self.options.max_len_a * longest + self.options.max_len_b)
        limit = min(limit, self.generator.max_len - 1)
        return [
            [self._read(one, limit) for one in hypotheses[: self.options.nbest]]
            or [Hypothesis("", None, NOT_FINITE)]
            for hypotheses in found
        ]

    def _unfinished(self, batch: Sequence[Sentence]) -> List[int]:
        """Those for which the search of fairseq ends without a hypothesis."""
        unfinished = []
        for number, sentence in enumerate(batch):
            try:
                self.search([sentence])
            except AssertionError:
                unfinished.append(number)
        return unfinished

    def _read(self, found: dict, limit: int) -> Hypothesis:
        score, tokens = found["score"].item(), found["tokens"]
        if not math.isfinite(score):
            return Hypothesis("", None, NOT_FINITE)
        text = self.task.target_dictionary.string(
            tokens.int().cpu(),
            "sentencepiece",
            extra_symbols_to_ignore=self.generator.symbols_to_strip_from_output,
        )
        if not text.strip():
            wrong = EMPTY
        elif len(tokens) - 1 >= limit:
            wrong = LIMIT
        elif self.task.target_dictionary.unk() in tokens:
            wrong = UNKNOWN
        else:
            wrong = None
        return Hypothesis(text, round(score, 4), wrong)


def by_length(items: Sequence[int], lengths: Sequence[int], max_tokens: int) -> List[List[int]]:
    """Cut into batches of similar length, the longest first, so that a lack of memory shows at
    once.

    Args:
        items: indices into *lengths*.
        lengths: tokens of each sentence.
        max_tokens: of a batch, padding included; raised to the longest item.
    """
    if not items:
        return []
    order = np.array(sorted(items, key=lambda i: -lengths[i]), dtype=np.int64)
    sizes = np.array(lengths, dtype=np.int64)
    batches = batch_by_size(
        order,
        num_tokens_fn=sizes.__getitem__,
        num_tokens_vec=sizes[order],
        max_tokens=max(max_tokens, int(sizes[order[0]])),
        required_batch_size_multiple=8,
    )
    return [[int(i) for i in batch] for batch in batches]


def _load_models(options: SearchOptions) -> Tuple[list, TranslationTask]:
    models, task = [], None
    for path in map(str, options.paths):
        overrides = {**options.overrides, "data": str(options.data)}
        state = checkpoint_utils.load_checkpoint_to_cpu(path, overrides)
        of_task = _task_options(state)
        name = of_task.get("_name") or of_task.get("task")
        if not issubclass(TASK_REGISTRY.get(str(name), object), TranslationTask):
            raise UserError(f"{path} is not of a translation model: its task is {name}")
        languages = (of_task.get("source_lang"), of_task.get("target_lang"))
        if None in languages:  # it was trained without options for them
            languages = _languages_of(options)
            of_task["source_lang"], of_task["target_lang"] = languages
        check_dictionaries(Path(path), options.data, languages)
        (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
            [path], overrides, task, state=state
        )
        first = (task.cfg.source_lang, task.cfg.target_lang)
        if languages != first:
            raise UserError(
                f"{path} translates {'-'.join(languages)}, but {options.paths[0]} "
                f"{'-'.join(first)}: an ensemble needs models of one language pair"
            )
        models.append(model)
    if options.overrides:
        _check_overrides(options, models)
    return models, task


def _check_overrides(options: SearchOptions, models: list) -> None:
    """fairseq ignores an override that no model of the ensemble knows."""
    known = set()
    for path, model in zip(options.paths, models):
        state = read_checkpoint(path, mapped=True)
        sections = dict(state.get("cfg") or {})
        for section in [state.get("args"), sections, *sections.values()]:
            mapping = isinstance(section, Mapping)
            known.update(section if mapping else getattr(section, "__dict__", ()))
        parser = argparse.ArgumentParser(add_help=False)  # options newer than the checkpoint
        type(model).add_args(parser)
        known.update(action.dest for action in parser._actions)
    for name in options.overrides:
        if name not in known:
            paths = ":".join(map(str, options.paths))
            raise UserError(f"--model-overrides {name}: no such option in {paths}: check its name")


def _languages_of(options: SearchOptions) -> Tuple[str, str]:
    settings = options.text_settings()
    if settings.source_lang:
        return settings.source_lang, settings.target_lang
    source, target = infer_language_pair(str(options.data))
    if source is None:
        raise UserError(
            f"{options.data} has no files such as train.en-de.en.idx, which say the languages: "
            "give the folder of the binary data"
        )
    return source, target


def source_language(state: dict) -> Optional[str]:
    """What a checkpoint translates from, if it says so."""
    return _task_options(state).get("source_lang")


def _task_options(state: dict):
    """Those in a checkpoint, to read and to change; none if something else is in their place."""
    try:
        # older checkpoints have all options in one namespace
        options = state["cfg"]["task"] if state.get("args") is None else vars(state["args"])
        return options if isinstance(options, Mapping) else {}
    except (KeyError, TypeError):
        return {}


def _check_subwords(settings: TextSettings, dictionary, data: Path) -> None:
    processor = settings.subwords.processor
    pieces = set(processor.id_to_piece(list(range(processor.get_piece_size()))))
    types = [t for t in dictionary.symbols[dictionary.nspecial :] if "madeupword" not in t]
    known = sum(t in pieces for t in types)
    # a few characters may be types that are no pieces, those that the model has no piece for
    if 2 * known < len(types):
        raise UserError(
            f"{settings.subword_model} knows {known} of the {len(types)} subwords in the "
            f"dictionary of {data}: give the SentencePiece model that the data was made with"
        )
