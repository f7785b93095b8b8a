"""What translates a batch into ``--length`` tokens: fairseq, our exports, CTranslate2.

Each function returns another one, which translates and gives the lengths of its outputs."""

import tempfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import torch
from models import LANGUAGES, Models

from resmlp_mt_runtime.errors import UserError

Translate = Callable[[], set[int]]


def in_fairseq(model, models: Models, batch: dict, search: type | None = None) -> Translate:
    """As ``fairseq-generate`` does it. *search*: another one than the model's own."""
    args = models.args
    model.eval().prepare_for_inference_(Namespace(generation=Namespace(beam=args.beam)))
    length = {"max_len_a": 0, "max_len_b": args.length, "min_len": args.length}

    def translate() -> set[int]:
        options = Namespace(beam=args.beam, **length)
        generator = models.task.build_generator([model], options, seq_gen_cls=search)
        found = models.task.inference_step(generator, [model], batch)
        return {len(hypothesis["tokens"]) - 1 for beams in found for hypothesis in beams}

    return translate


def exported(name: str, models: Models, batch: dict) -> Translate:
    """Our model as ``resmlp-mt export --int8`` writes it, in C++."""
    from resmlp_mt.export.weights import weights_of
    from resmlp_mt_runtime.folder import Export
    from resmlp_mt_runtime.native import NativeEngine, load_library

    library = load_library()
    if library is None:
        raise UserError("--exported: the library is not built: install with a C++ compiler")
    args, model = models.args, models.build(name).eval()
    output, dictionary = model.decoder.output_projection, models.task.source_dictionary
    bias = torch.zeros(output.out_features) if output.bias is None else output.bias.detach()
    # the limit ends sentences, as it does elsewhere
    bias[dictionary.eos()] = -1e4
    output.bias = torch.nn.Parameter(bias)
    arrays, sizes = weights_of(model, "int8")
    export = Export(sizes, arrays, [dictionary.symbols] * 2, b"")
    engine = NativeEngine(library, export, args.threads)
    sources = batch["net_input"]["src_tokens"].tolist()  # of equal lengths: no padding

    def translate() -> set[int]:
        found = engine.search(sources, args.beam, 1.0, args.length, [[]] * len(sources), 0)
        return {len(tokens) for hypotheses in found for _, tokens in hypotheses}

    return translate


def in_ctranslate2(models: Models, batch: dict) -> Translate:
    """The Transformer, in int8."""
    try:
        import ctranslate2
    except ImportError as error:
        raise UserError(f"--ctranslate2: {error}: pip install ctranslate2") from None
    args, dictionary = models.args, models.task.source_dictionary
    # the converter makes NumPy arrays, which have no bfloat16
    weights = models.build("transformer").cpu().float().state_dict()
    with tempfile.TemporaryDirectory() as name:
        for language in LANGUAGES:
            dictionary.save(f"{name}/dict.{language}.txt")
        path = Path(name, "model.pt")
        torch.save({"args": models.options["transformer"], "model": weights}, path)
        converter = ctranslate2.converters.FairseqConverter(str(path), name)
        out = converter.convert(f"{name}/out", quantization="int8")
        options = {"compute_type": "int8", "intra_threads": args.threads}
        translator = ctranslate2.Translator(out, args.device, **options)
    rows = batch["net_input"]["src_tokens"].tolist()
    sources = [[dictionary.symbols[token] for token in row[:-1]] for row in rows]

    def translate() -> set[int]:
        # CTranslate2 stops at the longest length without a step for EOS: with one token more it
        # makes as many steps as fairseq
        found = translator.translate_batch(
            sources,
            beam_size=args.beam,
            num_hypotheses=args.beam,  # fairseq returns all of them, too
            min_decoding_length=args.length + 1,
            max_decoding_length=args.length + 1,
            max_input_length=0,
        )
        return {len(tokens) - 1 for result in found for tokens in result.hypotheses}

    return translate
