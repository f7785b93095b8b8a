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

from resmlp_mt.checkpoints.dictionaries import synthetic_dictionary
from resmlp_mt.errors import UserError


def build_task(args, positions: int) -> TranslationTask:
    """fairseq's translation task over ``args.data``, or over ``args.vocabulary`` made-up words.

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
        raise UserError(f"{args.data}: no binary data in it: make it with fairseq-preprocess")
    return TranslationTask.setup_task(cfg)


class Sentences:
    """
    Args:
        task: see :func:`build_task`.
        args: with ``data``, ``split``, ``seed``, ``device``.
    """

    def __init__(self, task: TranslationTask, args):
        self.task, self.args = task, args
        self.dictionaries = {"source": task.source_dictionary, "target": task.target_dictionary}
        if args.data is not None:
            task.load_dataset(args.split)
            self.data = task.dataset(args.split)

    def source_batch(self, count: int, words: Optional[int]) -> dict:
        """A batch to translate; *words* a sentence, None for the data's own sentences.

        Raises:
            UserError: if the data hold fewer sentences.
        """
        if words is None:
            return self._collate(self._own(count))
        return self._collate(self._pieces("source", count, words))

    def training_batch(self, tokens: int, source: Optional[int], target: Optional[int]) -> dict:
        """A batch to train on.

        Args:
            tokens: target tokens of the whole batch, ends of sentence included; of the data's own,
                as fairseq's ``--max-tokens`` counts them.
            source, target: words a sentence; None for a batch of the data's own.
        """
        if target is None:
            return self._own_batch(tokens)
        count = max(1, tokens // (target + 1))
        pieces = self._pieces("source", count, source), self._pieces("target", count, target)
        return self._collate(*pieces)

    def _collate(self, sources: List[Tensor], targets: Optional[List[Tensor]] = None) -> dict:
        rows = [{"id": number, "source": source} for number, source in enumerate(sources)]
        for row, target in zip(rows, targets or []):
            row["target"] = target
        dictionary = self.dictionaries["source"]
        batch = collate(rows, dictionary.pad(), dictionary.eos())
        return move_to_cuda(batch) if self.args.device == "cuda" else batch

    def _shuffled(self) -> List[int]:
        generator = torch.Generator().manual_seed(self.args.seed)
        return torch.randperm(len(self.data), generator=generator).tolist()

    def _own(self, count: int) -> List[Tensor]:
        limit = self.task.cfg.max_source_positions
        fitting = (self.data.src[number] for number in self._shuffled())
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
            warnings.simplefilter("ignore")  # the loader's, that there is no GPU
            batch = next(batches.next_epoch_itr(), None)
        if not batch:
            raise UserError(f"{self.args.data}: no batch of {tokens} tokens in {self.args.split}")
        return move_to_cuda(batch) if self.args.device == "cuda" else batch

    def _pieces(self, side: str, count: int, words: int) -> List[Tensor]:
        """*count* sentences of exactly that many words; of data, its text cut to that length."""
        dictionary = self.dictionaries[side]
        if self.args.data is None:
            generator = torch.Generator().manual_seed(self.args.seed + (side == "target"))
            shape = (count, words)
            text = torch.randint(dictionary.nspecial, len(dictionary), shape, generator=generator)
        else:
            text = self._running_text(side, count * words).view(count, words)
        end = torch.tensor([dictionary.eos()])
        return [torch.cat([piece, end]) for piece in text]

    def _running_text(self, side: str, words: int) -> Tensor:
        rows = self.data.src if side == "source" else self.data.tgt
        texts, found = [], 0
        for number in self._shuffled():
            texts.append(rows[number][:-1].long())
            found += len(texts[-1])
            if found >= words:
                break
        if not found:
            raise UserError(f"{self.args.data}: no word in {self.args.split}")
        text = torch.cat(texts)
        return text.repeat(-(-words // found))[:words]
