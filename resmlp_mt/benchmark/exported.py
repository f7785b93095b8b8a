"""Our model as `resmlp-mt export` writes it, in ONNX Runtime."""

from typing import Callable

import torch
from torch import nn

from resmlp_mt.benchmark.models import make_ready
from resmlp_mt.errors import UserError


class ExportedSystem:
    """The interface of ``FairseqSystem``, with random weights of the same sizes.

    Raises:
        UserError: if ONNX or ONNX Runtime is missing.
    """

    counts_as = 0

    def __init__(self, precision: str, pair):
        try:
            from resmlp_mt.export.graphs import encoder_graph, step_graph
            from resmlp_mt.export.mixing import window_of
            from resmlp_mt.export.runtime import Model
        except ImportError as error:
            raise UserError(f'--exported: {error}: pip install ".[export]"') from None
        self.name = f"exported {precision}"
        self.beam, dictionary = pair.args.beam, pair.task.source_dictionary
        self.padding = dictionary.pad()
        model = make_ready(pair.build(0), self.beam)
        never_end_(model.decoder.output_projection, dictionary.eos())
        step, states = step_graph(model, precision, {})
        limits = [model.encoder.max_source_positions, model.decoder.max_target_positions]
        config = {"states": states, "window": window_of(model), "positions": limits}
        encoder = encoder_graph(model, precision, {})
        self.model = Model(encoder, step, config, torch.get_num_threads())

    def prepare(self, batch: dict, words: int) -> Callable[[], int]:
        rows = batch["net_input"]["src_tokens"].tolist()
        sources = [[word for word in row if word != self.padding] for row in rows]
        numbers = range(1, len(rows) + 1)

        def translate() -> int:
            found = self.model.search(sources, numbers, None, self.beam, 1.0, 0, words)
            lengths = {len(tokens) for hypotheses in found for _, tokens, _ in hypotheses}
            if lengths != {words}:
                raise RuntimeError(f"{self.name}: {lengths} words, asked for {words}")
            return len(found) * (words + 1)

        return translate


@torch.no_grad()
def never_end_(output: nn.Linear, end: int) -> None:
    """Make an output layer that ends no sentence: the limit does, as for the other systems."""
    bias = output.weight.new_zeros(output.out_features) if output.bias is None else output.bias
    bias = bias.clone()
    bias[end] = -1e4
    output.bias = nn.Parameter(bias)
