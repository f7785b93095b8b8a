#!/usr/bin/env python3
"""Translate with an exported model: numpy, onnxruntime and sentencepiece, nothing else.

python MODEL/runtime.py --input test.en --output test.de, or, in Python,
ExportedModel("MODEL").translate(["A sentence."]). The search is fairseq's beam search.
"""

import argparse
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
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import sentencepiece

FORMAT = 2
BOS, PAD, EOS, UNKNOWN = range(4)  # the first words of every fairseq dictionary
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # begins a word, in SentencePiece
BYTES = re.compile(r"(?<!\S)<0x[0-9A-F]{2}>( <0x[0-9A-F]{2}>)*(?!\S)")  # spell a rare character
FILES = ("encoder.onnx", "step.onnx", "spm.model", "source.txt", "target.txt")
CHUNK = 2048  # lines that are sorted by length together
ROOM = 8  # positions by which the memory of past words grows


class TranslationError(ValueError):
    """Its message is one line that says what is wrong and what to do."""


class Translation(NamedTuple):
    text: str
    score: float  # log probability divided by length to the power of the length penalty
    pieces: list[str]  # subwords of the text
    # if asked for: of each piece and the end (rows) to each source piece and the end (columns)
    attention: np.ndarray | None = None


class ExportedModel:
    """A *folder* that `resmlp-mt export` wrote; *threads* are all cores by default.

    Attributes:
        config: the contents of config.json.
        source_pieces, target_pieces: the dictionaries, by number.
        limit: pieces of a source that the model reads.
    """

    def __init__(self, folder, threads: int | None = None, native: bool = False):
        try:
            self._load(Path(folder), threads, native)
        except TranslationError as error:
            raise TranslationError(f"{folder}: {error}") from None
        except OSError as error:
            reason = f"{error.filename}: {error.strerror}"
            raise TranslationError(f"{reason}: give a folder of resmlp-mt export") from None
        except Exception as error:  # a damaged file can raise anything inside a library
            raise TranslationError(
                f"{folder}: damaged: {_reason(error)}: export it again"
            ) from None

    def _load(self, folder: Path, threads: int | None, native: bool) -> None:
        self.config = config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if config["format"] != FORMAT:
            raise ValueError(f"format {config['format']}, not {FORMAT}: use its own runtime.py")
        data = {name: _read_checked(folder / name, config["files"][name]) for name in FILES}
        self.source_pieces, self.target_pieces = (
            data[name].decode("utf-8").split("\n")[:-1] for name in ("source.txt", "target.txt")
        )
        self.numbers = {piece: number for number, piece in enumerate(self.source_pieces)}
        if config["vocabulary"] != [len(self.numbers), len(self.target_pieces)]:
            raise ValueError("the dictionaries do not fit config.json")
        self.limit = config["positions"][0] - 1
        self.search_engine = BeamSearch(data, config, threads, native)
        self._subwords = sentencepiece.SentencePieceProcessor(model_proto=data["spm.model"])
        self._normalisation = [(re.compile(a), b) for a, b in config["normalisation"]]
        types = {"beam": int, "lenpen": float, "max_len_a": float, "max_len_b": int}
        self._search = {name: type_(config["search"][name]) for name, type_ in types.items()}
        self.search([])  # refuses values out of range

    def pieces(self, line: str) -> list[str]:
        """The subwords of a line; none if it has no word."""
        for pattern, replacement in self._normalisation:
            line = pattern.sub(replacement, line)
        line = one_line(line)
        try:
            line.encode()
        except UnicodeEncodeError:
            raise TranslationError(f"{line[:60]!a}: invalid UTF-8: give text in UTF-8") from None
        found = []
        for piece in self._subwords.encode(line, out_type=str):
            # text that looks like one of fairseq's symbols is not that symbol
            number = self._subwords.piece_to_id(piece) if piece in SPECIAL else None
            found.extend(piece if number == self._subwords.unk_id() else [piece])
        return " ".join(found).split()

    def translate(self, lines: Iterable[str], nbest: int = 1, **options) -> list:
        """The translation of each line (``""`` where it has no word), or a list of the *nbest*."""
        found = self.stream(lines, nbest=nbest, **options)
        texts = ([translation.text for translation in one] for one in found)
        return [one[0] if one else "" for one in texts] if nbest == 1 else list(texts)

    def stream(
        self, lines: Iterable[str], truncate: bool = False, **options
    ) -> Iterator[list[Translation]]:
        """The translations of each line, the best first, while lines are still read.

        With *truncate* those of the beginning of a line that is too long, which is an error
        otherwise. The other options are those of :meth:`search`.
        """
        if isinstance(lines, str):
            raise TranslationError("one str: give a list of lines")
        numbered = enumerate(lines, 1)
        while chunk := list(itertools.islice(numbered, CHUNK)):
            sources = [self.pieces(line) for _, line in chunk]
            for (number, _), source in zip(chunk, sources):
                if len(source) > self.limit and not truncate:
                    raise TranslationError(
                        f"line {number}: {len(source)} pieces, but the model reads {self.limit}: "
                        "split or shorten it, or translate its beginning alone (--truncate)"
                    )
            for (number, _), source, found in zip(chunk, sources, self.search(sources, **options)):
                if source and not found:
                    raise TranslationError(
                        f"line {number}: its scores are NaN or infinite: export another "
                        "checkpoint, or without --float16 and --int8"
                    )
                yield found

    def search(
        self,
        sources: Sequence[Sequence[str]],
        nbest: int = 1,
        max_tokens: int = 4096,
        return_attention: bool = False,
        **search: float | None,
    ) -> list[list[Translation]]:
        """The translations of each sentence, the best first; none if its scores are not finite.

        Args:
            sources: subwords of each sentence; the first *limit* are read.
            nbest: translations of each sentence, at most *beam*.
            max_tokens: source subwords of a batch, padding included.
            search: beam, lenpen, max_len_a and max_len_b, as of fairseq-generate; None or not
                given: as in config.json.
        """
        given = {name: value for name, value in search.items() if value is not None}
        options: dict[str, Any] = {**self._search, **given}
        beam, lenpen, a, b = (options[name] for name in self._search)
        most = (len(self.target_pieces) - 1) // 2
        if not 1 <= nbest <= beam <= most:
            raise TranslationError(f"beam {beam}, nbest {nbest}: give 1 <= nbest <= beam <= {most}")
        if not (-10 <= lenpen <= 10 and 0 <= a <= 1000 and 1 <= b < math.inf):
            raise TranslationError(
                f"lenpen {lenpen}, max_len_a {a}, max_len_b {b}: give a lenpen from -10 to 10, a "
                "max_len_a from 0 to 1000 and a max_len_b of at least 1"
            )
        encoded = [
            [*(self.numbers.get(piece, UNKNOWN) for piece in source[: self.limit]), EOS]
            for source in sources
        ]
        results: list[list[Translation]] = [[] for _ in sources]
        for batch in _batches([len(ids) for ids in encoded], max_tokens):
            some = [encoded[i] for i in batch]
            try:
                found = self.search_engine.search(some, attention=return_attention, **options)
            except TranslationError:
                raise
            except Exception as error:  # files that lie about shapes fail inside a library
                raise TranslationError(f"damaged: {_reason(error)}: export it again") from None
            for i, hypotheses in zip(batch, found):
                results[i] = [self._translation(*one) for one in hypotheses[:nbest]]
        return results

    def _translation(self, score: float, words: np.ndarray, attention) -> Translation:
        pieces = [self.target_pieces[word] for word in words]
        # fairseq prints no <s>
        shown = " ".join(piece for piece, word in zip(pieces, words) if word != BOS)
        text = one_line(BYTES.sub(_spelled, shown).replace(" ", "").replace(SPACE, " "))
        return Translation(text, score, pieces, attention)


class BeamSearch:
    """The two graphs, and fairseq's beam search over the numbers of subwords.

    B sentences have J hypotheses each: one at the first word, later *beam*.
    """

    def __init__(
        self,
        files: dict[str, bytes],
        config: dict,
        threads: int | None = None,
        native: bool = False,
    ):
        self.config = config
        self.encoder = _session(files["encoder.onnx"], threads, spin=False)
        self.step = None if native else _session(files["step.onnx"], threads, spin=True)
        for session in filter(None, (self.encoder, self.step)):
            known = json.loads(session.get_modelmeta().custom_metadata_map["config"])
            if known != {name: config.get(name) for name in known}:
                raise ValueError("config.json does not fit the graphs")
        places = (config["embeddings"][side] for side in ("source", "target"))
        self._source, self._target = (
            Embedding(files[place["file"]], place, size)
            for place, size in zip(places, config["vocabulary"])
        )
        self._encoded = [output.name for output in self.encoder.get_outputs()]
        self._outputs = [output.name for output in self.step.get_outputs()] if self.step else []
        self._native = None
        if native:
            self._native = _native(files["step.onnx"], config, self._target)
            self._threads = threads or _cores()

    def search(
        self,
        sources: Sequence[Sequence[int]],
        beam: int,
        lenpen: float,
        max_len_a: float,
        max_len_b: int,
        attention: bool = False,
    ) -> list[list]:
        """The hypotheses of each sentence, the best first: score, words, attention or None. There
        are none if its scores are not finite. *sources* are numbers that end with EOS."""
        count, length = len(sources), max(map(len, sources))
        limit = min(int(max_len_a * length + max_len_b), self.config["positions"][1] - 1)
        if self._native:
            if attention:
                raise TranslationError("the native step has no attention weights: use the graph")
            encoded = self._encode(sources)
            found = self._native.search(encoded, beam, lenpen, limit, self._threads)
            return [[(*one, None) for one in hypotheses] for hypotheses in found]
        memory = self.encode(sources, beam)
        finished: list[list] = [[] for _ in sources]
        left, done = np.arange(count), np.zeros(count, bool)  # sentences that are not dropped yet
        newest = np.full((count, 1), EOS, np.int32)
        totals = np.zeros((count, 1), np.float32)
        past_words = np.zeros((count, 1, 0), np.int32)
        past_weights = np.zeros((count, 1, 0, length), np.float32)
        for step in range(limit + 1):
            out = self.run_step(newest, memory, step, 2 * beam + 2)
            ends = totals + out["end_scores"].reshape(totals.shape)
            if not np.isfinite(ends).all():
                for place in np.flatnonzero(~done & ~np.isfinite(ends).all(axis=1)):
                    finished[left[place]], done[place] = [], True
            if attention:
                past_weights = _append(past_weights, memory.attention(out["query"]))
            if step < limit:
                scores, words, parents = continuations(out, totals, step == 0, 2 * beam)
            else:
                parents = np.argsort(-ends, axis=1, kind="stable")
                scores, words = np.take_along_axis(ends, parents, 1), np.full_like(parents, EOS)
            is_end = (words == EOS) & (scores != -np.inf)
            if is_end.any():
                for place, rank in np.argwhere(is_end[:, :beam]):
                    if done[place]:
                        continue
                    hypotheses, row = finished[left[place]], parents[place, rank]
                    score = float(scores[place, rank] / np.float32((step + 1) ** lenpen))
                    weights = past_weights[place, row, :, : len(sources[left[place]])]
                    weights = weights if attention else None
                    hypotheses.append((score, past_words[place, row], weights))
                    done[place] = len(hypotheses) == beam
                # ends go last; a row ends at most once, so that enough others are left
                order = np.argsort(is_end, axis=1, kind="stable")
                each = np.arange(len(left))[:, None]
                scores, words, parents = (x[each, order] for x in (scores, words, parents))
            if step == limit or done.all():
                break
            totals, newest, parents = (x[:, :beam] for x in (scores, words, parents))
            if 8 * done.sum() >= len(done):  # a copy of the rest costs as much as steps of a few
                kept = np.flatnonzero(~done)
                left, totals, newest, parents = (x[kept] for x in (left, totals, newest, parents))
                done, past_words, past_weights = done[kept], past_words[kept], past_weights[kept]
                memory.keep(kept)
            memory.follow(parents)
            rows = np.arange(len(left))[:, None], parents
            past_words, past_weights = _append(past_words[rows], newest), past_weights[rows]
        return [sorted(found, key=lambda one: -one[0]) for found in finished]

    def encode(self, sources: Sequence[Sequence[int]], beam: int) -> "Memory":
        return Memory(self._encode(sources), self.config, beam)

    def _encode(self, sources: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
        """What the decoder reads of B sentences."""
        lengths = np.array([len(source) for source in sources], np.int32)
        words = np.full((len(sources), lengths.max()), PAD, np.int32)
        for row, source in zip(words, sources):
            row[: len(source)] = source
        inside = (np.arange(words.shape[1]) < lengths[:, None]).astype(np.float32)
        feed = {"embedded": self._source.rows(words), "inside": inside[:, :, None, None]}
        encoded = dict(zip(self._encoded, self.encoder.run(self._encoded, feed)))
        return {**encoded, "lengths": lengths}

    def run_step(self, newest: np.ndarray, memory: "Memory", step: int, count: int) -> dict:
        """The outputs of one step for the B x J newest words, which *memory* keeps: *step* words
        came before them, and *count* of the best words are wanted of each."""
        feed = {
            "embedded": self._target.rows(newest.reshape(-1)),
            "shape": np.array([*newest.shape, self.config["channels"][1]]),
            "count": np.array([min(count, self.config["vocabulary"][1])]),
            "position": np.array([step], np.int32),
            **memory.feed,
        }
        out = dict(zip(self._outputs, self.step.run(self._outputs, feed)))
        memory.write(step, out.get("new"), newest.shape[1])
        return out


def continuations(out: dict, totals: np.ndarray, is_first: bool, count: int) -> tuple:
    """Scores, words and rows of the best ways to go on, B x *count* each, the best first."""
    (sentences, rows), words = totals.shape, out["words"]
    scores = out["scores"] + totals.reshape(-1, 1)
    scores[(words == PAD) | (is_first & (words == EOS))] = -np.inf
    scores, words = scores.reshape(sentences, -1), words.reshape(sentences, -1)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    each = np.arange(sentences)[:, None]
    return scores[each, best], words[each, best], best // (words.shape[1] // rows)


class Embedding:
    """A C x V matrix in the file of a graph; its columns are the words."""

    def __init__(self, file: bytes, place: dict, vocabulary: int):
        channels, (first, *rest) = place["channels"], place["offsets"]
        values = np.frombuffer(file, place["type"], channels * vocabulary, first)
        # V x C: a column is a thousand cache lines. The copy also lets the file go
        self.values = np.array(values.reshape(channels, vocabulary).T, order="C")
        self.scale = np.full((vocabulary, 1), place["scale"], np.float32)
        if rest:
            self.scale *= np.frombuffer(file, np.float32, vocabulary, rest[0])[:, None]

    def rows(self, words: np.ndarray) -> np.ndarray:
        """... to ... x C, float32."""
        return self.values[words] * self.scale[words]


class Memory:
    """What a batch remembers from step to step: keys and values of the source, and what past words
    have put into the mixing sublayers.

    A past word has a slot. ``ages`` says how many words back it is for each hypothesis, 0 if it is
    not in its past, so that nothing is copied when beams move.
    """

    def __init__(self, encoded: dict, config: dict, beam: int):
        self.feed, self.beam, self.window = encoded, beam, config["window"]
        self._layer, self.used = config["layers"][1] - 1, 0
        self._groups = config["memory"]
        if self._groups:
            sentences, slots = len(encoded["lengths"]), (self.window or ROOM) * beam
            groups, channels = self._groups
            self.feed["past"] = np.zeros((groups, sentences, slots, channels), np.float32)
            self.feed["ages"] = np.zeros((sentences, 1, slots), np.int32)

    def write(self, step: int, new: np.ndarray | None, rows: int) -> None:
        """Keep what the newest words of J hypotheses have put into the mixing sublayers."""
        if new is None:
            return
        if self.window:  # the oldest position makes room
            first = step % self.window * self.beam
            self.feed["ages"][:, :, first : first + self.beam] = 0
        else:
            if self.used + rows > self.feed["ages"].shape[2]:
                self._make_room()
            first, self.used = self.used, self.used + rows
        past, ages = self.feed["past"], self.feed["ages"]
        groups, sentences, _, channels = past.shape
        new = new.reshape(sentences, rows, groups, channels)
        past[:, :, first : first + rows] = new.transpose(2, 0, 1, 3)
        ages += ages > 0
        ages[:, :, first : first + rows] = np.eye(rows, dtype=np.int32)

    def _make_room(self) -> None:
        """Keep the slots that some hypothesis reads, and have free ones behind them."""
        past, ages = self.feed["past"], self.feed["ages"]
        read = ages.any(axis=1)
        self.used = int(read.sum(axis=1).max())
        kept = np.argsort(~read, axis=1, kind="stable")[:, : self.used]
        slots, shape = self.used + ROOM * self.beam, past.shape
        self.feed["past"] = np.zeros((*shape[:2], slots, shape[3]), np.float32)
        self.feed["past"][:, :, : self.used] = past[:, np.arange(len(kept))[:, None], kept]
        self.feed["ages"] = np.zeros((*ages.shape[:2], slots), np.int32)
        self.feed["ages"][:, :, : self.used] = np.take_along_axis(ages, kept[:, None], 2)

    def keep(self, sentences: np.ndarray) -> None:
        """Drop all but these of the sentences that are left."""
        self.feed = {
            name: x[:, sentences] if name == "past" else x[sentences]
            for name, x in self.feed.items()
        }

    def follow(self, parents: np.ndarray) -> None:
        """Let hypothesis j of each sentence go on from hypothesis ``parents[j]``."""
        if self._groups:
            self.feed["ages"] = self.feed["ages"][np.arange(len(parents))[:, None], parents]

    def attention(self, query: np.ndarray) -> np.ndarray:
        """The weights over the source that the last layer uses, mean of the heads, B x J x S."""
        keys = self.feed[f"keys.{self._layer}"]
        sentences, heads, length, channels = keys.shape
        query = query.reshape(sentences, -1, heads, channels).transpose(0, 2, 1, 3)
        scores = query @ keys.transpose(0, 1, 3, 2)
        padding = np.arange(length) >= self.feed["lengths"][:, None]
        scores = np.where(padding[:, None, None], -np.inf, scores)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return (weights / weights.sum(axis=-1, keepdims=True)).mean(axis=1)


def one_line(text: str) -> str:
    """Every run of white space, line breaks of any kind and NUL as one space."""
    return " ".join(text.replace("\0", " ").split())


def _reason(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}")[:200]


def _spelled(run: re.Match) -> str:
    """The text of pieces such as ``<0xC3> <0xA9>``."""
    return one_line(bytes.fromhex(re.sub("<0x|>", "", run[0])).decode(errors="replace"))


def _append(history: np.ndarray, newest: np.ndarray) -> np.ndarray:
    return np.concatenate([history, newest[:, :, None]], axis=2)


def _batches(lengths: list[int], max_tokens: int) -> Iterator[list[int]]:
    """Numbers of sentences of similar length, the longest first; none of those of an end alone."""
    batch: list[int] = []
    filled = [number for number, length in enumerate(lengths) if length > 1]
    for number in sorted(filled, key=lambda i: -lengths[i]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > max_tokens:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def _read_checked(path: Path, listed: dict) -> bytes:
    """A file of the folder, if it is what config.json says."""
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != listed["sha256"]:
        raise ValueError(f"{path.name} is not the file that config.json lists")
    # the key by which a graph refers to a tensor in another file
    if path.suffix == ".onnx" and b"location" in data:
        raise ValueError(f"{path.name} refers to other files")
    return data


def _cores() -> int:
    """As many as this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _session(graph: bytes, threads: int | None, spin: bool) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spin)))
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _native(file: bytes, config: dict, embedding: Embedding):
    """The search in C++, by the arrays in the file of the step."""
    try:
        from resmlp_mt_native import NativeSearch
    except ImportError as error:
        raise TranslationError(
            f"{error}: install the wheel resmlp-mt-native, or translate without native"
        ) from None
    if not config.get("native"):
        raise TranslationError("the native step: the folder is older: export the model again")
    tensors = {
        name: np.frombuffer(file, type_, math.prod(shape), offset).reshape(shape)
        for name, (type_, shape, offset) in config["native"]["arrays"].items()
    }
    try:
        return NativeSearch(tensors, embedding.values, embedding.scale, config)
    except ValueError as error:
        raise TranslationError(f"the native step: {error}") from None


# the program


def _read_lines(path: str | None) -> list[str]:
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
    try:
        return data.decode("utf-8").removesuffix("\n").split("\n") if data else []
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise TranslationError(
            f"{name}, line {number}: invalid UTF-8: convert it or remove the line"
        ) from None


def _main(args) -> None:
    if args.output is None and sys.stdout is None:
        raise TranslationError("standard output is closed: give --output")
    if args.output and os.path.exists(args.output):
        if not os.path.isfile(args.output):
            raise TranslationError(f"{args.output} is no regular file: name another")
        if args.input and os.path.samefile(args.output, args.input):
            raise TranslationError(f"{args.output} is the input: choose another file to write")
    started = time.perf_counter()
    model = ExportedModel(Path(__file__).parent, args.threads, args.native)
    ready = time.perf_counter()
    lines = _read_lines(args.input)
    used = {"input", "output", "threads", "native"}
    options = {name: value for name, value in vars(args).items() if name not in used}
    temporary = f"{args.output}.{os.getpid()}.tmp" if args.output else None
    try:
        with open(temporary or os.dup(1), "w", encoding="utf-8", newline="\n") as output:
            for number, found in enumerate(model.stream(lines, **options), 1):
                texts = [translation.text for translation in found]
                output.writelines(f"{text}\n" for text in texts + [""] * (args.nbest - len(texts)))
                if number % 100 == 0 or number == len(lines):
                    end = "\r" if sys.stderr.isatty() and number < len(lines) else "\n"
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
    file: dict = {"type": lambda path: None if path == "-" else path, "metavar": "FILE"}
    parser.add_argument("--input", **file, help="text, plain or .gz, or - (default: stdin)")
    parser.add_argument("--output", **file, help="file to write, or - (default: stdout)")
    parser.add_argument("--beam", type=int, metavar="N")
    parser.add_argument("--lenpen", type=float, metavar="X", help="length penalty")
    parser.add_argument("--nbest", type=int, default=1, metavar="N", help="best of each line")
    parser.add_argument("--max-len-a", type=float, metavar="A", help="A x source + B subwords ...")
    parser.add_argument("--max-len-b", type=int, metavar="B", help="... are in a translation")
    parser.add_argument("--max-tokens", type=int, default=4096, metavar="N", help="of a batch")
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: all cores)")
    parser.add_argument("--native", action="store_true", help="use the wheel resmlp-mt-native")
    parser.add_argument("--truncate", action="store_true", help="cut lines that are too long")
    if sys.stderr is None:  # print() would write messages to standard output
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:
        _main(parser.parse_args())
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
