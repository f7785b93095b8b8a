"""CTranslate2 (from PyPI) running the baseline, as somebody who deploys a Transformer would."""

import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Callable, List

import torch
from fairseq.models.transformer import TransformerModelBase

from resmlp_mt.errors import UserError


def save_checkpoint(model, options: Namespace, task, folder: Path) -> Path:
    """Write the parts of a fairseq checkpoint that the converter of CTranslate2 reads: options,
    weights, and the dictionaries beside them."""
    for side, dictionary in (
        ("source", task.source_dictionary),
        ("target", task.target_dictionary),
    ):
        dictionary.save(str(folder / f"dict.{side}.txt"))
    args = Namespace(**vars(options))
    args.task, args.source_lang, args.target_lang = "translation", "source", "target"
    # the converter makes NumPy arrays, which have no bfloat16
    weights = {name: value.detach().cpu().float() for name, value in model.state_dict().items()}
    torch.save({"args": args, "model": weights}, folder / "model.pt")
    return folder / "model.pt"


def load_translator(model, options: Namespace, task, precision: str, device: str, threads: int):
    """Convert a fairseq Transformer to a ``ctranslate2.Translator``.

    Args:
        model, options, task: the Transformer, its complete options, its task with dictionaries.
        precision: ``float32``, ``float16``, ``bfloat16`` or ``int8``: of weights and products.
        device: ``cpu`` or ``cuda``.
        threads: CPU threads.

    Raises:
        UserError: if CTranslate2 is missing, or cannot run the model.
    """
    try:
        import ctranslate2
        import ctranslate2.converters
    except ImportError as error:
        raise UserError(f"--ctranslate2: {error}: pip install ctranslate2") from None
    with tempfile.TemporaryDirectory() as name:
        checkpoint = save_checkpoint(model, options, task, Path(name))
        converter = ctranslate2.converters.FairseqConverter(str(checkpoint), name)
        quantization = None if precision == "float32" else precision
        try:
            converter.convert(f"{name}/converted", quantization=quantization)
            return ctranslate2.Translator(
                f"{name}/converted",
                device=device,
                inter_threads=1,
                intra_threads=threads,
                compute_type=precision,
            )
        except (ValueError, RuntimeError) as error:
            line = " ".join(str(error).split())
            raise UserError(f"--ctranslate2 {precision}: {line}") from None


def as_words(batch: dict, dictionary) -> List[List[str]]:
    """The source sentences of a batch as words, without padding and end of sentence."""
    special = (dictionary.pad(), dictionary.eos())
    return [
        [dictionary[word] for word in row if word not in special]
        for row in batch["net_input"]["src_tokens"].tolist()
    ]


class CTranslate2System:
    """The baseline, converted, with the same weights and the interface of ``FairseqSystem``."""

    counts_as = 1

    def __init__(self, precision: str, model, pair):
        if not isinstance(model, TransformerModelBase):
            raise UserError(f"--ctranslate2: {pair.args.baseline} is no Transformer: name one")
        self.name = f"CTranslate2 {precision}"
        self.dictionary, self.beam = pair.task.source_dictionary, pair.args.beam
        options, device = pair.options[1], pair.args.device
        threads = torch.get_num_threads()
        self.translator = load_translator(model, options, pair.task, precision, device, threads)

    def prepare(self, batch: dict, words: int) -> Callable[[], int]:
        sources = as_words(batch, self.dictionary)
        # it stops at the longest length without a step for the end of sentence: with one word
        # more it makes as many steps and tokens as fairseq
        steps = words + 1

        def translate() -> int:
            found = self.translator.translate_batch(
                sources,
                beam_size=self.beam,
                num_hypotheses=self.beam,  # fairseq, too, gives all of them
                min_decoding_length=steps,
                max_decoding_length=steps,
                max_input_length=0,
            )
            lengths = {len(tokens) for result in found for tokens in result.hypotheses}
            if lengths != {steps}:
                raise RuntimeError(f"{self.name}: {lengths} tokens, asked for {steps}")
            return len(found) * steps

        return translate
