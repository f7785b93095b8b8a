"""The model: an encoder, a decoder, and how fairseq builds, prepares and loads them."""

from argparse import Namespace
from pathlib import Path

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerModelBase
from omegaconf import OmegaConf

from resmlp_mt.model.config import ResMLPConfig, check_config, set_defaults
from resmlp_mt.model.decoder import ResMLPDecoder
from resmlp_mt.model.encoder import ResMLPEncoder
from resmlp_mt.model.hub import FOLDERS, HOME, fetch, load
from resmlp_mt.model.inference import fold_
from resmlp_mt.model.packing import pack_


@register_model("resmlp_mt")
class ResMLPModel(TransformerModelBase):
    """The sequence-to-sequence ResMLP. Its only attention is the decoder's to the source."""

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
        return super().build_model(cfg, task)

    @classmethod
    def build_encoder(cls, cfg, src_dict, embed_tokens):
        return ResMLPEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg, tgt_dict, embed_tokens):
        return ResMLPDecoder(cfg, tgt_dict, embed_tokens)

    def prepare_for_inference_(self, cfg):
        """Called by fairseq's programs: fold the affine maps, and pack the weights if faster."""
        super().prepare_for_inference_(cfg)
        pack_(self)
        fold_(self, pack=True)

    @classmethod
    def hub_models(cls):
        """The published models by name, and where they are fetched from."""
        return {name: f"{HOME}/{folder}" for name, folder in FOLDERS.items()}

    @classmethod
    def from_pretrained(
        cls, model_name_or_path, checkpoint_file="model.pt", data_name_or_path=".", **kwargs
    ):
        """fairseq's method, of a folder or a name of :meth:`hub_models`, which is fetched; see
        :func:`resmlp_mt.model.hub.load`."""
        name, data_name = str(model_name_or_path), str(data_name_or_path)
        folder = fetch(name) if name in FOLDERS else Path(name)
        return load(folder, checkpoint_file, data_name, **kwargs)
