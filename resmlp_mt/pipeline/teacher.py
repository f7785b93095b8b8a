"""A trained translation model as a teacher: all hypotheses of its beam search, for each sentence.

Any model that fairseq's translation task loads will do, ours or fairseq's own, and several of them
as an ensemble. Batches are made by length; what comes out is in the order of what went in.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Callable, Iterator, List, NamedTuple, Optional

import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.dataclass.configs import GenerationConfig
from fairseq.utils import move_to_cuda, resolve_max_positions

from resmlp_mt.cli_errors import explain
from resmlp_mt.errors import UserError
from resmlp_mt.pipeline.search import Search
from resmlp_mt.pipeline.subwords import Subwords

# what may be wrong with a hypothesis
BLANK = "blank source"
TOO_LONG = "source too long"  # for the model's positions
EMPTY = "empty output"
LIMIT = "length limit"  # the search had to end it
UNKNOWN = "unknown word"


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


class Teacher:
    """
    Args:
        search: models and options.
        device: where to translate.

    Raises:
        UserError: if a file is missing or damaged, or the files do not fit together.
    """

    def __init__(self, search: Search, device: torch.device):
        self.device, self.max_tokens = device, search.max_tokens
        try:
            self.models, _, self.task = load_model_ensemble_and_task(
                [str(path) for path in search.checkpoints], {"data": str(search.data)}
            )
        except Exception as error:
            message = explain(error)
            if message is None:
                raise
            raise UserError(" ".join(message.split())) from None
        self.subwords = _load_subwords(search.spm, self.task.source_dictionary)
        generation = GenerationConfig(
            beam=search.beam, lenpen=search.lenpen, max_len_b=search.max_len
        )
        for model in self.models:
            model.to(device)
            model.prepare_for_inference_(SimpleNamespace(generation=generation))
        self.generator = self.task.build_generator(self.models, generation)
        self.max_len = min(search.max_len, self.generator.max_len - 1)
        self.source_positions, _ = resolve_max_positions(
            self.task.max_positions(), *(model.max_positions() for model in self.models)
        )

    def translate(
        self, lines: List[str], on_progress: Callable[[int], None]
    ) -> List[List[Hypothesis]]:
        """
        Args:
            lines: raw text.
            on_progress: called with a number of lines when so many more are done.

        Returns:
            for each line its hypotheses, the best first: at least one, which says what is wrong if
            there is nothing else to say.

        Raises:
            UserError: if a batch does not fit into a GPU's memory.
        """
        tokens, lengths = self.task.get_interactive_tokens_and_lengths(lines, self.subwords.encode)
        result = [
            [Hypothesis("", None, BLANK if length == 1 else TOO_LONG)] for length in lengths
        ]  # the end of sentence counts
        fit = [i for i, n in enumerate(lengths) if 1 < n <= self.source_positions]
        on_progress(len(lines) - len(fit))
        dataset = self.task.build_dataset_for_inference(tokens, lengths)
        for batch in by_length(fit, lengths, self.max_tokens):
            sample = dataset.collater([dataset[i] for i in batch])
            for i, found in zip(sample["id"].tolist(), self._search(sample)):
                result[i] = [self._read(hypothesis) for hypothesis in found] or [
                    Hypothesis("", None, EMPTY)
                ]
            on_progress(len(batch))
        return result

    def _search(self, sample: dict) -> list:
        if self.device.type == "cuda":
            sample = move_to_cuda(sample, self.device)
        try:
            return self.task.inference_step(self.generator, self.models, sample)
        except torch.OutOfMemoryError:
            raise UserError(
                f"{self.device}: out of memory with --max-tokens {self.max_tokens}: lower it"
            ) from None

    def _read(self, hypothesis: dict) -> Hypothesis:
        dictionary, tokens = self.task.target_dictionary, hypothesis["tokens"].int().cpu()
        text = dictionary.string(
            tokens,
            "sentencepiece",
            extra_symbols_to_ignore=self.generator.symbols_to_strip_from_output,
        )
        if not text.strip():
            wrong = EMPTY
        elif len(tokens) - 1 >= self.max_len:
            wrong = LIMIT
        elif dictionary.unk() in tokens:
            wrong = UNKNOWN
        else:
            wrong = None
        return Hypothesis(text, round(hypothesis["score"].item(), 4), wrong)


def _load_subwords(spm: Path, dictionary) -> Subwords:
    try:
        subwords = Subwords(spm)
    except (OSError, RuntimeError):
        raise UserError(f"{spm}: missing or no SentencePiece model: give the teacher's") from None
    processor = subwords.processor
    pieces = set(processor.id_to_piece(list(range(processor.get_piece_size()))))
    types = [t for t in dictionary.symbols[dictionary.nspecial :] if "madeupword" not in t]
    known = sum(t in pieces for t in types)
    # a few characters may be types that are no pieces, those that the model has no piece for
    if 2 * known < len(types):
        raise UserError(
            f"{spm} knows {known} of the {len(types)} subwords in the teacher's dictionary: give "
            "the SentencePiece model that its data was made with"
        )
    return subwords


def by_length(items: List[int], lengths: List[int], max_tokens: int) -> Iterator[List[int]]:
    """Cut into batches of similar length, the longest first, so that want of memory shows at once.

    Args:
        items: indices into *lengths*.
        max_tokens: of a batch, padding included; an item longer than that has its own.
    """
    batch: List[int] = []
    for i in sorted(items, key=lambda i: -lengths[i]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > max_tokens:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
