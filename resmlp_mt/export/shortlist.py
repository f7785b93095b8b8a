"""A lexical shortlist: the target subwords that a source subword is likely to become.

The probabilities are those of IBM model 1 (Brown et al., 1993, section 4.1), found on the training
data by expectation maximisation.
"""

from pathlib import Path
from typing import List, Tuple

import numpy as np
from fairseq.data import data_utils

from resmlp_mt.errors import UserError
from resmlp_mt.export.runtime import SPECIAL

FREQUENT = 100  # subwords that every sentence may have
LIKELIEST = 20  # of one source subword
ITERATIONS = 5
CELLS = 20_000_000  # pairs of a source and a target subword of one sentence that are looked at
SEED = 1

Sentences = List[np.ndarray]


def read_pairs(task, data: Path) -> Tuple[Sentences, Sentences]:
    """The training sentences of a folder of binary data, as the numbers of subwords, without ends.

    Args:
        task: with the languages and the dictionaries of the model.
        data: the folder.

    Raises:
        UserError: if it has no training data, or other dictionaries.
    """
    languages = (task.cfg.source_lang, task.cfg.target_lang)
    sides = []
    for language, dictionary in zip(languages, (task.source_dictionary, task.target_dictionary)):
        for order in (languages, languages[::-1]):
            path = data / f"train.{'-'.join(order)}.{language}"
            sentences = data_utils.load_indexed_dataset(str(path), dictionary)
            if sentences is not None:
                break
        else:
            raise UserError(
                f"{data}: no training data from {languages[0]} to {languages[1]}: "
                "give the folder that `resmlp-mt prepare` made"
            )
        path = data / f"dict.{language}.txt"
        if not path.exists() or task.load_dictionary(str(path)) != dictionary:
            raise UserError(f"{path} is not the dictionary of the model: give its training data")
        sides.append([sentences[i].numpy()[:-1] for i in range(len(sentences))])
    return sides[0], sides[1]


def shortlist(sources: Sentences, targets: Sentences, source: list, target: list) -> str:
    """The file, in the form of a vocabulary map of CTranslate2.

    Each line has a source subword, a tab, and target subwords after spaces. The first line has no
    source subword: its target subwords are for every sentence.

    Args:
        sources, targets: numbers of subwords, sentence by sentence.
        source, target: the subwords themselves.
    """
    counts = np.bincount(np.concatenate(targets), minlength=len(target))
    counts[: len(SPECIAL)] = 0
    frequent = np.argsort(-counts, kind="stable")[:FREQUENT]
    lines = ["\t" + " ".join(target[word] for word in frequent if counts[word])]
    of_source, of_target, probability = word_probabilities(sources, targets, len(target))
    order = np.lexsort((-probability, of_source))
    starts = np.searchsorted(of_source[order], np.arange(len(source) + 1))
    for word in range(len(SPECIAL), len(source)):
        likeliest = of_target[order[starts[word] : starts[word + 1]][:LIKELIEST]]
        if len(likeliest):
            lines.append(f"{source[word]}\t{' '.join(target[other] for other in likeliest)}")
    return "".join(f"{line}\n" for line in lines)


def word_probabilities(
    sources: Sentences, targets: Sentences, size: int
) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``t(target | source)`` of IBM model 1, for the pairs that are in some sentence.

    Args:
        sources, targets: sentence by sentence.
        size: of the target vocabulary.

    Returns:
        source words, target words, probabilities.
    """
    pairs, starts, lengths = cells(sources, targets, size)
    known, place = np.unique(pairs, return_inverse=True)
    place = place.astype(np.int32)
    of_source = known // size
    probability = np.ones(len(known), np.float32)
    for _ in range(ITERATIONS):
        share = probability[place]
        share /= np.repeat(np.add.reduceat(share, starts), lengths)
        expected = np.bincount(place, share, minlength=len(known))
        probability = (expected / np.bincount(of_source, expected)[of_source]).astype(np.float32)
    return of_source, known % size, probability


def cells(
    sources: Sentences, targets: Sentences, size: int
) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All pairs of a target word and what it may come from: a source word, or none (PAD).

    Returns:
        ``source * size + target``, those of one target word together; where each target word
        begins; how many pairs it has.
    """
    draw = np.random.default_rng(SEED).permutation(len(sources))
    work = np.cumsum([(len(sources[i]) + 1) * len(targets[i]) for i in draw])
    draw = draw[: max(1, np.searchsorted(work, CELLS))]
    nothing = np.full(1, SPECIAL.index("<pad>"))
    read = [np.concatenate([nothing, sources[i]]) for i in draw]
    written = [targets[i] for i in draw]
    lengths = np.repeat([len(one) for one in read], [len(one) for one in written])
    words = np.repeat(np.concatenate(written), lengths)
    repeated = [np.tile(one, len(other)) for one, other in zip(read, written)]
    starts = np.cumsum(lengths) - lengths
    return np.concatenate(repeated).astype(np.int64) * size + words, starts, lengths
