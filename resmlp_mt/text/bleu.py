"""BLEU of sacreBLEU, with the tokenizer of the target language."""

from typing import Optional

from sacrebleu.metrics import BLEU

from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import without_region

# sacreBLEU knows these languages by two letters alone
_TWO_LETTERS = {"cmn": "zh", "zho": "zh", "yue": "zh", "jpn": "ja", "kor": "ko"}


def bleu_metric(
    target_lang: Optional[str] = None, tokenize: Optional[str] = None, **options
) -> BLEU:
    """
    Args:
        target_lang: chooses the tokenizer: ``zh`` for Chinese, ``ja-mecab``, ``ko-mecab``, and
            ``13a`` for all others.
        tokenize: another tokenizer, by the name that sacreBLEU has for it.
        options: of the class BLEU.

    Raises:
        UserError: an unknown tokenizer, or one whose packages or model are not there.
    """
    if tokenize is not None and tokenize not in BLEU.TOKENIZERS:
        raise UserError(
            f"-tok {tokenize}: no such tokenizer: choose from {' '.join(BLEU.TOKENIZERS)}"
        )
    language = without_region(target_lang or "")
    language = _TWO_LETTERS.get(language, language)
    try:
        if tokenize:
            return BLEU(tokenize=tokenize, **options)
        return BLEU(trg_lang=language, **options)
    except (RuntimeError, ImportError) as error:
        # sacreBLEU names the packages in the last line
        install = str(error).split("\n\n")[-1].strip()
        named = f"-tok {tokenize}" if tokenize else f"target language {language}"
        raise UserError(f"{named}: its tokenizer is not installed: {install}") from None
    except OSError as error:
        raise UserError(
            f"-tok {tokenize}: its model could not be fetched ({error}): choose another tokenizer"
        ) from None
