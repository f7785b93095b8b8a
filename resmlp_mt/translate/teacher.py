"""A trained model as a teacher: all hypotheses of its beam search, for each sentence."""

from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional

import torch
from fairseq.tokenizer import tokenize_line

from resmlp_mt.errors import UserError
from resmlp_mt.text.subwords import Subwords, load_subwords
from resmlp_mt.translate.search import Search
from resmlp_mt.translate.translator import Translator, by_length

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
        generation = dict(beam=search.beam, lenpen=search.lenpen, max_len_b=search.max_len)
        self.translator = Translator(
            device, search.checkpoints, search.data, generation, search.max_tokens
        )
        self.subwords = _load_subwords(search.spm, self.translator.task.source_dictionary)
        self.max_tokens = search.max_tokens
        self.max_len = min(search.max_len, self.translator.generator.max_len - 1)

    def translate(self, lines: List[str]) -> Iterator[Dict[int, List[Hypothesis]]]:
        """
        Args:
            lines: raw text.

        Yields:
            for some more lines, by their numbers, the hypotheses, the best first: at least one,
            which says what is wrong if there is nothing else to say.

        Raises:
            UserError: if a batch does not fit into a GPU's memory.
        """
        pieces = [tokenize_line(self.subwords.encode(line)) for line in lines]
        lengths = [len(words) + 1 for words in pieces]  # the end of sentence counts
        positions = self.translator.about.positions
        yield {
            i: [Hypothesis("", None, BLANK if n == 1 else TOO_LONG)]
            for i, n in enumerate(lengths)
            if not 1 < n <= positions
        }
        fit = [i for i, n in enumerate(lengths) if 1 < n <= positions]
        for batch in by_length(fit, lengths, self.max_tokens):
            found = self.translator.search([pieces[i] for i in batch])
            yield {
                i: [self._read(hypothesis) for hypothesis in hypotheses]
                or [Hypothesis("", None, EMPTY)]
                for i, hypotheses in zip(batch, found, strict=True)
            }

    def _read(self, hypothesis: dict) -> Hypothesis:
        text, tokens = self.translator.text(hypothesis), hypothesis["tokens"]
        if not text.strip():
            wrong = EMPTY
        elif len(tokens) - 1 >= self.max_len:
            wrong = LIMIT
        elif self.translator.task.target_dictionary.unk() in tokens:
            wrong = UNKNOWN
        else:
            wrong = None
        return Hypothesis(text, round(hypothesis["score"].item(), 4), wrong)


def _load_subwords(spm: Path, dictionary) -> Subwords:
    subwords = load_subwords(spm, f"{spm}: missing or no SentencePiece model: give the teacher's")
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
