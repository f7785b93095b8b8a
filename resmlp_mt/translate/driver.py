"""Text in, text out: chunk by chunk, by one process, several, or the jobs of a cluster.

What is found is kept in ``OUTPUT.parts`` until the output is written, so that a run that was
stopped resumes.
"""

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

import torch
from fairseq.tokenizer import tokenize_line
from tqdm import tqdm

from resmlp_mt.errors import UserError
from resmlp_mt.files import check_output
from resmlp_mt.processes import Workers, worker_number
from resmlp_mt.text.lines import STDIN, one_line, write_lines
from resmlp_mt.translate.parts import Chunk, Parts, Text
from resmlp_mt.translate.translator import (
    BLANK,
    NOT_FINITE,
    TOO_LONG,
    Hypothesis,
    SearchOptions,
    Translator,
    by_length,
)

STDOUT = STDIN
Pieces = List[str]  # of a sentence
Batch = Tuple[int, List[int], List[Pieces]]  # chunk, its lines, their pieces

_translator: Translator  # of a worker process


def translate(
    options: SearchOptions,
    source: Path,
    output: Path,
    num_shards: int = 1,
    shard_id: int = 0,
    truncate: bool = False,
) -> dict:
    """Write the translations of a text: ``nbest`` lines for each of its lines, in order.

    A line without a word gives blank lines, and so does an n-th hypothesis that the search does not
    have. The output is written whole, by the process that completes the last chunk.

    Args:
        source: text, plain or ``.gz``, or ``-``.
        output: file to write, or ``-``. Beside a file, ``OUTPUT.parts`` is there while it is made.
        num_shards, shard_id: which share of the chunks to make, for the jobs of a cluster that
            have one folder in common.
        truncate: translate the beginning of a line that is too long for the model.

    Returns:
        ``lines`` of the text; of this call ``sentences``, ``cut`` (how many were translated, and
        cut off) and ``seconds``; ``left``: chunks that other shards have still to make;
        ``written``: whether this call wrote the output, and then ``blank``: lines without a word.

    Raises:
        UserError: bad input; a line that is too long; a sentence whose scores are not finite. No
            output is written then, and what was translated before stays for the next call.
    """
    if not 0 <= shard_id < num_shards:
        raise UserError(
            f"--num-shards {num_shards} --shard-id {shard_id}: the id of a shard is a number from "
            f"0 to {num_shards - 1}"
        )
    to_stdout = str(output) == STDOUT
    if num_shards > 1 and (to_stdout or str(source) == STDIN):
        raise UserError("--num-shards: jobs cannot share standard input or output: name files")
    if not to_stdout:
        check_output(output, source)
        if Path(output).suffix == ".gz":
            raise UserError(
                f"{output}: plain text is written: leave off .gz, or pipe --output - to gzip"
            )
    identity, text = {**options.identity(), "truncate": truncate}, Text(source)
    with ExitStack() as held:
        folder = Path(f"{output}.parts")
        if to_stdout:
            folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="resmlp_mt.")))
        parts = held.enter_context(Parts(folder, identity, text, num_shards, shard_id))
        counts = search(options, parts, "truncate" if truncate else "refuse")
        # a shard without chunks may start when the others have written the output
        over = parts.nothing_made and not to_stdout and Path(output).exists()
        left = 0 if over else len(parts.missing)
        with parts.last() as last:
            if last:
                counts["blank"] = _count_blank(parts)
                _write(output, parts, options.nbest)
                parts.remove()
    return {"lines": text.lines, **counts, "left": left, "written": last}


def search(options: SearchOptions, parts: Parts, too_long: str) -> dict:
    """Translate the chunks of a shard that are not there yet.

    Args:
        too_long: what becomes of a line with more subwords than the model has positions:
            ``"refuse"`` it before anything is translated, ``"truncate"`` it, or ``"skip"`` it,
            which leaves a hypothesis that says so.

    Returns:
        ``sentences``, ``cut``: how many were translated and cut off now; ``seconds``.

    Raises:
        UserError: what :class:`Translator` raises; a line that is refused; a worker that dies.
    """
    todo = parts.todo
    if not todo:
        return {"sentences": 0, "cut": 0, "seconds": 0.0}
    processes, gpus = options.devices()
    method = "here" if processes == 1 else "spawn"
    with Workers(processes, _load, options, processes, gpus, method=method) as workers:
        (limit,) = workers.map(_longest, [None])
        if too_long == "refuse":
            _refuse_long(workers, parts, todo, limit)
        start = time.monotonic()
        lines = sum(map(parts.text.size, todo))
        with tqdm(total=lines, unit=" lines", mininterval=1, dynamic_ncols=True) as bar:
            chunks = _Chunks(options, parts, todo, too_long, limit, bar)
            for number, found in workers.map(_search, chunks.batches(workers)):
                chunks.add(number, found)
    seconds = round(time.monotonic() - start, 3)
    return {"sentences": chunks.sentences, "cut": chunks.cut, "seconds": seconds}


class _Chunks:
    """The chunks under way: cut into batches, and put together again from what is found."""

    def __init__(self, options, parts: Parts, todo: List[int], too_long: str, limit: int, bar):
        self.options, self.parts, self.todo, self.bar = options, parts, todo, bar
        self.too_long, self.limit = too_long, limit
        self.sentences = self.cut = 0  # how many were given out, and how many of them cut off
        self._found: Dict[int, Dict[int, List[Hypothesis]]] = {}  # by chunk and line

    def batches(self, workers: Workers) -> Iterator[Batch]:
        """Sentences of similar length, chunk after chunk."""
        for number, encoded in workers.map(_encode, self.parts.text.chunks(self.todo)):
            wrong = {i: BLANK for i, pieces in enumerate(encoded) if not pieces}
            long = [i for i, pieces in enumerate(encoded) if len(pieces) > self.limit]
            if self.too_long == "skip":
                wrong.update(dict.fromkeys(long, TOO_LONG))
            else:
                self.cut += len(long)
                for i in long:
                    del encoded[i][self.limit :]
            self._found[number] = {}
            self.add(number, {i: [Hypothesis("", None, why)] for i, why in wrong.items()})
            fit = [i for i in range(len(encoded)) if i not in wrong]
            self.sentences += len(fit)
            lengths = [len(pieces) + 1 for pieces in encoded]  # the end of sentence counts
            for batch in by_length(fit, lengths, self.options.max_tokens):
                yield number, batch, [encoded[i] for i in batch]

    def add(self, number: int, found: Dict[int, List[Hypothesis]]) -> None:
        """Take hypotheses of a chunk, by line; the chunk is written with the last of them."""
        self.bar.update(len(found))
        lines = self._found[number]
        lines.update(found)
        if len(lines) == self.parts.text.size(number):
            self.parts.write(number, [lines[i] for i in range(len(lines))])
            del self._found[number]


def _refuse_long(workers: Workers, parts: Parts, todo: List[int], limit: int) -> None:
    first, count = None, 0
    for number, encoded in workers.map(_encode, parts.text.chunks(todo)):
        for i, pieces in enumerate(encoded):
            if len(pieces) > limit:
                first = first or (parts.text.first_line(number) + i, len(pieces))
                count += 1
    if first is not None:
        raise UserError(
            f"{parts.text.name}, line {first[0]}: {first[1]} pieces, but the model takes {limit} "
            f"({count} such lines): split or shorten them, or translate their beginnings alone "
            "with --truncate"
        )


def _count_blank(parts: Parts) -> int:
    """How many lines have no word; an error if there are sentences whose scores are not finite."""
    blank, lost = 0, []
    for line, hypotheses in enumerate(parts, 1):
        blank += hypotheses[0].wrong == BLANK
        if hypotheses[0].wrong == NOT_FINITE:
            lost.append(line)
    if lost:
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        raise UserError(
            f"{parts.text.name}, line {lost[0]}{more}: no translation, because the scores of the "
            "model are NaN or infinite there: translate without --fp16 and int8, or take an "
            "earlier checkpoint"
        )
    return blank


def _write(output: Path, parts: Parts, nbest: int) -> None:
    lines = (
        one_line(hypotheses[n].text) if n < len(hypotheses) else ""
        for hypotheses in parts
        for n in range(nbest)
    )
    if str(output) == STDOUT:
        for line in lines:
            sys.stdout.buffer.write(f"{line}\n".encode())
        sys.stdout.buffer.flush()
        return
    try:
        write_lines(output, lines)
    except OSError as error:
        raise UserError(f"{output} could not be written: {error.strerror}") from None


# what follows runs in the workers


def _load(options: SearchOptions, processes: int, gpus: int) -> None:
    global _translator
    if options.threads or processes > 1:
        torch.set_num_threads(max(1, (options.threads or torch.get_num_threads()) // processes))
    device = torch.device("cuda", worker_number()) if gpus else torch.device("cpu")
    _translator = Translator(options, device)


def _longest(_) -> int:
    """Subwords of the longest sentence that the models take, the end not counted."""
    return _translator.positions - 1


def _encode(chunk: Chunk) -> Tuple[int, List[Pieces]]:
    number, lines = chunk
    return number, [tokenize_line(_translator.encode(line)) for line in lines]


def _search(batch: Batch) -> Tuple[int, Dict[int, List[Hypothesis]]]:
    number, lines, sentences = batch
    return number, dict(zip(lines, _translator.nbest(sentences), strict=True))
