"""What ``ResMLPModel.from_pretrained`` returns: a model that translates text, perhaps a published
one, downloaded by name into PyTorch's cache."""

import math
import os
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from fairseq import hub_utils
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import DictConfig

from resmlp_mt import model_folder
from resmlp_mt.model_folder import SEARCH, SUBWORDS
from resmlp_mt_runtime.arguments import RANGES
from resmlp_mt_runtime.capitals import in_capitals, small_letters, upper
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.folder import CONFIG
from resmlp_mt_runtime.lines import strings
from resmlp_mt_runtime.pieces import one_line
from resmlp_mt_runtime.sentences import join_parts, split

# of the published models; published.sha256 is what sha256sum says of their files there
HOME = "https://github.com/resmlp-mt/resmlp_mt/raw/v0.3.0"
FOLDERS = {
    "resmlp_mt.en-de": "examples/mixed/model",
    "resmlp_mt.en-fr": "examples/mixed/model-en-fr",
}
# of generate(), which are those of a search and of fairseq's own method
OPTIONS = {"skip_invalid_size_inputs", "inference_step_args", "prefix_allowed_tokens_fn"}
OPTIONS |= GenerationConfig.__dataclass_fields__.keys()
PUBLISHED = Path(__file__).with_name("published.sha256")


class Hub(hub_utils.GeneratorHubInterface):
    """fairseq's interface to a model, its subwords and its search."""

    def translate(self, sentences, beam: int | None = None, verbose: bool = False, **kwargs):
        """Like :meth:`sample`. *beam* is by default that given to ``from_pretrained``, or 5."""
        beam = self.cfg.generation.beam if beam is None else beam
        return self.sample(sentences, beam, verbose, **kwargs)

    def sample(
        self, sentences: str | Iterable[str], beam: int = 1, verbose: bool = False, **kwargs
    ) -> str | list[str]:
        """The translation of each line, "" for a blank one; long lines and capitals as by
        ``resmlp-mt translate``. Options of fairseq's ``generate``; a UserError names those that it
        lacks."""
        if isinstance(sentences, str):
            return self.sample([sentences], beam, verbose, **kwargs)[0]
        limit = self.max_positions[0] - 1  # the end of a sentence counts
        lines = list(strings(sentences))
        parts = [split(small_letters(line, self), self.pieces, limit)[0] for line in lines]
        sources = [self.binarize(" ".join(part)) for each in parts for part in each]
        found = self.generate(sources, beam, verbose, **kwargs) if sources else []
        texts = (one_line(self.decode(hypotheses[0]["tokens"])) for hypotheses in found)
        return [
            upper(text, self.languages[1]) if in_capitals(line) else text
            for line, text in zip(lines, join_parts(texts, parts))
        ]

    def generate(self, tokenized_sentences, beam: int = 5, verbose: bool = False, **kwargs):
        """fairseq's, but with a UserError for options that it would ignore, or out of range."""
        if unknown := kwargs.keys() - OPTIONS:
            what = "not a search option: fairseq-generate --help lists them"
            raise UserError(f"{min(unknown)} is {what}")
        if kwargs.get("nbest", 1) != 1:
            raise UserError("nbest: leave it out: generate gives the whole beam")
        _check_ranges({"beam": beam, **kwargs})
        return super().generate(tokenized_sentences, beam, verbose, **kwargs)

    @property
    def languages(self) -> tuple[str, str]:
        return self.task.cfg.source_lang, self.task.cfg.target_lang

    def pieces(self, text: str) -> list[str]:
        return self.apply_bpe(self.tokenize(text)).split()

    def rank(self, piece: str) -> float:
        """Its place in the source dictionary; infinite if it is not there."""
        return self.src_dict.indices.get(piece, math.inf)


def _check_ranges(options: Mapping) -> None:
    for name, value in options.items():
        if name in RANGES and not RANGES[name].has(value):
            raise UserError(f"{name} {value!r:.40}: give {RANGES[name]}")


def _names(cfg: DictConfig) -> set[str]:
    """The names of all options: the model's from its parser, since its values in *cfg* include
    every option that was given."""
    parser = ArgumentParser()
    ARCH_MODEL_REGISTRY[cfg.model._name].add_args(parser)
    names = {"generation_args", *(action.dest for action in parser._actions)}
    groups = [cfg]
    for group in groups:
        names.update(map(str, group))
        groups += [value for value in group.values() if isinstance(value, DictConfig)]
    return names


def load(folder: Path, checkpoint_file: str, data_name: str, **options) -> Hub:
    """The model of *folder*, which may be a run's, with the subwords and the length penalty beside
    it. *data_name*, the folder of ``dict.*.txt``, is relative to the model's if it begins with a
    dot. ``A:B`` is an ensemble."""
    if (folder / CONFIG).is_file():
        raise UserError(f"{folder} is an export: load it with resmlp_mt_runtime.Model")
    names = checkpoint_file.split(os.pathsep)
    if not (folder / names[0]).exists():
        folder = model_folder.model_of_run(folder)
    for name in names:  # fairseq would look for a download
        if not (folder / name).is_file():
            said = f"give the folder of a model and its checkpoint_file, or {' or '.join(FOLDERS)}"
            raise UserError(f"{folder / name}: no such file: {said}")
    data = folder / data_name if data_name.startswith(".") else Path(data_name)
    model_folder.check_name(data)
    if not data.is_dir():
        raise UserError(f"{data}: no such folder: give the one with dict.*.txt")
    if (folder / SEARCH).is_file():
        options.setdefault("lenpen", model_folder.read_lenpen(folder))
    models = [place / SUBWORDS for place in (folder, data) if (place / SUBWORDS).is_file()]
    if models and options.get("bpe", "sentencepiece") == "sentencepiece":
        options.setdefault("sentencepiece_model", str(models[0]))
    if "sentencepiece_model" in options:
        options.setdefault("bpe", "sentencepiece")
    loaded = hub_utils.from_pretrained(str(folder), checkpoint_file, data_name, **options)
    cfg = loaded["args"]
    _check_ranges(cfg.generation)
    for kind in ("bpe", "tokenizer"):  # fairseq takes a checkpoint's before the caller's
        chosen = getattr(cfg[kind], "_name", cfg[kind])
        if chosen != options.get(kind):
            wrong = f"its {kind} {chosen!r:.60} may download files: give {kind}= to allow it"
            raise UserError(f"{folder / checkpoint_file}: {wrong}")
    if unknown := options.keys() - _names(cfg):
        what = "not an option of the search, the model or its task: see fairseq-generate --help"
        raise UserError(f"{min(unknown)} is {what}")
    hub = Hub(cfg, loaded["task"], loaded["models"])
    for name in names:
        model_folder.check_dictionaries(folder / name, data, hub.languages)
    return hub


def fetch(name: str) -> Path:
    """The folder of a published model; what is not in the cache yet is downloaded and checked.
    Raises a UserError if that fails."""
    lines = map(str.split, PUBLISHED.read_text(encoding="utf-8").splitlines())
    digests = {Path(path).name: d for d, path in lines if os.path.dirname(path) == FOLDERS[name]}
    folder = Path(torch.hub.get_dir(), "resmlp_mt", f"{name}-{digests['model.pt'][:8]}")
    folder.mkdir(parents=True, exist_ok=True)
    for own, digest in digests.items():
        url, file = f"{HOME}/{FOLDERS[name]}/{own}", folder / own
        if not file.is_file():
            try:
                torch.hub.download_url_to_file(url, str(file), digest, progress=False)
            except (OSError, RuntimeError) as error:  # RuntimeError: another digest
                remedy = "try again, or give the folder of a model"
                raise UserError(f"{name}: {url}: {error}: {remedy}") from None
    return folder
