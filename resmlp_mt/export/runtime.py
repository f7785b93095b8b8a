#!/usr/bin/env python3
"""Translate with an exported model: numpy, sentencepiece, and onnxruntime or the native runtime.

python MODEL/runtime.py --input test.en --output test.de, or, in Python,
ExportedModel("MODEL").translate(["A sentence."]). The search is fairseq's beam search.
"""

import argparse
import hashlib
import itertools
import json
import math
import mmap
import os
import re
import select
import signal
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sentencepiece

FORMAT = 3
BOS, PAD, EOS, UNKNOWN = range(4)  # the first tokens of every fairseq dictionary
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # begins a word, in SentencePiece
BYTES = re.compile(r"(?<!\S)<0x[0-9A-F]{2}>( <0x[0-9A-F]{2}>)*(?!\S)")  # spell a rare character
_CONTROL = re.compile("[\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")  # that are not white space
WEIGHTS = "weights.safetensors"
FILES = ("encoder.onnx", "step.onnx", WEIGHTS, "spm.model", "source.txt", "target.txt")
TYPES = {"F32": np.float32, "F16": np.float16, "I8": np.int8}  # of arrays
CHUNK = 512  # lines that are sorted by length together
ROOM = 8  # positions by which the memory of past tokens grows
PATIENCE = 0.05  # seconds without input after which what has been read is translated


class TranslationError(ValueError):
    """Its message is one line that says what is wrong and what to do."""


class Translation(NamedTuple):
    text: str
    score: float  # log probability divided by length to the power of the length penalty
    pieces: list[str]  # tokens of the text
    cut: bool  # it has as many of them as it may


class ExportedModel:
    """A *folder* that `resmlp-mt export` wrote; *threads* are all cores by default.

    The native runtime translates where the wheel resmlp-mt-native is installed, ONNX Runtime
    elsewhere, or if *graph* asks for it.

    Attributes:
        config: the contents of config.json.
        source_pieces, target_pieces: the dictionaries, by index.
        limit: tokens of a source that the model reads.
    """

    def __init__(self, folder, threads: int | None = None, graph: bool = False):
        try:
            self.folder = Path(folder)
            self._load(self.folder, threads, graph)
        except TranslationError as error:
            raise TranslationError(f"{folder}: {error}") from None
        except OSError as error:
            reason = f"{error.filename}: {error.strerror}"
            raise TranslationError(f"{reason}: give a folder of resmlp-mt export") from None
        except Exception as error:  # a damaged file can raise anything inside a library
            raise TranslationError(f"{folder}: {_damaged(error)}") from None

    def _load(self, folder: Path, threads: int | None, graph: bool) -> None:
        self.config = config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if config["format"] != FORMAT:
            raise TranslationError(
                f"format {config['format']}, not {FORMAT}: export the model again, or use the "
                "runtime.py in the folder"
            )
        data = {name: _mapped(folder / name, config["files"][name]) for name in FILES}
        self.source_pieces, self.target_pieces = (
            data[name][:].decode("utf-8").split("\n")[:-1] for name in ("source.txt", "target.txt")
        )
        self.index = {piece: index for index, piece in enumerate(self.source_pieces)}
        if config["vocabulary"] != [len(self.index), len(self.target_pieces)]:
            raise ValueError("the dictionaries do not fit config.json")
        self.limit = config["positions"][0] - 1
        self.search_engine = BeamSearch(data, config, threads, graph)
        if hasattr(mmap, "MADV_DONTNEED"):  # the engine has a copy in a layout of its own
            data[WEIGHTS].madvise(mmap.MADV_DONTNEED)
        self._subwords = sentencepiece.SentencePieceProcessor(model_proto=data["spm.model"][:])
        self._normalisation = [(re.compile(a), b) for a, b in config["normalisation"]]
        self._search = config["search"]
        self.search([])  # refuses values out of range

    def pieces(self, line: str) -> list[str]:
        """The tokens of a line; none if it is blank."""
        for pattern, replacement in self._normalisation:
            line = pattern.sub(replacement, line)
        pieces: list[str] = []
        if self.config.get("rule") == "nfc":
            line = one_line(_CONTROL.sub(" ", line).replace(SPACE, " "))
            line = unicodedata.normalize("NFC", line)
        for piece in self._subwords.encode(one_line(line), out_type=str):
            # text that looks like one of fairseq's symbols is not that symbol
            index = self._subwords.piece_to_id(piece) if piece in SPECIAL else None
            pieces.extend(piece if index == self._subwords.unk_id() else [piece])
        return " ".join(pieces).split()

    def translate(self, lines: Iterable[str], **options) -> list[str]:
        """The best translation of each line, ``""`` of a blank one; options of :meth:`stream`."""
        if isinstance(lines, str):
            raise TranslationError("pass a list of lines, not one string")
        return [found[0].text if found else "" for found in self.stream(lines, **options)]

    def stream(
        self, lines: Iterable[str | None], truncate: bool = False, **options
    ) -> Iterator[list[Translation]]:
        """The translations of each line, the best first, while lines are still read.

        Some hundred lines are read ahead and sorted by length. A None among them asks for the
        translations of all lines before it. A line that is too long is an error; with *truncate*
        its beginning is translated. The other options are those of :meth:`search`.
        """
        done = 0  # lines
        for chunk in _chunks(lines):
            sources = [self.pieces(line) for line in chunk]
            for number, source in enumerate(sources, done + 1):
                if len(source) > self.limit and not truncate:
                    raise TranslationError(
                        f"line {number}: {len(source)} tokens, but the model reads {self.limit}: "
                        "split or shorten it, or translate its beginning alone (--truncate)"
                    )
            first = done
            ready: dict[int, list[Translation]] = {i: [] for i, s in enumerate(sources) if not s}
            for batch in itertools.chain([{}], self.batches(sources, **options)):
                ready.update(batch)
                while done - first in ready:
                    translations = ready.pop(done - first)
                    if sources[done - first] and not translations:
                        raise TranslationError(
                            f"line {done + 1}: its scores are NaN or infinite: export another "
                            "checkpoint, or without --float16 and --int8"
                        )
                    yield translations
                    done += 1

    def search(self, sources: Sequence[Sequence[str]], **options) -> list[list[Translation]]:
        """The translations of each sentence, the best first; none of an empty one, and none if its
        scores are not finite. Arguments as of :meth:`batches`."""
        found: dict[int, list[Translation]] = {}
        for batch in self.batches(sources, **options):
            found.update(batch)
        return [found.get(i, []) for i in range(len(sources))]

    def batches(
        self,
        sources: Sequence[Sequence[str]],
        nbest: int = 1,
        max_tokens: int = 4096,
        beam: int | None = None,
        lenpen: float | None = None,
        max_len_a: float | None = None,
        max_len_b: int | None = None,
    ) -> Iterator[dict[int, list[Translation]]]:
        """The translations of the sentences of a batch by their index, batch by batch.

        Args:
            sources: tokens of each sentence; the first *limit* are read.
            nbest: translations per sentence, at most *beam*.
            max_tokens: source tokens per batch, padding included.
            beam, lenpen, max_len_a, max_len_b: as of fairseq-generate; None: as in config.json.
        """
        given = {"beam": beam, "lenpen": lenpen, "max_len_a": max_len_a, "max_len_b": max_len_b}
        options: dict[str, Any] = self._search | {n: v for n, v in given.items() if v is not None}
        beam, lenpen, a, b = (options[name] for name in given)
        most = (len(self.target_pieces) - 1) // 2
        if not 1 <= nbest <= beam <= most:
            raise TranslationError(f"beam {beam}, nbest {nbest}: give 1 <= nbest <= beam <= {most}")
        if not (-10 <= lenpen <= 10 and 0 <= a <= 1000 and 1 <= b < math.inf):
            raise TranslationError(
                f"lenpen {lenpen}, max_len_a {a}, max_len_b {b}: give a lenpen from -10 to 10, a "
                "max_len_a from 0 to 1000 and a max_len_b of at least 1"
            )
        encoded = [
            [*(self.index.get(piece, UNKNOWN) for piece in source[: self.limit]), EOS]
            for source in sources
        ]
        for batch in _batches(list(map(len, encoded)), max_tokens, a != 0):
            try:
                results = self.search_engine.search([encoded[i] for i in batch], **options)
            except MemoryError:
                raise TranslationError("out of memory: lower max_tokens") from None
            except Exception as error:  # graphs that lie about shapes fail inside a library
                raise TranslationError(f"{self.folder}: {_damaged(error)}") from None
            limit = min(int(a * len(encoded[batch[0]]) + b), self.config["positions"][1] - 1)
            yield {
                i: [self._translation(*hypothesis, limit) for hypothesis in hypotheses[:nbest]]
                for i, hypotheses in zip(batch, results)
            }

    def _translation(self, score: float, tokens: np.ndarray, limit: int) -> Translation:
        pieces = [self.target_pieces[token] for token in tokens]
        # fairseq prints no <s>
        shown = " ".join(piece for piece, token in zip(pieces, tokens) if token != BOS)
        text = one_line(BYTES.sub(_spelled, shown).replace(" ", "").replace(SPACE, " "))
        return Translation(text, score, pieces, len(pieces) >= limit)


class BeamSearch:
    """fairseq's beam search over the indices of tokens, by the native runtime or by the graph.

    *files* are the graphs and the weights by name. B sentences have J hypotheses each: one at the
    first token, later *beam*.
    """

    def __init__(self, files: dict, config: dict, threads: int | None = None, graph: bool = False):
        self.config, self._threads = config, threads or _cores()
        arrays = read_arrays(files[WEIGHTS])
        self._native = None if graph else _native(arrays, config)
        if not self._native:
            self._arrays = arrays  # the graphs read some of them there
            self._source, self._target = (Embedding(arrays, *of) for of in config["embeddings"])
            self._encoder = _graph(files["encoder.onnx"], arrays, "encoder", threads, spin=False)
            self._step = _graph(files["step.onnx"], arrays, "decoder", threads, spin=True)

    def search(
        self,
        sources: Sequence[Sequence[int]],
        beam: int,
        lenpen: float,
        max_len_a: float,
        max_len_b: int,
    ) -> list[list[tuple[float, np.ndarray]]]:
        """The hypotheses of each sentence, the best first: score and tokens. There are none if its
        scores are not finite. *sources* are indices that end with EOS."""
        count, length = len(sources), max(map(len, sources))
        limit = min(int(max_len_a * length + max_len_b), self.config["positions"][1] - 1)
        if self._native:
            return self._native.search(sources, beam, lenpen, limit, self._threads)
        memory = Memory(self._encode(sources), self.config, beam)
        finished: list[list] = [[] for _ in sources]
        # the sentences that are not dropped yet, and which of them are done
        active = np.arange(count)
        done: np.ndarray = np.zeros(count, bool)
        newest: np.ndarray = np.full((count, 1), EOS, np.int32)
        totals: np.ndarray = np.zeros((count, 1), np.float32)
        past: np.ndarray = np.zeros((count, 1, 0), np.int32)
        for step in range(limit + 1):
            out = self.run_step(newest, memory, step, 2 * beam + 2)
            ends = totals + out["end_scores"].reshape(totals.shape)
            for i in np.flatnonzero(~done & ~np.isfinite(ends).all(axis=1)):
                finished[active[i]], done[i] = [], True
            if step < limit:
                scores, tokens, parents = continuations(out, totals, step == 0, 2 * beam)
            else:
                parents = np.argsort(-ends, axis=1, kind="stable")
                scores, tokens = np.take_along_axis(ends, parents, 1), np.full_like(parents, EOS)
            is_end = (tokens == EOS) & (scores != -np.inf)
            if is_end.any():
                for i, rank in np.argwhere(is_end[:, :beam]):
                    if done[i]:
                        continue
                    hypotheses = finished[active[i]]
                    score = float(scores[i, rank] / np.float32((step + 1) ** lenpen))
                    hypotheses.append((score, past[i, parents[i, rank]]))
                    done[i] = len(hypotheses) == beam
                # ends go last; a row ends at most once: enough others come first
                order = np.argsort(is_end, axis=1, kind="stable")
                each = np.arange(len(active))[:, None]
                scores, tokens, parents = (x[each, order] for x in (scores, tokens, parents))
            if step == limit or done.all():
                break
            totals, newest, parents = (x[:, :beam] for x in (scores, tokens, parents))
            if 8 * done.sum() >= len(done):  # copying the others costs as much as a few steps
                others = np.flatnonzero(~done)
                active, totals, newest, parents, done, past = (
                    x[others] for x in (active, totals, newest, parents, done, past)
                )
                memory.keep(others)
            memory.follow(parents)
            past = past[np.arange(len(active))[:, None], parents]
            past = np.concatenate([past, newest[:, :, None]], axis=2)
        return [sorted(hypotheses, key=lambda one: -one[0]) for hypotheses in finished]

    def _encode(self, sources: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
        """What the decoder reads of B sentences."""
        lengths = np.array([len(source) for source in sources], np.int32)
        tokens = np.full((len(sources), lengths.max()), PAD, np.int32)
        for row, source in zip(tokens, sources):
            row[: len(source)] = source
        inside = (np.arange(tokens.shape[1]) < lengths[:, None]).astype(np.float32)
        feed = {"embedded": self._source.rows(tokens), "inside": inside[:, :, None, None]}
        return {**self._encoder(feed), "lengths": lengths}

    def run_step(self, newest: np.ndarray, memory: "Memory", step: int, count: int) -> dict:
        """The outputs of one step for the B x J newest tokens, which *memory* stores: *step* tokens
        came before them; the *count* best tokens of each are returned."""
        feed = {
            "embedded": self._target.rows(newest.reshape(-1)),
            "shape": np.array([*newest.shape, self.config["channels"][1]]),
            "count": np.array([min(count, self.config["vocabulary"][1])]),
            "position": np.array([step], np.int32),
            **memory.feed,
        }
        out = self._step(feed)
        if "past" in memory.feed:
            memory.write(out["new"], newest.shape[1])
        return out


def continuations(out: dict, totals: np.ndarray, is_first: bool, count: int) -> tuple:
    """Scores, tokens and parents of the best *count* continuations of each sentence, the best
    first."""
    (sentences, rows), tokens = totals.shape, out["tokens"]
    scores = out["scores"] + totals.reshape(-1, 1)
    scores[(tokens == PAD) | (is_first & (tokens == EOS))] = -np.inf
    scores, tokens = scores.reshape(sentences, -1), tokens.reshape(sentences, -1)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    each = np.arange(sentences)[:, None]
    return scores[each, best], tokens[each, best], best // (tokens.shape[1] // rows)


class Embedding:
    """The columns of the C x V matrix *name* and their scales, times *factor*."""

    def __init__(self, arrays: dict[str, np.ndarray], name: str, factor: float):
        # V x C: a column is a thousand cache lines
        self.values = np.array(arrays[f"{name}.weight"].T, order="C")
        scale = arrays.get(f"{name}.scale", np.ones(len(self.values), np.float32))
        self.scale = np.float32(factor) * scale[:, None]

    def rows(self, tokens: np.ndarray) -> np.ndarray:
        """... to ... x C, float32."""
        return self.values[tokens] * self.scale[tokens]


class Memory:
    """What a batch remembers from step to step: keys and values of the source, and past inputs of
    the mixing sublayers.

    A past token has a slot. ``ages`` says how many tokens back it is for each hypothesis, 0 if it
    is not in its past, so that nothing is copied when beams move.
    """

    def __init__(self, encoded: dict, config: dict, beam: int):
        self.feed, self.beam, self.used = encoded, beam, 0
        if config["memory"]:
            groups, channels = config["memory"]
            sentences, slots = len(encoded["lengths"]), ROOM * beam
            self.feed["past"] = np.zeros((groups, sentences, slots, channels), np.float32)
            self.feed["ages"] = np.zeros((sentences, 1, slots), np.int32)

    def write(self, new: np.ndarray, rows: int) -> None:
        """Store the inputs of the mixing sublayers at the newest tokens of J hypotheses."""
        if self.used + rows > self.feed["ages"].shape[2]:
            self._make_room()
        first, self.used = self.used, self.used + rows
        past, ages = self.feed["past"], self.feed["ages"]
        groups, sentences, _, channels = past.shape
        new = new.reshape(sentences, rows, groups, channels)
        past[:, :, first : self.used] = new.transpose(2, 0, 1, 3)
        ages += ages > 0
        ages[:, :, first : self.used] = np.eye(rows, dtype=np.int32)

    def _make_room(self) -> None:
        """Keep the slots that a hypothesis reads, with free ones behind them."""
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
        """Drop all but these of the active sentences."""
        self.feed = {
            name: x[:, sentences] if name == "past" else x[sentences]
            for name, x in self.feed.items()
        }

    def follow(self, parents: np.ndarray) -> None:
        """Let hypothesis j of each sentence continue hypothesis ``parents[j]``."""
        if "ages" in self.feed:
            self.feed["ages"] = self.feed["ages"][np.arange(len(parents))[:, None], parents]


def one_line(text: str) -> str:
    """Every run of white space, line breaks of any kind and NUL as one space."""
    return " ".join(text.replace("\0", " ").split())


def _damaged(error: Exception) -> str:
    reason = one_line(f"{type(error).__name__}: {error}")[:200]
    return f"damaged ({reason}): export it again"


def _spelled(run: re.Match) -> str:
    """The text of pieces such as ``<0xC3> <0xA9>``."""
    text = bytes.fromhex(re.sub("<0x|>", "", run[0])).decode(errors="ignore")
    return one_line(_CONTROL.sub("", text))


def _chunks(lines: Iterable[str | None]) -> Iterator[list[str]]:
    """At most CHUNK lines; fewer before a None."""
    chunk: list[str] = []
    for line in lines:
        if line is not None:
            chunk.append(line)
        if chunk and (line is None or len(chunk) == CHUNK):
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _batches(lengths: list[int], max_tokens: int, alike: bool) -> Iterator[list[int]]:
    """Indices of sentences of similar length, *alike* of one, the longest first, none empty."""
    batch: list[int] = []
    filled = [index for index, length in enumerate(lengths) if length > 1]
    for index in sorted(filled, key=lambda i: -lengths[i]):
        longest = lengths[batch[0]] if batch else 0
        if (len(batch) + 1) * longest > max_tokens or (alike and lengths[index] < longest):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _mapped(path: Path, listed: dict) -> mmap.mmap:
    """A file of the folder, if it is what config.json says."""
    with open(path, "rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != listed["sha256"]:
            raise ValueError(f"{path.name} is not the file that config.json lists")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def read_arrays(data) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file by name, without a copy."""
    begin, data = 8 + int.from_bytes(data[:8], "little"), memoryview(data)
    arrays = {}
    for name, entry in json.loads(bytes(data[8:begin])).items():
        start, end = (begin + offset for offset in entry["data_offsets"])
        array = np.frombuffer(data[start:end], TYPES[entry["dtype"]]).reshape(entry["shape"])
        if not array.flags.aligned or list(array.shape) != entry["shape"]:
            raise ValueError(f"{WEIGHTS}: {name} does not fit its place")
        arrays[name] = array
    return arrays


def _cores() -> int:
    """As many as this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _graph(
    file, arrays: dict[str, np.ndarray], side: str, threads: int | None, spin: bool
) -> Callable[[dict], dict[str, np.ndarray]]:
    """The outputs of a graph by name from its inputs by name; it reads the arrays of a *side*."""
    try:
        import onnxruntime
    except ImportError as error:
        raise TranslationError(f"{error}: pip install onnxruntime") from None
    data, location = file[:], b"\x08location\x12" + bytes([len(WEIGHTS)]) + WEIGHTS.encode()
    if data.count(b"location") != data.count(location):
        raise ValueError("a graph refers to other files")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spin)))
    arrays = {name: array for name, array in arrays.items() if name.startswith(f"{side}.")}
    values = map(onnxruntime.OrtValue.ortvalue_from_numpy, arrays.values())
    options.add_external_initializers(list(arrays), list(values))
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda feed: dict(zip(names, session.run(names, feed)))


def _native(arrays: dict[str, np.ndarray], config: dict):
    """The search in C++ where it is installed, else None."""
    try:
        from resmlp_mt_native import NativeSearch

        return NativeSearch(arrays, config)
    except ModuleNotFoundError:
        return None
    except Exception as error:
        raise TranslationError(
            f"the native runtime: {one_line(str(error))}: install the wheel again, or use --graph"
        ) from None


# the program


def _arriving(path: str | None) -> Iterator[str | None]:
    """The lines of a text, with a None wherever the next has not arrived yet."""
    name, number, rest, block = path or "standard input", 0, b"", b"-"
    with open(path or os.dup(0), "rb") as file:
        while block:
            if not select.select([file], [], [], PATIENCE)[0]:
                yield None
            block = file.read1(1 << 16)
            *lines, rest = (rest + (block or b"\n" * bool(rest))).split(b"\n")
            for line in lines:
                number += 1
                try:
                    yield (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).decode()
                except UnicodeDecodeError:
                    raise TranslationError(
                        f"{name}, line {number}: invalid UTF-8: convert it or remove the line"
                    ) from None


def _main(args) -> None:
    if not (args.input or sys.stdin) or not (args.output or sys.stdout):
        raise TranslationError("standard input or output is closed: give --input and --output")
    if args.output and os.path.exists(args.output):
        if not os.path.isfile(args.output):
            raise TranslationError(f"{args.output} is not a regular file: name another")
        if args.input and os.path.samefile(args.output, args.input):
            raise TranslationError(f"{args.output} is the input: choose another file to write")
    model = ExportedModel(Path(__file__).parent, args.threads, args.graph)
    options = {name: getattr(args, name) for name in ("beam", "lenpen", "truncate")}
    temporary = f"{args.output}.{os.getpid()}.tmp" if args.output else None
    try:
        # by lines: what is there can be read at once
        with open(temporary or os.dup(1), "w", 1, encoding="utf-8", newline="\n") as output:
            for translations in model.stream(_arriving(args.input), **options):
                text, score = "", ""
                if translations:
                    text, score = translations[0].text, f"{translations[0].score:.4f}"
                output.write(f"{score}\t{text}\n" if args.scores else f"{text}\n")
        if temporary:
            os.replace(temporary, args.output)
    finally:
        if temporary and os.path.exists(temporary):
            os.remove(temporary)


def main() -> int:
    """The program; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--input", metavar="FILE", help="text (default: standard input)")
    parser.add_argument("--output", metavar="FILE", help="to write (default: standard output)")
    parser.add_argument("--beam", type=int, metavar="N")
    parser.add_argument("--lenpen", type=float, metavar="X", help="length penalty")
    parser.add_argument("--scores", action="store_true", help="write SCORE<TAB>TRANSLATION")
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: all cores)")
    help = "translate by the graph where the native runtime is installed, too"
    parser.add_argument("--graph", action="store_true", help=help)
    parser.add_argument("--truncate", action="store_true", help="cut lines that are too long")
    try:
        _main(parser.parse_args())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except (TranslationError, OSError) as error:
        print(f"runtime.py: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    # what is half-written is removed
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(each) != signal.SIG_IGN:  # nohup
            signal.signal(each, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
