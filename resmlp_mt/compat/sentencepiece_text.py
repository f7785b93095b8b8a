"""fairseq-interactive and the hub make the pieces that the model was trained on.

The SentencepieceBPE of fairseq knows nothing of the decision about text that ``resmlp-mt prepare``
stored beside the model (whether to normalise), and lets ``</s>`` through as one piece, which ends
the sentence. It can go when fairseq takes the encoding of a line from the data.
"""

from pathlib import Path

from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE

from resmlp_mt.compat.replacing import replace_once


@replace_once(SentencepieceBPE, "__init__")
def init(original, self, cfg):
    """
    Raises:
        UserError: if the decision beside the model cannot be read.
    """
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
