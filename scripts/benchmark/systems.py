"""What translates a batch into a forced number of tokens: fairseq, our exports, CTranslate2.

Each function returns another one, from the number of tokens to the lengths of the outputs."""

import tempfile
from argparse import Namespace
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch
from fairseq.models.transformer import TransformerModelBase
from fairseq.sequence_generator import SequenceGenerator
from models import Models
from omegaconf import OmegaConf

from resmlp_mt.errors import UserError
from resmlp_mt.model.inference import fold_

Translate = Callable[[int], set[int]]


def make_ready(model, beam: int, packed: bool = True):
    """What ``fairseq-generate`` does to a model before it translates; without *packed*, all but
    our packed weights."""
    model.eval()
    cfg = OmegaConf.create({"generation": {"beam": beam, "print_alignment": None}})
    if packed:
        model.prepare_for_inference_(cfg)
    else:
        TransformerModelBase.prepare_for_inference_(model, cfg)
        fold_(model)
    return model


def in_fairseq(
    model, models: Models, batch: dict, packed: bool = True, search: type | None = None
) -> Translate:
    """As ``fairseq-generate`` does it. *search*: another one than the model's own."""
    args = models.args
    make_ready(model, args.beam, packed)

    def translate(length: int) -> set[int]:
        options = Namespace(beam=args.beam, max_len_a=0, max_len_b=length, min_len=length)
        generator = models.task.build_generator([model], options, seq_gen_cls=search)
        found = models.task.inference_step(generator, [model], batch)
        return {len(hypothesis["tokens"]) - 1 for beams in found for hypothesis in beams}

    return translate


def parts(name: str, models: Models, batch: dict) -> dict[str, Translate]:
    """The same model without packed weights, and under fairseq's search."""
    model = models.build(name)
    return {
        f"{name}, fairseq's search": in_fairseq(model, models, batch, False, SequenceGenerator),
        f"{name}, not packed": in_fairseq(model, models, batch, False),
    }


def engines(graph: bool) -> list[str]:
    """What runs an export: the native runtime where it is installed, ONNX Runtime elsewhere, both
    if *graph* asks for it."""
    native = find_spec("resmlp_mt_native") is not None
    return ["native"] * native + ["graph"] * (graph or not native)


def exported(name: str, precision: str, models: Models, batch: dict, graph: bool) -> Translate:
    """Our model as ``resmlp-mt export`` writes it."""
    from resmlp_mt.export import graphs
    from resmlp_mt.export.runtime import BeamSearch

    model = make_ready(models.build(name), models.args.beam)
    output = model.decoder.output_projection
    bias = torch.zeros(output.out_features) if output.bias is None else output.bias.detach()
    bias[
        models.task.source_dictionary.eos()
    ] = -1e4  # the limit ends sentences, as it does elsewhere
    output.bias = torch.nn.Parameter(bias)
    limits = [model.encoder.max_source_positions, model.decoder.max_target_positions]
    files, sizes = graphs.exported(model, precision)
    search = BeamSearch(files, {**sizes, "positions": limits}, models.args.threads, graph)
    sources = batch["net_input"]["src_tokens"].tolist()  # of equal lengths: no padding

    def translate(length: int) -> set[int]:
        found = search.search(sources, models.args.beam, 1.0, 0, length)
        return {len(tokens) for hypotheses in found for _, tokens in hypotheses}

    return translate


def in_ctranslate2(precision: str, models: Models, batch: dict) -> Translate:
    """The Transformer."""
    model, options = models.build("transformer"), models.options["transformer"]
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "converted"
        convert(model, options, models.task, precision, out)
        translator = load_converted(out, precision, models.args)
    symbols = models.task.source_dictionary.symbols
    rows = batch["net_input"]["src_tokens"].tolist()
    sources = [[symbols[token] for token in row[:-1]] for row in rows]

    def translate(length: int) -> set[int]:
        # CTranslate2 stops at the longest length without a step for EOS: with one token more it
        # makes as many steps as fairseq
        found = translator.translate_batch(
            sources,
            beam_size=models.args.beam,
            num_hypotheses=models.args.beam,  # fairseq returns all of them, too
            min_decoding_length=length + 1,
            max_decoding_length=length + 1,
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
