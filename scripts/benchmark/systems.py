"""What translates a batch into a forced number of words: fairseq, ONNX Runtime, CTranslate2.

Each function gives another one, from the number of words to the lengths that came out."""

import tempfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import torch
from models import Pair, make_ready

from resmlp_mt.errors import UserError

Translate = Callable[[int], set[int]]


def in_fairseq(model, pair: Pair, batch: dict) -> Translate:
    """As ``fairseq-generate`` does it."""
    make_ready(model, pair.args.beam)

    def translate(words: int) -> set[int]:
        options = Namespace(beam=pair.args.beam, max_len_a=0, max_len_b=words, min_len=words)
        found = pair.task.inference_step(
            pair.task.build_generator([model], options), [model], batch
        )
        return {len(hypothesis["tokens"]) - 1 for beams in found for hypothesis in beams}

    return translate


def exported(precision: str, pair: Pair, batch: dict, native: bool = False) -> Translate:
    """Our model as ``resmlp-mt export`` writes it."""
    from resmlp_mt.export.graphs import graphs
    from resmlp_mt.export.runtime import BeamSearch

    model = make_ready(pair.build(pair.ours), pair.args.beam)
    output = model.decoder.output_projection
    bias = torch.zeros(output.out_features) if output.bias is None else output.bias.detach()
    bias[pair.task.source_dictionary.eos()] = -1e4  # the limit ends sentences, as it does elsewhere
    output.bias = torch.nn.Parameter(bias)
    limits = [model.encoder.max_source_positions, model.decoder.max_target_positions]
    files, config = graphs(model, precision, {"positions": limits})
    search = BeamSearch(files, config, pair.args.threads, native)
    sources = batch["net_input"]["src_tokens"].tolist()  # of equal lengths: no padding

    def translate(words: int) -> set[int]:
        found = search.search(sources, pair.args.beam, 1.0, 0, words)
        return {len(tokens) for hypotheses in found for _, tokens, _ in hypotheses}

    return translate


def in_ctranslate2(precision: str, pair: Pair, batch: dict) -> Translate:
    """The Transformer with the same weights."""
    model, options = pair.build("transformer"), pair.options["transformer"]
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "converted"
        convert(model, options, pair.task, precision, out)
        translator = load_converted(out, precision, pair.args)
    words_of = pair.task.source_dictionary.symbols
    rows = batch["net_input"]["src_tokens"].tolist()
    sources = [[words_of[word] for word in row[:-1]] for row in rows]

    def translate(words: int) -> set[int]:
        # it stops at the longest length without a step for the end of sentence: with one word
        # more it makes as many steps as fairseq
        found = translator.translate_batch(
            sources,
            beam_size=pair.args.beam,
            num_hypotheses=pair.args.beam,  # fairseq gives all of them, too
            min_decoding_length=words + 1,
            max_decoding_length=words + 1,
            max_input_length=0,
        )
        return {len(tokens) - 1 for result in found for tokens in result.hypotheses}

    return translate


def convert(model, options: Namespace, task, precision: str, out: Path) -> None:
    """Write fairseq's Transformer for CTranslate2."""
    try:
        from ctranslate2.converters import FairseqConverter
    except ImportError as error:
        raise UserError(f"--ctranslate2: {error}: pip install ctranslate2") from None
    options = Namespace(**vars(options))
    options.task, options.source_lang, options.target_lang = "translation", "source", "target"
    # the converter makes NumPy arrays, which have no bfloat16
    weights = {name: value.detach().cpu().float() for name, value in model.state_dict().items()}
    with tempfile.TemporaryDirectory() as name:
        task.source_dictionary.save(f"{name}/dict.source.txt")
        task.target_dictionary.save(f"{name}/dict.target.txt")
        torch.save({"args": options, "model": weights}, f"{name}/model.pt")
        quantization = None if precision == "float32" else precision
        FairseqConverter(f"{name}/model.pt", name).convert(str(out), quantization=quantization)


def load_converted(folder: Path, precision: str, args):
    """A ``ctranslate2.Translator``."""
    import ctranslate2

    return ctranslate2.Translator(
        str(folder), args.device, compute_type=precision, intra_threads=args.threads
    )
