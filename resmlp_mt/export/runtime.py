#!/usr/bin/env python3
"""Translate with an exported model: numpy, onnxruntime and sentencepiece, nothing else.

    python MODEL/runtime.py --input test.en --output test.de      # or standard input and output

    from runtime import Translator
    Translator("MODEL").translate(["A sentence.", "Another one."])

The folder was written by `resmlp-mt export`. Its config.json has the size and the SHA-256 of every
other file. The search is the beam search of fairseq.
"""

import argparse
import functools
import gzip
import hashlib
import itertools
import json
import math
import os
import re
import signal
import sys
import time
import zlib
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence

import numpy as np
import onnxruntime
import sentencepiece

FORMAT = 1
BOS, PAD, EOS, UNKNOWN = range(4)  # the first words of every dictionary of fairseq
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # begins a word, in SentencePiece
FILES = ("encoder.onnx", "step.onnx", "spm.model", "source.txt", "target.txt")
SHORTLIST = "shortlist.txt"  # in a folder that was exported with one
BLOCK = 64  # words that the output layer takes together
CHUNK = 2048  # lines that are sorted by length together
ROOM = 8  # positions by which the memory of past words grows


class TranslationError(ValueError):
    """One line that says what is wrong with the folder or the text, and what to do."""


class Hypothesis(NamedTuple):
    """
    Attributes:
        text: detokenized.
        score: log probability divided by length to the power of the length penalty.
        pieces: subwords of the translation.
        attention: weights over the source subwords and their end, len(pieces) + 1 x S, the last
            row for the end of sentence; None unless asked for.
    """

    text: str
    score: float
    pieces: List[str]
    attention: Optional[np.ndarray] = None


class Translator:
    """
    Args:
        folder: an exported model.
        threads: CPU threads; all cores by default.

    Attributes:
        config: what config.json holds.
        source_pieces, target_pieces: the dictionaries, by number.

    Raises:
        TranslationError: if the folder is no such model, or damaged.
    """

    def __init__(self, folder, threads: Optional[int] = None):
        folder = Path(folder)
        self.config = config = _read_config(folder)
        names = FILES + ((SHORTLIST,) if SHORTLIST in config["files"] else ())
        data = {name: _read_checked(folder, name, config["files"][name]) for name in names}
        try:
            self.model = Model(data.pop("encoder.onnx"), data.pop("step.onnx"), config, threads)
            self._subwords = sentencepiece.SentencePieceProcessor(model_proto=data["spm.model"])
            self.source_pieces, self.target_pieces = (
                data[name].decode("utf-8").split("\n")[:-1] for name in ("source.txt", "target.txt")
            )
            self._normalisation = [(re.compile(a), b) for a, b in config["normalisation"]]
            self._check_sizes()
        except TranslationError:
            raise
        except Exception as error:  # a damaged file can raise anything inside a library
            reason = " ".join(str(error).split())[:200]
            raise TranslationError(f"{folder}: damaged ({reason}): export it again") from None
        self._numbers = {piece: number for number, piece in enumerate(self.source_pieces)}
        self._shortlist_file = data.get(SHORTLIST)

    def _check_sizes(self) -> None:
        config = self.config
        for session in (self.model.encoder, self.model.step):
            told = json.loads(session.get_modelmeta().custom_metadata_map["config"])
            if told != {name: config.get(name) for name in told}:
                raise TranslationError("config.json does not fit the graphs: export again")
        shapes = {
            x.name: x.shape for x in self.model.step.get_inputs() if x.name.startswith("past.")
        }
        listed = {f"past.{i}": list(state) for i, state in enumerate(config["states"])}
        vocabulary = [len(set(self.source_pieces)), len(self.target_pieces)]
        if listed != {name: [x[0], x[3]] for name, x in shapes.items()}:
            raise TranslationError(
                "config.json does not have the states of the graph: export again"
            )
        if vocabulary != config["vocabulary"]:
            raise TranslationError("source.txt or target.txt do not fit config.json: export again")

    # text

    def pieces(self, line: str) -> List[str]:
        """The subwords of a line; none where it has no word."""
        for pattern, replacement in self._normalisation:
            line = pattern.sub(replacement, line)
        line = one_line(line)
        try:
            line.encode()
        except UnicodeEncodeError:
            raise TranslationError(f"{line[:60]!a}: invalid UTF-8: give text in UTF-8") from None
        found = []
        for piece in self._subwords.encode(line, out_type=str):
            # what stands in the text for a symbol of fairseq is no such symbol
            unknown = (
                piece in SPECIAL and self._subwords.piece_to_id(piece) == self._subwords.unk_id()
            )
            found.extend(piece if unknown else [piece])
        return " ".join(found).split()

    def translate(self, lines: Iterable[str], nbest: int = 1, **options) -> list:
        """The translation of each line; with *nbest* a list of the best ones of each line.

        Args:
            lines: of text; one without a word has the translation ``""``.
            nbest: translations of each line.
            options: as of :meth:`search`.
        """
        found = self.stream(lines, nbest=nbest, **options)
        texts = ([hypothesis.text for hypothesis in one] for one in found)
        return [one[0] if one else "" for one in texts] if nbest == 1 else list(texts)

    def stream(self, lines: Iterable[str], **options) -> Iterator[List[Hypothesis]]:
        """The hypotheses of each line, the best first, in order: a chunk of lines at a time is in
        memory. Arguments as of :meth:`translate`."""
        if isinstance(lines, str):
            raise TranslationError("one str: give a list of lines")
        lines = iter(lines)
        for first in itertools.count(1, CHUNK):
            chunk = list(itertools.islice(lines, CHUNK))
            if not chunk:
                return
            yield from self.search([self.pieces(line) for line in chunk], first=first, **options)

    def search(
        self,
        sources: Sequence[Sequence[str]],
        beam: Optional[int] = None,
        lenpen: Optional[float] = None,
        nbest: int = 1,
        max_len_a: Optional[float] = None,
        max_len_b: Optional[int] = None,
        max_tokens: int = 4096,
        truncate: bool = False,
        return_attention: bool = False,
        shortlist: bool = False,
        first: int = 1,
    ) -> List[List[Hypothesis]]:
        """
        Args:
            sources: subwords of each sentence.
            beam, lenpen, max_len_a, max_len_b: as of fairseq-generate; None: as config.json has it.
            nbest: hypotheses of each sentence, at most *beam*.
            max_tokens: source subwords of a batch, padding included.
            truncate: translate the beginning of a sentence that is too long for the model.
            return_attention: give the hypotheses their attention.
            shortlist: choose from the likely subwords of a batch only. Scores are among these.
            first: number of the first sentence, for errors.

        Raises:
            TranslationError: a sentence that is too long; an option with an impossible value;
                a folder without a shortlist; scores that are not finite.
        """
        given = {"beam": beam, "lenpen": lenpen, "max_len_a": max_len_a, "max_len_b": max_len_b}
        options = {k: self.config["search"][k] if v is None else v for k, v in given.items()}
        most = (len(self.target_pieces) - 1) // 2
        if not 1 <= options["beam"] <= most or not 1 <= nbest <= options["beam"]:
            raise TranslationError(
                f"beam {options['beam']}, nbest {nbest}: give 1 <= nbest <= beam <= {most}"
            )
        lenpen, a, b = (options[name] for name in ("lenpen", "max_len_a", "max_len_b"))
        if not (-10 <= lenpen <= 10 and 0 <= a <= 1000 and 1 <= b < math.inf):
            raise TranslationError(
                f"lenpen {lenpen}, max_len_a {a}, max_len_b {b}: give a lenpen from -10 to 10, a "
                "max_len_a from 0 to 1000 and a max_len_b of at least 1"
            )
        limit = self.config["positions"][0] - 1
        encoded = []
        for number, source in enumerate(sources, first):
            if len(source) > limit and not truncate:
                raise TranslationError(
                    f"sentence {number}: {len(source)} pieces, but the model takes {limit}: "
                    "split or shorten it, or translate its beginning alone (truncate)"
                )
            ids = [self._numbers.get(piece, UNKNOWN) for piece in source[:limit]]
            encoded.append([*ids, EOS] if ids else [])
        results: List[List[Hypothesis]] = [[] for _ in sources]
        for batch in _batches([len(ids) for ids in encoded], max_tokens):
            batched = [encoded[i] for i in batch]
            listed = self.shortlist.words(batched) if shortlist else None
            numbers = [first + i for i in batch]
            found = self.model.search(
                batched, numbers, listed, attention=return_attention, **options
            )
            for i, hypotheses in zip(batch, found):
                results[i] = [self._hypothesis(*one) for one in hypotheses[:nbest]]
        return results

    @functools.cached_property
    def shortlist(self) -> "Shortlist":
        """
        Raises:
            TranslationError: if the folder has none, or a damaged one.
        """
        if self._shortlist_file is None:
            raise TranslationError(f"no {SHORTLIST} in the model: export it with --shortlist")
        return Shortlist(self._shortlist_file, self._numbers, self.target_pieces)

    def _hypothesis(self, score: float, tokens: np.ndarray, attention) -> Hypothesis:
        pieces = [self.target_pieces[token] for token in tokens]
        # fairseq prints no <s>
        words = (piece for piece, token in zip(pieces, tokens) if token != BOS)
        return Hypothesis(one_line("".join(words).replace(SPACE, " ")), score, pieces, attention)


class Shortlist:
    """The likely target subwords of each source subword.

    Args:
        data: the file. A line has a source subword, a tab, and its target subwords after spaces.
            Those of the line without a source subword are for every sentence.
        source: numbers of the source subwords.
        target: the target subwords.

    Raises:
        TranslationError: for another file.
    """

    def __init__(self, data: bytes, source: Dict[str, int], target: List[str]):
        numbers = {piece: number for number, piece in enumerate(target)}
        self._of_word: Dict[int, np.ndarray] = {}
        try:
            for line in data.decode("utf-8").split("\n")[:-1]:
                piece, listed = line.split("\t")
                words = np.array([numbers[other] for other in listed.split(" ") if other], np.int32)
                self._of_word[source[piece] if piece else EOS] = words
        except (ValueError, KeyError):
            raise TranslationError(f"{SHORTLIST} does not fit the model: export again") from None

    def words(self, sources: Sequence[Sequence[int]]) -> np.ndarray:
        """What the sentences of a batch may become: sorted, the special words first, and as many
        -1 as it takes to fill the last block."""
        none = np.zeros(0, np.int32)
        read = {word for source in sources for word in source}
        listed = [self._of_word.get(word, none) for word in read]
        words = np.unique(np.concatenate([np.arange(len(SPECIAL), dtype=np.int32), *listed]))
        return np.pad(words, (0, -len(words) % BLOCK), constant_values=-1)


class Model:
    """The two graphs, and beam search over the numbers of subwords.

    Args:
        encoder, step: the files.
        config: what config.json holds.
        threads: CPU threads; all cores by default.
    """

    def __init__(self, encoder: bytes, step: bytes, config: dict, threads: Optional[int] = None):
        self.config = config
        self.encoder = _session(encoder, threads, spin=False)
        self.step = _session(step, threads, spin=True)
        wanted = ("scores", "candidates", "parents", "end_scores")
        self._outputs = [*wanted, *(f"new.{number}" for number in range(len(config["states"])))]

    def search(
        self,
        sources: Sequence[Sequence[int]],
        numbers: Sequence[int],
        listed: Optional[np.ndarray],
        beam: int,
        lenpen: float,
        max_len_a: float,
        max_len_b: int,
        attention: bool = False,
    ) -> List[list]:
        """Beam search of B sentences, which end with EOS: for each of them the score, the words and
        the attention (or None) of its hypotheses, the best first.

        A hypothesis is a row: a sentence has one at the first word, later *beam*.

        Args:
            numbers: of the sentences, for errors.
            listed: the words to choose from, None: all.
        """
        count, length = len(sources), max(map(len, sources))
        words = np.full((count, length), PAD, np.int32)
        for row, source in zip(words, sources):
            row[: len(source)] = source
        encoded = self.encode(words, listed)
        del encoded["states"]
        memory = Memory(encoded, self.config, beam)
        limit = min(int(max_len_a * length + max_len_b), self.config["positions"][1] - 1)
        finished: List[list] = [[] for _ in sources]
        left, done = np.arange(count), np.zeros(count, bool)  # the sentences that are not dropped
        newest = np.full((count, 1), EOS, np.int32)
        totals = np.zeros((count, 1), np.float32)
        history = {"tokens": np.zeros((count, 1, 0), np.int32)}
        if attention:
            history["attention"] = np.zeros((count, 1, 0, length), np.float32)
        for step in range(limit + 1):
            out = self.run_step(newest, totals, memory, step, 2 * beam, attention)
            lost = left[~done & ~np.isfinite(out["end_scores"]).all(axis=1)]
            if len(lost):
                raise TranslationError(
                    f"sentence {numbers[lost[0]]}: its scores are NaN or infinite: export another "
                    "checkpoint, or without --float16 and --int8"
                )
            if attention:
                history["attention"] = _append(history["attention"], out["attention"])
            if step < limit:
                scores, words, parents = out["scores"], out["candidates"], out["parents"]
                words = words if listed is None else listed[words]
            else:
                parents = np.argsort(-out["end_scores"], axis=1, kind="stable")
                scores = np.take_along_axis(out["end_scores"], parents, 1)
                words = np.full_like(parents, EOS)
            ends = (words == EOS) & (scores != -np.inf)
            if ends.any():
                for place, rank in np.argwhere(ends[:, :beam]):
                    hypotheses, row = finished[left[place]], parents[place, rank]
                    if len(hypotheses) < beam:
                        score = scores[place, rank] / np.float32((step + 1) ** lenpen)
                        weights = None
                        if attention:
                            size = len(sources[left[place]])
                            weights = history["attention"][place, row, :, :size]
                        words_so_far = history["tokens"][place, row]
                        hypotheses.append((float(score), words_so_far, weights))
                        done[place] = len(hypotheses) == beam
                if step == limit or done.all():
                    break
                # those that end last; a row ends at most once, so that there are enough
                order = np.argsort(ends, axis=1, kind="stable")
                each = np.arange(len(left))[:, None]
                scores, words, parents = (x[each, order] for x in (scores, words, parents))
            totals, newest, parents = (x[:, :beam] for x in (scores, words, parents))
            if 8 * done.sum() >= len(done):  # a copy of the rest costs as much as steps of a few
                kept = np.flatnonzero(~done)
                left, totals, newest, parents = (x[kept] for x in (left, totals, newest, parents))
                done = done[kept]
                history = {name: x[kept] for name, x in history.items()}
                memory.keep(kept)
            memory.follow(parents)
            rows = np.arange(len(left))[:, None], parents
            history = {name: x[rows] for name, x in history.items()}
            history["tokens"] = _append(history["tokens"], newest)
        return [sorted(found, key=lambda one: -one[0]) for found in finished]

    def encode(self, words: np.ndarray, listed: Optional[np.ndarray] = None) -> dict:
        """What the decoder reads of B sentences of S words, and the ``states``."""
        names = [output.name for output in self.encoder.get_outputs()]
        feed = {"words": words} if listed is None else {"words": words, "shortlist": listed}
        return dict(zip(names, self.encoder.run(names, feed)))

    def run_step(self, newest, totals, memory, step: int, count: int, attention=False) -> dict:
        """One decoding step, which *memory* takes up.

        Args:
            newest: B x J, int32; the newest words.
            totals: B x J, float32; the scores of the hypotheses.
            step: their number of words, without the newest.
            count: of continuations.
            attention: whether to give it, too.
        """
        feed = {
            "words": newest,
            "totals": totals,
            "count": np.array([count], np.int32),
            **memory.feed(step),
        }
        names = [*self._outputs, "attention"] if attention else self._outputs
        out = dict(zip(names, self.step.run(names, feed)))
        memory.write(step, out)
        return out


class Memory:
    """What a batch remembers from step to step: keys and values of the source, and the past inputs
    of the mixing sublayers.

    A past input has a slot. ``reads`` says which slots are in the past of each hypothesis, so that
    nothing is copied when beams move. Now and then those that nobody reads any more are cleared.
    """

    def __init__(self, encoded: dict, config: dict, beam: int):
        self.encoded, self.beam, self.window = encoded, beam, config["window"]
        sentences = len(encoded["mask"])
        self.used, slots = 0, (self.window or ROOM) * beam
        self.past = [
            np.zeros((groups, sentences, slots, channels), np.float32)
            for groups, channels in config["states"]
        ]
        self.reads = np.zeros((sentences, 1, slots), np.float32)
        self.positions = np.zeros((sentences, slots), np.int32)

    def feed(self, step: int) -> dict:
        """The inputs of a step."""
        return {
            **self.encoded,
            **{f"past.{number}": value for number, value in enumerate(self.past)},
            "reads": self.reads,
            "slot_positions": self.positions,
            "position": np.array([step], np.int32),
        }

    def write(self, step: int, out: dict) -> None:
        """Keep what the hypotheses' newest words have put into the mixing sublayers."""
        rows = self.reads.shape[1]
        if self.window:  # the oldest position makes room
            first = step % self.window * self.beam
            self.reads[:, :, first : first + self.beam] = 0
        else:
            if self.used + rows > self.reads.shape[2]:
                self._make_room()
            first, self.used = self.used, self.used + rows
        for number, past in enumerate(self.past):
            past[:, :, first : first + rows] = out[f"new.{number}"]
        self.positions[:, first : first + rows] = step
        each = np.arange(rows)
        self.reads[:, each, first + each] = 1

    def _make_room(self) -> None:
        """Move the slots that some hypothesis reads to the front, or have more of them."""
        read = self.reads.any(axis=1)
        used = int(read.sum(axis=1).max(initial=0))
        if used > read.shape[1] - ROOM * self.beam // 2:
            more = ROOM * self.beam
            self.past = [_with_room(x, 2, more) for x in self.past]
            self.reads = _with_room(self.reads, 2, more)
            self.positions = _with_room(self.positions, 1, more)
            return
        self.used = used
        kept = np.argsort(~read, axis=1, kind="stable")[:, :used]
        sentence = np.arange(len(kept))[:, None]
        for past in self.past:
            past[:, :, :used] = past[:, sentence, kept]
        self.positions[:, :used] = np.take_along_axis(self.positions, kept, 1)
        self.reads[:, :, :used] = np.take_along_axis(self.reads, kept[:, None], 2)
        self.reads[:, :, used:] = 0

    def keep(self, sentences: np.ndarray) -> None:
        """Drop all but these of the sentences that are left."""
        self.encoded = {
            name: x if name.startswith("output.") else x[sentences]
            for name, x in self.encoded.items()
        }
        self.past = [x[:, sentences] for x in self.past]
        self.reads, self.positions = self.reads[sentences], self.positions[sentences]

    def follow(self, parents: np.ndarray) -> None:
        """Let hypothesis j of each sentence go on from hypothesis ``parents[j]``."""
        self.reads = self.reads[np.arange(len(parents))[:, None], parents]


def one_line(text: str) -> str:
    """Every run of white space, line breaks of any kind and NUL as one space."""
    return " ".join(text.replace("\0", " ").split())


def _with_room(x: np.ndarray, axis: int, more: int) -> np.ndarray:
    """*x* with *more* zeros behind it. (numpy.pad takes three times as long.)"""
    shape = list(x.shape)
    shape[axis] += more
    wide = np.zeros(shape, x.dtype)
    wide[(slice(None),) * axis + (slice(x.shape[axis]),)] = x
    return wide


def _append(history: np.ndarray, newest: np.ndarray) -> np.ndarray:
    return np.concatenate([history, newest[:, :, None]], axis=2)


def _batches(lengths: List[int], max_tokens: int) -> Iterator[List[int]]:
    """Numbers of sentences of similar length, the longest first; none of the empty ones."""
    batch: List[int] = []
    for number in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if not lengths[number]:
            continue
        if batch and (len(batch) + 1) * lengths[batch[0]] > max_tokens:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


# the folder


def _read_config(folder: Path) -> dict:
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TranslationError(f"{path}: {error.strerror}: give an exported model") from None
    except ValueError:
        raise TranslationError(f"{path}: not a JSON file: export the model again") from None
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise TranslationError(f"{path}: not of format {FORMAT}: take the runtime.py beside it")
    kinds = {"files": dict, "positions": list, "vocabulary": list, "states": list, "window": int}
    kinds.update(search=dict, normalisation=list)
    for name, kind in kinds.items():
        if not isinstance(config.get(name), kind):
            raise TranslationError(f"{path} does not say {name}: export the model again")
    numbers = [config["search"].get(name) for name in ("lenpen", "max_len_a", "max_len_b", "beam")]
    if not all(type(number) in (int, float) for number in numbers) or type(numbers[-1]) is not int:
        raise TranslationError(f"{path}: search is not in numbers: export the model again")
    for name in FILES:
        if not isinstance(config["files"].get(name), dict):
            raise TranslationError(f"{path} does not list {name}: export the model again")
    return config


def _read_checked(folder: Path, name: str, listed: dict) -> bytes:
    """A file of the folder, if it is what config.json says."""
    path = folder / name
    if path.resolve().parent != folder.resolve():
        raise TranslationError(f"{path} is a link to another folder: refused")
    try:
        data = path.read_bytes() if path.stat().st_size == listed.get("bytes") else b""
    except OSError as error:
        raise TranslationError(f"{path}: {error.strerror}: export the model again") from None
    if hashlib.sha256(data).hexdigest() != listed.get("sha256"):
        raise TranslationError(f"{path} is not the file that config.json lists: export it again")
    # what a tensor outside the file is called by in it
    if path.suffix == ".onnx" and b"location" in data:
        raise TranslationError(f"{path} refers to other files: refused")
    return data


def _session(graph: bytes, threads: Optional[int], spin: bool) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spin)))
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


# the program


def _read_lines(path: Optional[str]) -> List[str]:
    name = path or "standard input"
    if not path and sys.stdin is None:
        raise TranslationError("standard input is closed: give --input")
    data = Path(path).read_bytes() if path else sys.stdin.buffer.read()
    if name.endswith(".gz"):
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error):
            raise TranslationError(f"{name}: cut off or damaged: copy it again") from None
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data:
        raise TranslationError(f"{name}: empty file: give one sentence a line")
    lines = data.removesuffix(b"\n").split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            lines[number - 1] = line.rstrip(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise TranslationError(
                f"{name}, line {number}: invalid UTF-8 (byte {error.start + 1} of the line): "
                "convert it to UTF-8 or remove the line"
            ) from None
    return lines


def _check_output(path: Optional[str], source: Optional[str]) -> None:
    """Refuse, before any work is done, what would lose the output or the input."""
    if path is None:
        wrong = "standard output is closed: give --output" if sys.stdout is None else None
    elif os.path.exists(path) and not os.path.isfile(path):
        wrong = f"{path} is no regular file: name another"
    elif not os.path.isdir(os.path.dirname(path) or "."):
        wrong = f"{path} has no folder to be in: name a file in a folder that is there"
    elif source is not None and os.path.exists(path) and os.path.samefile(path, source):
        wrong = f"{path} is the input: choose another file to write"
    else:
        wrong = None
    if wrong:
        raise TranslationError(wrong)


def _main(args) -> None:
    _check_output(args.output, args.input)
    started = time.perf_counter()
    translator = Translator(Path(__file__).parent, args.threads)
    ready = time.perf_counter()
    lines = _read_lines(args.input)
    options = {name: getattr(args, name) for name in ("beam", "lenpen", "max_len_a", "max_len_b")}
    options.update({name: getattr(args, name) for name in ("nbest", "max_tokens", "truncate")})
    found = translator.stream(lines, shortlist=args.shortlist, **options)
    temporary = f"{args.output}.{os.getpid()}.tmp" if args.output else None
    try:
        with open(temporary or os.dup(1), "w", encoding="utf-8", newline="\n") as output:
            for number, hypotheses in enumerate(found, 1):
                texts = [hypothesis.text for hypothesis in hypotheses]
                output.writelines(f"{text}\n" for text in texts + [""] * (args.nbest - len(texts)))
                if number % 100 == 0 or number == len(lines):
                    end = "\n" if number == len(lines) else "\r"
                    print(f"{number} of {len(lines)} lines", end=end, file=sys.stderr, flush=True)
        if temporary:
            os.replace(temporary, args.output)
    finally:
        if temporary and os.path.exists(temporary):
            os.remove(temporary)
    seconds = time.perf_counter() - ready
    print(f"ready in {ready - started:.2f} s, translated in {seconds:.2f} s", file=sys.stderr)


def main() -> int:
    """The program; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--input", metavar="FILE", help="text, plain or .gz, or - (default: stdin)")
    parser.add_argument("--output", metavar="FILE", help="file to write, or - (default: stdout)")
    parser.add_argument("--beam", type=int, metavar="N")
    parser.add_argument("--lenpen", type=float, metavar="X", help="length penalty")
    parser.add_argument(
        "--nbest", type=int, default=1, metavar="N", help="translations of each line"
    )
    parser.add_argument("--max-len-a", type=float, metavar="A", help="A x source + B subwords ...")
    parser.add_argument("--max-len-b", type=int, metavar="B", help="... are in a translation")
    parser.add_argument("--max-tokens", type=int, default=4096, metavar="N", help="of a batch")
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: all cores)")
    parser.add_argument("--truncate", action="store_true", help="cut lines that are too long")
    parser.add_argument(
        "--shortlist", action="store_true", help="choose from the likely subwords: faster"
    )
    if sys.stderr is None:  # print() would write messages to standard output
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:
        args = parser.parse_args()
        for name in ("input", "output"):
            if getattr(args, name) == "-":
                setattr(args, name, None)
        _main(args)
    except TranslationError as error:
        print(f"runtime.py: error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""  # none where the disk is full
        print(f"runtime.py: error: {where}{error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("runtime.py: stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    # a batch system sends it at the end of the time: what is half-written is removed
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
