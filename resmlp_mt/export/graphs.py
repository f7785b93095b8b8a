"""The encoder and one step of the decoder as ONNX graphs over the arrays of weights.py.

The embeddings are looked up by the runtime: the rows of one matrix serve the source, the target
and, as columns, the output layer.
"""

from torch import nn

from resmlp_mt.export.mixing import NewestToken, WholeSentence, mixing_branch
from resmlp_mt.export.onnx_graph import Graph, Name
from resmlp_mt.export.runtime import EOS, WEIGHTS
from resmlp_mt.export.weights import weights_of


def exported(model: nn.Module, precision: str) -> tuple[dict[str, bytes], dict]:
    """The graphs and their weights as files by name, and the sizes for config.json."""
    weights, sizes = weights_of(model, precision)
    data, offsets = weights.serialized()
    encoder = encoder_graph(Graph("encoder", weights, integers=False), sizes)
    step = step_graph(Graph("step", weights, integers=True), sizes)
    graphs = {f"{graph.name}.onnx": graph.build(offsets) for graph in (encoder, step)}
    return {**graphs, WEIGHTS: data}, sizes


def encoder_graph(graph: Graph, sizes: dict) -> Graph:
    """B sentences of S tokens, padded on the right, to what the decoder reads of them.

    Inputs: ``embedded`` (B x S x C), ``inside`` (B x S x 1 x 1; 1 at tokens, 0 at padding).
    Outputs, of each decoder layer l: ``keys.l`` and ``values.l``, B x H x S x C / H.
    """
    (width, target), (layers, readers) = sizes["channels"], sizes["layers"]
    x = graph.input("embedded", "float32", ["sentences", "length", width])
    inside = graph.input("inside", "float32", ["sentences", "length", 1, 1])
    sequence = WholeSentence(graph, inside)
    if graph.has("encoder.positions"):
        x = graph.op("Add", x, sequence.at_positions("encoder.positions"))
    x = graph.reshape(x, -1, width)
    for name in (f"encoder.{number}" for number in range(layers)):
        x = mixing_branch(graph, x, name, sizes, sequence)
        x = feed_forward(graph, x, name, sizes)
    x = graph.linear(graph.norm(x, "encoder.last_norm"), "encoder.keys_values")
    heads, channels = sizes["heads"], target // sizes["heads"]
    x = sequence.reshape(x, 2 * readers * heads, channels)
    x = graph.transpose(x, 0, 2, 1, 3)
    for number, part in enumerate(graph.split(x, 2 * readers, axis=1)):
        name = f"{('keys', 'values')[number % 2]}.{number // 2}"
        graph.output(part, name, "float32", ["sentences", heads, "length", channels])
    return graph


def step_graph(graph: Graph, sizes: dict) -> Graph:
    """One decoding step of J hypotheses of B sentences, and its memory.

    Inputs: ``embedded`` ((B J) x C, the newest tokens), ``shape`` (int64: B, J, C), ``lengths``
    (int32, B, of the sources), ``count`` (int64, 1), those of :class:`NewestToken`, and the outputs
    of the encoder.
    Outputs, of each hypothesis: ``scores`` and ``tokens`` (int64), log probabilities of the *count*
    best tokens, the best first; ``end_scores`` (B J), of the end of sentence; ``new``.
    """
    width = sizes["channels"][1]
    x = graph.input("embedded", "float32", ["all rows", width])
    shape, count = graph.input("shape", "int64", [3]), graph.input("count", "int64", [1])
    graph.input("lengths", "int32", ["sentences"])
    sequence = NewestToken(graph, sizes)
    if graph.has("decoder.positions"):
        x = graph.op("Add", x, sequence.at_position("decoder.positions"))
    for number in range(sizes["layers"][1]):
        name = f"decoder.{number}"
        x = mixing_branch(graph, x, name, sizes, sequence)
        x = attend(graph, x, number, shape, sizes)
        x = feed_forward(graph, x, name, sizes)
    if sequence.new:
        new = graph.op("Concat", *sequence.new, axis=1)
        graph.output(new, "new", "float32", ["all rows", "all channels"])
    x = graph.norm(x, "decoder.last_norm")
    if graph.has("decoder.output_scale"):
        x = graph.op("Mul", x, graph.array("decoder.output_scale"))
    scores = graph.op("LogSoftmax", graph.linear(x, "decoder.output"), axis=-1)
    end = graph.op("Gather", scores, graph.constant(EOS), axis=1)
    graph.output(end, "end_scores", "float32", ["all rows"])
    best, tokens = graph.op("TopK", scores, count, outputs=2, axis=1)
    graph.output(best, "scores", "float32", ["all rows", "count"])
    graph.output(tokens, "tokens", "int64", ["all rows", "count"])
    return graph


def feed_forward(graph: Graph, x: Name, layer: str, sizes: dict) -> Name:
    """``Y = Z + C GELU(B Z)``."""
    h = graph.linear(graph.norm(x, f"{layer}.feed_forward_norm"), f"{layer}.first")
    h = graph.activation(h, sizes["activation"])
    return graph.op("Add", x, graph.linear(h, f"{layer}.second"))


def attend(graph: Graph, x: Name, number: int, shape: Name, sizes: dict) -> Name:
    """Cross-attention: (B J) x C to the same."""
    layer, heads, width = f"decoder.{number}", sizes["heads"], sizes["channels"][1]
    each = ["sentences", heads, "length", width // heads]
    read = [graph.input(f"{name}.{number}", "float32", each) for name in ("keys", "values")]
    query = graph.linear(graph.norm(x, f"{layer}.attention_norm"), f"{layer}.query")
    y = graph.op(
        "MultiHeadAttention",
        *(graph.op("Reshape", query, shape), *read, "", "lengths"),
        domain="com.microsoft",
        num_heads=heads,
        scale=1.0,
    )
    return graph.op("Add", x, graph.linear(graph.reshape(y, -1, width), f"{layer}.attended"))
