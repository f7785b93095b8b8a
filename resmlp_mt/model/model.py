"""The model: an encoder, a decoder, and how fairseq builds, loads and prepares them."""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any, Dict, Set

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models.transformer import TransformerModelBase
from omegaconf import OmegaConf

from resmlp_mt.decoding.packing import pack_
from resmlp_mt.errors import UserError
from resmlp_mt.length_penalty import chosen_lenpen
from resmlp_mt.model.config import ResMLPConfig, check_config, set_defaults
from resmlp_mt.model.decoder import ResMLPDecoder
from resmlp_mt.model.encoder import ResMLPEncoder
from resmlp_mt.model.folding import fold_
from resmlp_mt.text.settings import check_dictionaries


class ResMLPModel(TransformerModelBase):
    """The sequence-to-sequence ResMLP: no self-attention but the cross-attention of a decoder."""

    @classmethod
    def add_args(cls, parser):
        gen_parser_from_dataclass(parser, ResMLPConfig(), delete_default=True, with_prefix="")

    @classmethod
    def build_model(cls, args, task):
        """*args* is a Namespace (command line) or a DictConfig (hydra)."""
        if OmegaConf.is_config(args):
            args = Namespace(**OmegaConf.to_container(args))  # type: ignore
        set_defaults(args)
        if args.no_token_positional_embeddings:  # overrides the default of an architecture
            args.token_positional_embeddings = False
        args.no_token_positional_embeddings = not args.token_positional_embeddings
        cfg = ResMLPConfig.from_namespace(args)
        check_config(cfg)
        if cfg.merge_src_tgt_embed and task.source_dictionary != task.target_dictionary:
            raise UserError(
                "--merge-src-tgt-embed: fairseq takes another dictionary for the target then: "
                "prepare a joint one, and give --share-all-embeddings"
            )
        return super().build_model(cfg, task)

    @classmethod
    def build_encoder(cls, cfg, src_dict, embed_tokens):
        return ResMLPEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg, tgt_dict, embed_tokens):
        return ResMLPDecoder(cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention)

    def prepare_for_inference_(self, cfg):
        """Called by fairseq's programs: fold the affine maps, and pack the weights if faster."""
        super().prepare_for_inference_(cfg)
        pack_(self)
        fold_(self, pack=True)

    @classmethod
    def from_pretrained(
        cls, model_name_or_path, checkpoint_file="model.pt", data_name_or_path=".", **kwargs
    ):
        """fairseq's method, which also finds the subwords and the length penalty that ``resmlp-mt
        run`` puts beside the model. A folder of ``dict.*.txt`` that begins with a dot is relative
        to the model's; several checkpoints, with a colon between them, are an ensemble."""
        folder, data = Path(model_name_or_path), str(data_name_or_path)
        names = checkpoint_file.split(os.pathsep)
        _check_there(folder, names)
        data_folder = folder / data if data.startswith(".") else Path(data)
        beside = _found_beside(folder, data_folder, kwargs.get("bpe", "sentencepiece"))
        options = {**beside, **kwargs}
        if "sentencepiece_model" in options:
            options.setdefault("bpe", "sentencepiece")
        hub = super().from_pretrained(str(folder), checkpoint_file, data, **options)
        languages = (hub.task.cfg.source_lang, hub.task.cfg.target_lang)
        for name in names:
            check_dictionaries(folder / name, data_folder, languages)
        unknown = sorted(set(kwargs) - _known_options(hub.cfg))
        if unknown:  # fairseq ignores them
            raise UserError(f"{unknown[0]}: no such option in {folder}: check its name")
        return hub


def _check_there(folder: Path, names: list) -> None:
    """Refuse a model that is not there, where fairseq would look for a download."""
    if folder.suffix == ".pt":
        raise UserError(f"{folder}: give its folder, and its name as checkpoint_file")
    if not folder.is_dir():  # fairseq takes archives, but the subwords in one are not found
        unpack = ": unpack it, and give its folder" if folder.is_file() else ""
        raise UserError(f"{folder}: no such folder{unpack}")
    for name in names:
        if not (folder / name).is_file():
            raise UserError(f"{folder}: no {name} in it: name its checkpoint_file")


def _found_beside(folder: Path, data: Path, bpe: str) -> dict:
    """The options that lie beside a model: its subwords and its length penalty."""
    found: Dict[str, Any] = {"lenpen": chosen_lenpen(folder)}
    if bpe == "sentencepiece":
        models = [str(place / "spm.model") for place in (folder, data)]
        found["sentencepiece_model"] = next(filter(os.path.isfile, models), None)
    return {name: value for name, value in found.items() if value is not None}


def _known_options(cfg) -> Set[str]:
    """What an override may name, in the configuration of a checkpoint that was loaded with it."""
    parser = ArgumentParser(add_help=False)
    ResMLPModel.add_args(parser)
    options = parser.parse_args([])
    set_defaults(options)
    parts = [cfg[name] for name in cfg]
    # fairseq puts every override into a Namespace
    known = {name for part in parts if OmegaConf.is_config(part) for name in part}
    if isinstance(cfg.task, Namespace):  # of an older kind: nothing else has its options
        known.update(vars(cfg.task))
    return known | {*vars(options), *cfg, "generation_args"}
