"""Trained models that translate subwords, by fairseq's own loading, collation and search.

Any model that fairseq's translation task loads will do, ours or fairseq's own, and several of them
as an ensemble.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence

import numpy as np
import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.data.data_utils import batch_by_size
from fairseq.dataclass.configs import GenerationConfig
from fairseq.utils import move_to_cuda, resolve_max_positions

from resmlp_mt.compat.program_errors import explain
from resmlp_mt.errors import UserError

Sentence = List[str]  # its subwords


class About(NamedTuple):
    """
    Attributes:
        positions: tokens of a source sentence that the models take, with its end.
        source: language of the source.
    """

    positions: int
    source: str


class Translator:
    """
    Args:
        device: where to translate.
        checkpoints: one model, or an ensemble, which averages probabilities at each word.
        data: folder with the dictionaries that they were trained with.
        generation: how to search, fields of fairseq's ``GenerationConfig`` by name.
        max_tokens: what batches were made with; the error names it where one does not fit.
        fp16: compute in float16.
        overrides: options in place of the checkpoints' own, as of ``--model-overrides``.

    Raises:
        UserError: if a checkpoint cannot be used.
    """

    def __init__(
        self,
        device: torch.device,
        checkpoints: Sequence[Path],
        data: Path,
        generation: Dict[str, float],
        max_tokens: int,
        fp16: bool = False,
        overrides: Optional[dict] = None,
    ):
        self.device, self.max_tokens = device, max_tokens
        try:
            self.models, _, self.task = load_model_ensemble_and_task(
                [str(path) for path in checkpoints], {**(overrides or {}), "data": str(data)}
            )
        except Exception as error:
            message = explain(error)
            if message is None:
                raise
            raise UserError(" ".join(message.split())) from None
        options = GenerationConfig(**generation)
        for model in self.models:
            model.eval()
            if fp16:
                model.half()
            model.to(device)
            model.prepare_for_inference_(SimpleNamespace(generation=options))
        self.generator = self.task.build_generator(self.models, options)
        limits = resolve_max_positions(
            self.task.max_positions(), *(model.max_positions() for model in self.models)
        )
        self.about = About(int(limits[0]), self.task.cfg.source_lang)

    def search(self, batch: Sequence[Sentence]) -> List[List[dict]]:
        """fairseq's hypotheses for each sentence, the best first.

        Raises:
            UserError: if the batch does not fit into a GPU's memory.
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
                f"{self.device}: out of memory with --max-tokens {self.max_tokens}: lower it"
            ) from None
        in_order = dict(zip(sample["id"].tolist(), found, strict=True))
        return [in_order[number] for number in range(len(batch))]

    def text(self, hypothesis: dict) -> str:
        """A hypothesis, detokenized."""
        return self.task.target_dictionary.string(
            hypothesis["tokens"].int().cpu(),
            "sentencepiece",
            extra_symbols_to_ignore=self.generator.symbols_to_strip_from_output,
        )

    def work(self, batch: Sequence[Sentence]) -> Iterator[List[str]]:
        """The best translations of a batch: what :mod:`resmlp_mt.translate.shards` asks for."""
        yield [self.text(hypotheses[0]) for hypotheses in self.search(batch)]


def by_length(items: Sequence[int], lengths: Sequence[int], max_tokens: int) -> List[List[int]]:
    """Cut into batches of similar length, the longest first, so that want of memory shows at once.

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
