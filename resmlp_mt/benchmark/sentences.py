"""The sentences to measure with: drawn at random, or those of a folder of binary data."""

import warnings
from itertools import islice
from typing import List, Optional

import torch
from fairseq.data import data_utils
from fairseq.data.language_pair_dataset import collate
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.utils import move_to_cuda
from torch import Tensor

from resmlp_mt.checkpoints.rebuilding import synthetic_dictionary
from resmlp_mt.errors import UserError


def build_task(args, positions: int) -> TranslationTask:
    """The translation task of fairseq over ``args.data``, or ``args.vocabulary`` made-up words.

    Raises:
        UserError: if the folder holds no binary data.
    """
    cfg = TranslationConfig(
        data=args.data or "",
        source_lang="source",
        target_lang="target",
        max_source_positions=positions,
        max_target_positions=positions,
        # these three would come from other groups of options
        train_subset="train",
        dataset_impl=None,
        required_seq_len_multiple=1,
    )
    if args.data is None:
        dictionary = synthetic_dictionary(args.vocabulary)
        return TranslationTask(cfg, dictionary, dictionary)
    cfg.source_lang, cfg.target_lang = data_utils.infer_language_pair(args.data)
    if cfg.source_lang is None:
        raise UserError(f"{args.data}: no binary data in it: make it with resmlp-mt prepare")
    return TranslationTask.setup_task(cfg)


class Sentences:
    """
    Args:
        task: see :func:`build_task`.
        args: with ``data``, ``split``, ``seed``, ``device``.
    """

    def __init__(self, task: TranslationTask, args):
        self.task, self.args = task, args
        if args.data is not None:
            task.load_dataset(args.split)
            self.data = task.dataset(args.split)

    def source_batch(self, count: int, words: int) -> dict:
        """A batch to translate: *words* random words a sentence, or sentences of the data.

        Raises:
            UserError: if the data hold fewer sentences.
        """
        if self.args.data is None:
            return self._collate(self._random(count, words))
        return self._collate(self._own(count))

    def training_batch(self, tokens: int, source: int, target: int) -> dict:
        """A batch to train on.

        Args:
            tokens: target tokens of the whole batch, ends of sentence included. The data's own are
                counted as ``--max-tokens`` of fairseq counts them.
            source, target: words a sentence, where they are random.

        Raises:
            UserError: if the data hold no batch of that size.
        """
        if self.args.data is not None:
            return self._own_batch(tokens)
        count = max(1, tokens // (target + 1))
        return self._collate(self._random(count, source), self._random(count, target, side=1))

    def _collate(self, sources: List[Tensor], targets: Optional[List[Tensor]] = None) -> dict:
        rows = [{"id": number, "source": source} for number, source in enumerate(sources)]
        for row, target in zip(rows, targets or []):
            row["target"] = target
        dictionary = self.task.source_dictionary
        return self._moved(collate(rows, dictionary.pad(), dictionary.eos()))

    def _moved(self, batch: dict) -> dict:
        return move_to_cuda(batch) if self.args.device == "cuda" else batch

    def _random(self, count: int, words: int, side: int = 0) -> List[Tensor]:
        dictionary = self.task.source_dictionary
        generator = torch.Generator().manual_seed(self.args.seed + side)
        low, high = dictionary.nspecial, len(dictionary)
        text = torch.randint(low, high, (count, words), generator=generator)
        end = torch.tensor([dictionary.eos()])
        return [torch.cat([sentence, end]) for sentence in text]

    def _own(self, count: int) -> List[Tensor]:
        limit = self.task.cfg.max_source_positions
        generator = torch.Generator().manual_seed(self.args.seed)
        order = torch.randperm(len(self.data), generator=generator).tolist()
        fitting = (self.data.src[number] for number in order)
        chosen = list(islice((text for text in fitting if len(text) <= limit), count))
        if len(chosen) < count:
            raise UserError(
                f"--sentences {count}: {self.args.data} has {len(chosen)} in {self.args.split} "
                f"that fit in {limit} positions"
            )
        return chosen

    def _own_batch(self, tokens: int) -> dict:
        batches = self.task.get_batch_iterator(
            self.data,
            max_tokens=tokens,
            max_positions=self.task.max_positions(),
            ignore_invalid_inputs=True,
            seed=self.args.seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the loader, that there is no GPU
            batch = next(batches.next_epoch_itr(), None)
        if not batch:
            raise UserError(f"{self.args.data}: no batch of {tokens} tokens in {self.args.split}")
        return self._moved(batch)
