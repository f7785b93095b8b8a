"""Translation with fairseq's search by checkpoints of its translation task, ours or others.

Several are an ensemble, which averages their probabilities at each token.
"""

import math
import traceback
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace

import torch
from fairseq import checkpoint_utils
from fairseq.data import data_utils
from fairseq.dataclass.configs import GenerationConfig
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.translation import TranslationTask
from fairseq.utils import move_to_cuda, resolve_max_positions

from resmlp_mt.checkpoints.files import languages_of, options_of
from resmlp_mt.model_folder import check_dictionaries
from resmlp_mt.pipeline.translate.options import SearchOptions
from resmlp_mt.plugin import register, register_user_dir
from resmlp_mt.search.beam_search import NotFinite
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.folder import SEARCH_OPTIONS
from resmlp_mt_runtime.model import count_cpus
from resmlp_mt_runtime.sentences import Hypothesis, by_length

Sentence = list[str]  # its pieces


class Translator:
    """Loaded models, on a GPU if there is one. ``models``, ``task``, ``generator`` are fairseq's.
    They read at most ``limit`` tokens of a source; ``languages`` are those of the two sides."""

    def __init__(self, options: SearchOptions):
        register()
        if options.user_dir is not None:
            register_user_dir(options.user_dir)
        gpu = torch.cuda.is_available() and not options.cpu
        if options.fp16 and not gpu:
            raise UserError("--fp16: needs a GPU: leave it out")
        if options.threads:
            torch.set_num_threads(min(options.threads, count_cpus()))
        self.options, self.device = options, torch.device("cuda" if gpu else "cpu")
        self.models, self.task = _load_models(options)
        _check_subwords(options, self.task.source_dictionary)
        generation = GenerationConfig(**{name: getattr(options, name) for name in SEARCH_OPTIONS})
        for model in self.models:
            model.eval()
            if options.fp16:
                model.half()
            model.to(self.device)
            model.prepare_for_inference_(SimpleNamespace(generation=generation))
        self.generator = self.task.build_generator(self.models, generation)
        if not isinstance(self.generator, SequenceGenerator):  # non-autoregressive
            wrong = f"{options.paths[0]} needs a {type(self.generator).__name__}"
            raise UserError(f"{wrong} to search: use fairseq-interactive")
        self.languages = self.task.cfg.source_lang, self.task.cfg.target_lang
        limits = [each.max_positions() for each in (self.task, *self.models)]
        self.limit = int(resolve_max_positions(*limits)[0]) - 1  # the end of a sentence counts

    def pieces(self, line: str) -> Sentence:
        """The pieces of a line, split as the data was."""
        return self.options.text.subwords.encode(line)

    def rank(self, piece: str) -> float:
        """Its place in the source dictionary; infinite if it is not there."""
        return self.task.source_dictionary.indices.get(piece, math.inf)

    def translations(self, sources: Sequence[Sentence]) -> Iterator[dict[int, list[Hypothesis]]]:
        """The n best of each source by its index, batch by batch."""
        lengths = [len(source) + 1 for source in sources]  # the end of sentence counts
        # the limit A x source + B is the batch's: with A, each length is searched by itself
        alike = bool(self.options.max_len_a)
        for batch in by_length(lengths, self.options.max_tokens, alike):
            yield dict(zip(batch, self.nbest([sources[i] for i in batch])))

    def nbest(self, batch: Sequence[Sentence]) -> list[list[Hypothesis]]:
        """At most ``nbest`` hypotheses for each sentence, the best first. One whose scores are not
        finite has none, and does not affect the others."""
        try:
            results = self.search(batch)
        except (NotFinite, AssertionError) as error:  # a search asserts that each has a hypothesis
            *_, (frame, _) = traceback.walk_tb(error.__traceback__)
            if not isinstance(frame.f_locals.get("self"), SequenceGenerator):
                raise  # an assertion of a model's
            if len(batch) == 1:
                return [[]]
            return [self.nbest([source])[0] for source in batch]
        longest = max(map(len, batch)) + 1
        most = int(self.options.max_len_a * longest + self.options.max_len_b)
        most = min(most, self.generator.max_len - 1)
        return [self._read(hypotheses[: self.options.nbest], most) for hypotheses in results]

    def search(self, batch: Sequence[Sentence]) -> list[list[dict]]:
        """fairseq's hypotheses for each sentence, the best first."""
        dictionary = self.task.source_dictionary
        tokens = [dictionary.encode_line(x, list, add_if_not_exist=False).long() for x in batch]
        dataset = self.task.build_dataset_for_inference(tokens, list(map(len, tokens)))
        sample = dataset.collater(list(map(dataset.__getitem__, range(len(dataset)))))
        if self.device.type == "cuda":
            sample = move_to_cuda(sample, self.device)
        try:
            results = self.task.inference_step(self.generator, self.models, sample)
        except RuntimeError as error:
            on_cpu = "DefaultCPUAllocator" in str(error)  # which has no class of its own
            if not on_cpu and not isinstance(error, torch.OutOfMemoryError):
                raise
            given = f"--max-tokens {self.options.max_tokens}"
            raise UserError(f"{self.device}: out of memory with {given}: lower it") from None
        in_order = dict(zip(sample["id"].tolist(), results, strict=True))
        return [in_order[number] for number in range(len(batch))]

    def _read(self, hypotheses: list[dict], most: int) -> list[Hypothesis]:
        """The hypotheses, of at most *most* tokens, before the first whose score is not finite."""
        dictionary = self.task.target_dictionary
        ignored = {"extra_symbols_to_ignore": self.generator.symbols_to_strip_from_output}
        found = []
        for one in takewhile(lambda one: math.isfinite(one["score"]), hypotheses):
            tokens = one["tokens"].int().cpu()
            text = dictionary.string(tokens, "sentencepiece", **ignored)
            pieces = [dictionary[token] for token in tokens.tolist()[:-1]]
            cut = len(tokens) > most  # its end counts
            found.append(Hypothesis(text, one["score"].item(), cut, pieces))
        return found


def _load_models(options: SearchOptions) -> tuple[list, TranslationTask]:
    models, task = [], None
    for path in map(str, options.paths):
        overrides = {"data": str(options.data)}
        state = checkpoint_utils.load_checkpoint_to_cpu(path, overrides)
        of_task = options_of(state, "task")
        name = of_task.get("_name") or of_task.get("task")
        if not issubclass(TASK_REGISTRY.get(str(name), object), TranslationTask):
            raise UserError(f"{path} is not a translation model: its task is {name}")
        languages = languages_of(state)
        if None in languages:  # trained without --source-lang and --target-lang
            languages = _languages_of(options)
            of_task["source_lang"], of_task["target_lang"] = languages
        check_dictionaries(Path(path), options.data, languages)
        (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
            [path], overrides, task, state=state
        )
        first = (task.cfg.source_lang, task.cfg.target_lang)
        if languages != first:
            wrong = f"{path} translates {'-'.join(languages)}, but {options.paths[0]}"
            raise UserError(f"{wrong} {'-'.join(first)}: an ensemble needs one language pair")
        models.append(model)
    return models, task


def _languages_of(options: SearchOptions) -> tuple[str, str]:
    source, target = options.text.source_lang, options.text.target_lang
    if not source:
        source, target = data_utils.infer_language_pair(str(options.data))
    if source is None:
        wrong = f"{options.data} has no file such as train.en-de.en.idx to name the languages"
        raise UserError(f"{wrong}: give the folder of the binary data")
    return source, target


def _check_subwords(options: SearchOptions, dictionary) -> None:
    processor = options.text.subwords.processor
    types = [t for t in dictionary.symbols[dictionary.nspecial :] if "madeupword" not in t]
    known = sum(processor.piece_to_id(t) != processor.unk_id() for t in types)
    # a few types may be characters that the model has no piece for
    if 2 * known < len(types):
        wrong = f"knows {known} of {len(types)} subwords in the dictionary of {options.data}"
        raise UserError(f"{options.text.subword_model} {wrong}: give the model of that data")
