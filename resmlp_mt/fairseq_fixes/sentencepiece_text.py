"""fairseq-interactive and the hub make the pieces that the model was trained on.

The SentencepieceBPE of fairseq knows nothing of the decision about text that ``resmlp-mt prepare``
stored beside the model (whether to normalise), and lets ``</s>`` through as one piece, which ends
the sentence. It can go when fairseq takes the encoding of a line from the data.
"""

from pathlib import Path

from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.tasks import FairseqTask
from omegaconf import OmegaConf

from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes.replacing import replace_once


@replace_once(SentencepieceBPE, "__init__")
def init(original, self, cfg):
    """
    Raises:
        UserError: if no model is named, or the decision beside it cannot be read.
    """
    if OmegaConf.is_config(cfg) and OmegaConf.is_missing(cfg, "sentencepiece_model"):
        raise UserError("--bpe sentencepiece: give --sentencepiece-model, spm.model of the data")
    # imported here because fairseq-train needs no SentencePiece
    from resmlp_mt.text.settings import TextSettings

    original(self, cfg)
    self.text_settings = TextSettings.beside(Path(cfg.sentencepiece_model))


@replace_once(SentencepieceBPE, "encode")
def encode(original, self, line: str) -> str:
    from resmlp_mt.text.subwords import one_line_of_text, plain_pieces

    if self.text_settings is not None:
        return self.text_settings.encode_source(line)
    return " ".join(plain_pieces(original(self, one_line_of_text(line)).split(" "), self.sp))


@replace_once(FairseqTask, "build_bpe")
def build_bpe(original, self, args):
    return _from_source(original(self, args), self)


@replace_once(GeneratorHubInterface, "__init__")
def init_hub(original, self, cfg, task, models):
    original(self, cfg, task, models)
    _from_source(self.bpe, task)


def _from_source(bpe, task):
    """A model may translate from what was the target language when the data were made."""
    if getattr(bpe, "text_settings", None) is not None:
        source_lang = getattr(task.cfg, "source_lang", None)
        bpe.text_settings = bpe.text_settings.reading(source_lang)
    return bpe
