"""A trained model that translates subwords, by fairseq's own loading, batches and search."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import List

import torch
from fairseq import checkpoint_utils, utils
from fairseq_cli.generate import get_symbols_to_strip_from_output
from omegaconf import open_dict

from resmlp_mt.cli_errors import explain
from resmlp_mt.errors import UserError


@dataclass(frozen=True)
class Settings:
    """
    Attributes:
        checkpoint: of a ``resmlp_mt`` model or fairseq's ``transformer``.
        data: folder with the dictionaries it was trained with.
        beam, lenpen, max_len_a, max_len_b: fairseq's options of these names.
        fp16: compute in float16.
        overrides: options in place of the checkpoint's own, as of ``--model-overrides``.
    """

    checkpoint: Path
    data: Path
    beam: int = 4
    lenpen: float = 0.6
    max_len_a: float = 0.0
    max_len_b: int = 200
    fp16: bool = False
    overrides: dict = field(default_factory=dict)


class Translator:
    """
    Args:
        settings: what to load and how to search.
        device: ``"cpu"`` or ``"cuda:N"``.

    Attributes:
        positions: tokens of a source sentence that the model takes, with its end.
        source: language of the source.

    Raises:
        UserError: if the checkpoint cannot be used.
    """

    def __init__(self, settings: Settings, device: str):
        self.device = torch.device(device)
        overrides = {**settings.overrides, "data": str(settings.data)}
        try:
            (model,), cfg, self.task = checkpoint_utils.load_model_ensemble_and_task(
                [str(settings.checkpoint)], arg_overrides=overrides
            )
        except Exception as error:
            message = explain(error)
            if message is None:
                raise
            raise UserError(" ".join(message.split())) from None
        with open_dict(cfg):
            for name in ("beam", "lenpen", "max_len_a", "max_len_b"):
                setattr(cfg.generation, name, getattr(settings, name))
        model = model.eval()
        if settings.fp16:
            model = model.half()
        model = model.to(self.device)
        model.prepare_for_inference_(cfg)
        self.models = [model]
        self.generator = self.task.build_generator(self.models, cfg.generation)
        limits = utils.resolve_max_positions(self.task.max_positions(), model.max_positions())
        self.positions = int(limits[0])
        self.source = self.task.cfg.source_lang

    @torch.no_grad()
    def translate(self, sentences: List[List[str]]) -> List[str]:
        """The best translations of a batch, as text.

        Args:
            sentences: the subwords of each.
        """
        tokens = [
            self.task.source_dictionary.encode_line(" ".join(pieces), add_if_not_exist=False).long()
            for pieces in sentences
        ]
        data = self.task.build_dataset_for_inference(tokens, [len(words) for words in tokens])
        sample = data.collater([data[number] for number in range(len(data))])
        if self.device.type == "cuda":
            sample = utils.move_to_cuda(sample, self.device)
        found = self.task.inference_step(self.generator, self.models, sample)
        texts = [""] * len(sentences)
        for number, hypotheses in zip(sample["id"].tolist(), found, strict=True):
            texts[number] = self.task.target_dictionary.string(
                hypotheses[0]["tokens"].int().cpu(),
                "sentencepiece",
                extra_symbols_to_ignore=get_symbols_to_strip_from_output(self.generator),
            )
        return texts
