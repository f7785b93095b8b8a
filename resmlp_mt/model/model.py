"""The model, registered with fairseq."""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Set

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerModelBase
from omegaconf import OmegaConf

from resmlp_mt.decoding.folding import fold_, is_folded
from resmlp_mt.decoding.length_penalty import chosen_lenpen
from resmlp_mt.decoding.long_sentences import extend_, widen_
from resmlp_mt.decoding.packing import pack_
from resmlp_mt.errors import UserError
from resmlp_mt.model.config import ResMLPConfig, check_config, set_defaults
from resmlp_mt.model.decoder import ResMLPDecoder
from resmlp_mt.model.encoder import ResMLPEncoder
from resmlp_mt.text.dictionaries import check_dictionaries


@register_model("resmlp_mt")
class ResMLPModel(TransformerModelBase):
    """The sequence-to-sequence ResMLP: no self-attention, and by default no LayerNorm and no
    positional embedding.

    The decoder keeps cross-attention. Build it by fairseq's command-line programs with ``--arch``,
    or load it by :meth:`from_pretrained`.
    """

    @classmethod
    def add_args(cls, parser):
        gen_parser_from_dataclass(parser, ResMLPConfig(), delete_default=True, with_prefix="")

    @classmethod
    def build_model(cls, args, task):
        """
        Args:
            args: options by name, as a Namespace (command line) or DictConfig (hydra).
            task: the translation task, which has the dictionaries.

        Raises:
            UserError: for an option that this model cannot follow.
        """
        if OmegaConf.is_config(args):
            args = Namespace(**OmegaConf.to_container(args))
        set_defaults(args)
        if args.no_token_positional_embeddings:  # in place of the default of an architecture
            args.token_positional_embeddings = False
        args.no_token_positional_embeddings = not args.token_positional_embeddings
        cfg = ResMLPConfig.from_namespace(args)
        check_config(cfg)
        if cfg.merge_src_tgt_embed and task.source_dictionary != task.target_dictionary:
            raise UserError(
                "--merge-src-tgt-embed: fairseq takes another dictionary for the target then: "
                "prepare a joint one, and give --share-all-embeddings"
            )
        model = super().build_model(cfg, task)
        model.token_mixing_reach = cfg.token_mixing_reach
        if cfg.folded:
            fold_(model)
        return model

    @classmethod
    def from_pretrained(
        cls, model_name_or_path, checkpoint_file="model.pt", data_name_or_path=".", **kwargs
    ):
        """The method of fairseq of that name.

        A folder that ``resmlp-mt run`` has made (``OUT/model``) has the dictionaries and the
        subwords beside the model, so that its name is enough, and the length penalty, which is the
        default of ``translate``. Else the subwords are looked for in the folder of the data.

        Args:
            model_name_or_path: folder of the model.
            checkpoint_file: its name there. Several, with a colon between them, are an ensemble.
            data_name_or_path: folder of ``dict.*.txt``, from that of the model if it begins with a
                dot.
            kwargs: options of the model, of generation and of the subwords.

        Returns:
            ``GeneratorHubInterface`` of fairseq: ``translate(["..."], beam=4)`` gives a list of
            str, ``models`` are the networks.

        Raises:
            UserError: if the folder or the checkpoint is not there, the dictionaries of the data
                are others, a keyword is no option, or ``search.json`` has no length penalty.
        """
        folder = Path(model_name_or_path)
        for name in checkpoint_file.split(os.pathsep) if folder.is_dir() else ():
            if not (folder / name).is_file():
                raise UserError(f"{folder}: no {name} in it: name its checkpoint_file")
        if folder.suffix == ".pt":
            raise UserError(f"{folder}: give its folder, and its name as checkpoint_file")
        if not folder.is_dir():  # fairseq takes archives, but the subwords in one are not found
            unpack = ": unpack it, and give its folder" if folder.is_file() else ""
            raise UserError(f"{model_name_or_path}: no such folder{unpack}")
        given, data = set(kwargs), str(data_name_or_path)
        # as fairseq reads it, a name that begins with a dot starts from the folder of the model
        places = (folder, folder / data if data.startswith(".") else Path(data))
        found = [str(place / "spm.model") for place in places if (place / "spm.model").is_file()]
        if found and kwargs.get("bpe", "sentencepiece") == "sentencepiece":
            kwargs.setdefault("sentencepiece_model", found[0])
        lenpen = chosen_lenpen(folder)
        if lenpen is not None:
            kwargs.setdefault("lenpen", lenpen)
        if "sentencepiece_model" in kwargs:
            kwargs.setdefault("bpe", "sentencepiece")
        hub = super().from_pretrained(str(model_name_or_path), checkpoint_file, data, **kwargs)
        for name in checkpoint_file.split(os.pathsep):
            languages = (hub.task.cfg.source_lang, hub.task.cfg.target_lang)
            check_dictionaries(folder / name, places[1], languages)
        unknown = sorted(given - cls._options_of(hub.cfg))
        if unknown:  # fairseq ignores them
            raise UserError(f"{unknown[0]}: no such option in {folder}: check its name")
        return hub

    @classmethod
    def _options_of(cls, cfg) -> Set[str]:
        """What an override may name, of a checkpoint that was loaded with overrides."""
        parser = ArgumentParser(add_help=False)
        cls.add_args(parser)
        options = parser.parse_args([])
        set_defaults(options)
        known = {*vars(options), *cfg, "generation_args"}
        for part in (cfg[name] for name in cfg):
            if OmegaConf.is_config(part):  # fairseq puts every override into a Namespace
                known.update(part)
        if isinstance(cfg.task, Namespace):  # of an older kind: nothing else has its options
            known.update(vars(cfg.task))
        return known

    @classmethod
    def build_encoder(cls, cfg, src_dict, embed_tokens):
        return ResMLPEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg, tgt_dict, embed_tokens):
        return ResMLPDecoder(cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention)

    def train(self, mode: bool = True):
        """PyTorch's method of that name.

        Raises:
            UserError: for training a folded model.
        """
        if mode and is_folded(self):
            raise UserError(
                "a folded model only translates: train on with the checkpoint it was made from"
            )
        return super().train(mode)

    def upgrade_state_dict_named(self, state_dict, name):
        """fairseq calls this on a checkpoint's weights before it loads them."""
        super().upgrade_state_dict_named(state_dict, name)
        if self.token_mixing_reach:
            widen_(self, state_dict, self.token_mixing_reach)

    def prepare_for_inference_(self, cfg):
        """Called by fairseq-generate, -interactive and the hub interface: fold the affine maps,
        and pack what is faster packed."""
        super().prepare_for_inference_(cfg)
        if self.token_mixing_reach and not is_folded(self):
            extend_(self, self.token_mixing_reach)
        fold_(self)
        pack_(self)
