"""The model: an encoder, a decoder, and how fairseq builds, prepares and loads them; its named
architectures. Importing this file registers them with fairseq."""

from argparse import Namespace
from functools import partial
from pathlib import Path

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerModelBase
from fairseq.models.transformer import base_architecture as transformer_defaults
from omegaconf import DictConfig, OmegaConf

from resmlp_mt.model.config import ResMLPConfig, check_config, set_defaults
from resmlp_mt.model.decoder import ResMLPDecoder
from resmlp_mt.model.encoder import ResMLPEncoder
from resmlp_mt.model.hub import FOLDERS, fetch, load
from resmlp_mt.model.inference import fold_
from resmlp_mt_runtime.errors import UserError


@register_model("resmlp_mt")
class ResMLPModel(TransformerModelBase):
    """The sequence-to-sequence ResMLP. Its only attention is the decoder's to the source."""

    supported_targets = ()  # fairseq asks: it is not a language model

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
        if cfg.share_all_embeddings and task.source_dictionary != task.target_dictionary:
            wrong = "--share-all-embeddings (set by tiny and small): the dictionaries differ"
            remedy = "use fairseq-preprocess --joined-dictionary, or resmlp_mt_base"
            raise UserError(f"{wrong}: {remedy}")
        return super().build_model(cfg, task)

    @classmethod
    def build_encoder(cls, cfg, src_dict, embed_tokens):
        return ResMLPEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg, tgt_dict, embed_tokens):
        return ResMLPDecoder(cfg, tgt_dict, embed_tokens)

    def prepare_for_inference_(self, cfg):
        """Called by fairseq's programs: fold the affine maps."""
        super().prepare_for_inference_(cfg)
        self.__dict__.pop("train", None)  # of fairseq, which refuses to train; eval() gave None
        fold_(self)

    @classmethod
    def from_pretrained(
        cls, model_name_or_path, checkpoint_file="model.pt", data_name_or_path=".", **kwargs
    ):
        """The model of a folder, or a published one, downloaded by its name, as a
        :class:`resmlp_mt.model.hub.Hub`. *kwargs* are options of fairseq-generate, such as beam
        and lenpen (default: that of search.json). Raises a UserError if a file is missing or the
        download fails."""
        name, data_name = str(model_name_or_path), str(data_name_or_path)
        folder = fetch(name) if name in FOLDERS else Path(name)
        return load(folder, checkpoint_file, data_name, **kwargs)


# ---- the named architectures: what each changes in the defaults of the options -----------------

# the recommended mixing; docs/results.md compares it with the others
MIXING = {
    "token_mixing": "gated",
    "token_mixing_heads": 8,
    "normalization": "layernorm",
    # fewer loops where sentences are long, at no cost
    "token_positional_embeddings": True,
}
TINY = {"encoder_layers": 2, "decoder_layers": 2, "encoder_embed_dim": 128}
TINY |= {"encoder_ffn_embed_dim": 256, "decoder_attention_heads": 4}
SMALL = {"encoder_layers": 3, "decoder_layers": 3, "encoder_embed_dim": 256}
SMALL |= {"encoder_ffn_embed_dim": 512, "decoder_attention_heads": 4, "share_all_embeddings": True}
# the paper's 0.2 is too small for so few layers
SHALLOW = {"layerscale_init": 1.0}

ARCHITECTURES: dict[str, dict] = {
    # the paper's, section 3: d = 512, hidden 2048, 8 heads, 6 + 6 or 12 + 12 layers
    "resmlp_mt_6": {},
    "resmlp_mt_12": {"encoder_layers": 12, "decoder_layers": 12},
    # the recommended ones; tiny shows that text and training fit together
    "resmlp_mt_tiny": MIXING | TINY | SHALLOW | {"share_all_embeddings": True},
    "resmlp_mt_small": MIXING | SMALL | SHALLOW,
    "resmlp_mt_base": MIXING,
    # of the size of transformer_iwslt_de_en, the first experiment in fairseq's examples
    "resmlp_mt_iwslt_de_en": MIXING | {"encoder_ffn_embed_dim": 1024, "decoder_attention_heads": 4},
}
UNTIL_0_3 = {  # names that old checkpoints have
    f"resmlp_mt_{kind}_{size}": ARCHITECTURES[f"resmlp_mt_{size}"] | {"token_mixing": kind}
    for kind in ("toeplitz", "gated", "conv")
    for size in (6, 12)
}


def architecture(args: Namespace | DictConfig, values: dict) -> None:
    """Set the defaults of an architecture. If fairseq has chosen it before, this is a trained
    model: options that it lacks are newer than its training."""
    for group in ("encoder", "decoder", "quant_noise"):
        options = getattr(args, group, None)
        if isinstance(options, DictConfig):  # of hydra
            name = min(options)
            raise UserError(f"model.{group}.{name}: write model.{group}_{name}")
    # hydra names a new model, too, which has few options yet; the Transformer's defaults set these
    chosen = hasattr(args, "_name") and (isinstance(args, Namespace) or "adaptive_input" in args)
    set_defaults(args, **({} if chosen else values))


# hydra knows the model by its own name, too
for name, values in {**ARCHITECTURES, **UNTIL_0_3, "resmlp_mt": {}}.items():
    register_model_architecture("resmlp_mt", name)(partial(architecture, values=values))


@register_model_architecture("transformer", "transformer_small")
def transformer_small(args: Namespace) -> None:
    """fairseq's Transformer of the size of resmlp_mt_small, with pre-LN, to compare."""
    before = {"encoder_normalize_before": True, "decoder_normalize_before": True}
    for name, value in {**SMALL, **before}.items():
        setattr(args, name, getattr(args, name, value))
    transformer_defaults(args)
