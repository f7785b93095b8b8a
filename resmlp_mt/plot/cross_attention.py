"""What the decoder looks at in the source while it writes a translation of one sentence."""

from argparse import Namespace
from pathlib import Path
from typing import Callable, List, NamedTuple, Optional, Tuple

import torch
from fairseq import checkpoint_utils
from fairseq.data.data_utils import infer_language_pair
from torch import Tensor

from resmlp_mt.checkpoints.inspection import load_ours
from resmlp_mt.decoding.length_penalty import DEFAULT
from resmlp_mt.errors import UserError
from resmlp_mt.text.dictionaries import check_dictionaries
from resmlp_mt.text.settings import MODEL, TextSettings
from resmlp_mt.text.subwords import Subwords

Encoder = Callable[[str], str]


class CrossAttention(NamedTuple):
    """
    Attributes:
        source, target: S and T pieces, the end of sentence last.
        weights: layers x T x S, averaged over heads. Each row sums to 1.
    """

    source: List[str]
    target: List[str]
    weights: Tensor


@torch.no_grad()
def cross_attention(
    path: Path,
    data_bin: Path,
    sentence: str,
    spm: Optional[Path] = None,
    translation: Optional[str] = None,
    beam: int = 4,
    lenpen: float = DEFAULT,
) -> CrossAttention:
    """Translate a sentence, then take the attention from a pass over that translation.

    Args:
        path: a checkpoint of a ``resmlp_mt`` architecture.
        data_bin: the folder with its dictionaries, ``dict.en.txt`` ...
        sentence: the source.
        spm: SentencePiece model. Default: the one in *data_bin*, without one the text is in pieces.
        translation: the target. Default: the translation of the model.
        beam, lenpen: of the search for the translation.

    Raises:
        UserError: a checkpoint or dictionaries of another model, a missing file, an empty sentence
            or one with more tokens than the model has positions, no cross-attention.
    """
    model, task = _load(path, data_bin)
    encode_source, encode_target = _encoders(data_bin, spm, task.cfg.source_lang)
    source = _indices(task.source_dictionary, encode_source(sentence), "sentence")
    if translation is not None:
        target = _indices(task.target_dictionary, encode_target(translation), "translation")
    else:
        target = _translate(model, task, source, beam, lenpen)
    encoder_out = model.encoder(source.unsqueeze(0), torch.tensor([len(source)]))
    # input of the decoder: the end-of-sentence symbol, then the words before the last
    fed = target.roll(1).unsqueeze(0)
    layers = []
    for layer in range(model.decoder.num_layers):
        _, extra = model.decoder.extract_features(fed, encoder_out, alignment_layer=layer)
        layers.append(extra["attn"][0][0])
    return CrossAttention(
        [task.source_dictionary[i] for i in source.tolist()],
        [task.target_dictionary[i] for i in target.tolist()],
        torch.stack(layers).float(),
    )


def _load(path: Path, data_bin: Path):
    state = load_ours(path)
    options = state["cfg"]["task"]
    options = options if isinstance(options, dict) else getattr(options, "__dict__", {})
    languages = options.get("source_lang"), options.get("target_lang")
    if None in languages and Path(data_bin).is_dir():  # fairseq reads them off the files' names
        languages = infer_language_pair(str(data_bin))
    if None in languages:
        raise UserError(
            f"{data_bin} has no files such as train.en-de.en.idx, which say the languages: give "
            "the folder of the binary data"
        )
    for language in languages:
        dictionary = Path(data_bin) / f"dict.{language}.txt"
        if not dictionary.is_file():
            raise UserError(
                f"{data_bin} has no dictionary {dictionary.name}: give the data folder that "
                f"{path} was trained on"
            )
    check_dictionaries(path, data_bin, languages)
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(path)], {"data": str(data_bin)}
    )
    model.eval()
    if getattr(model.decoder.layers[0], "cross_attention", None) is None:
        raise UserError(f"{path}: its decoder has no cross-attention: there is nothing to draw")
    return model, task


def _encoders(data_bin: Path, model: Optional[Path], source_lang: str) -> Tuple[Encoder, Encoder]:
    """Functions from source and target text to pieces, normalised as the data was."""
    if model is None:
        if not (Path(data_bin) / MODEL).is_file():
            return str.strip, str.strip
        model = Path(data_bin) / MODEL
    settings = TextSettings.beside(model)
    if settings is not None:
        settings = settings.reading(source_lang)
        return settings.encode_source, settings.encode_target
    encode = Subwords(model).encode
    return encode, encode


def _indices(dictionary, pieces: str, what: str) -> Tensor:
    if not pieces:
        raise UserError(f"the {what} is empty: give one with words")
    return dictionary.encode_line(pieces, add_if_not_exist=False, append_eos=True).long()


def _translate(model, task, source: Tensor, beam: int, lenpen: float) -> Tensor:
    generator = task.build_generator([model], Namespace(beam=beam, lenpen=lenpen))
    batch = {"src_tokens": source.unsqueeze(0), "src_lengths": torch.tensor([len(source)])}
    return task.inference_step(generator, [model], {"net_input": batch})[0][0]["tokens"]
