"""The encoder and one step of the decoder as ONNX graphs, with the affine maps folded.

The embeddings are looked up by the runtime: the rows of one matrix serve the source, the target
and, as columns, the output layer. It is stored once, in the graph of the step.
"""

import json

import numpy as np
import torch
from torch import nn

from resmlp_mt.export.mixing import NewestWord, WholeSentence, mixing_branch
from resmlp_mt.export.onnx_graph import Graph, Name, array
from resmlp_mt.model.affine import Affine
from resmlp_mt.model.inference import absorb, before, fold_layer


@torch.no_grad()
def graphs(model: nn.Module, precision: str, sizes: dict) -> tuple[dict, dict]:
    """``encoder.onnx`` and ``step.onnx``, and what config.json says of them.

    *sizes*: ``positions`` of each side, and whatever else graphs and config.json have to agree on.
    """
    encoder, (step, sequence) = encoder_graph(model, precision), step_graph(model, precision)
    stacks = model.encoder, model.decoder
    sizes = {
        **sizes,
        "vocabulary": [len(stack.dictionary) for stack in stacks],
        "layers": [len(stack.layers) for stack in stacks],
        "channels": [model.encoder.embed_tokens.embedding_dim, model.decoder.embed_dim],
        "memory": sequence.memory,
        "window": sequence.window,
    }
    metadata = {"config": json.dumps(sizes)}
    source, target = (array(stack.embed_tokens.weight) for stack in stacks)  # V x C
    home = step if np.array_equal(source, target) else encoder
    stored = [home.store_columns(source.T), step.store_columns(target.T)]
    files = {"encoder.onnx": encoder.build(metadata), "step.onnx": step.build(metadata)}
    places = [
        {
            "file": f"{graph.name}.onnx",
            "type": precision,
            "offsets": [graph.offset(name, files[f"{graph.name}.onnx"]) for name in names],
            "channels": stack.embed_tokens.embedding_dim,
            "scale": float(stack.embed_scale),
        }
        for graph, stack, names in zip((home, step), stacks, stored)
    ]
    native = {"activation": step.used_activation, "arrays": step.labelled(files["step.onnx"])}
    embeddings = dict(zip(("source", "target"), places))
    return files, {**sizes, "embeddings": embeddings, "native": native}


def encoder_graph(model: nn.Module, precision: str) -> Graph:
    """B sentences of S words, padded on the right, to what the decoder reads of them.

    Inputs: ``embedded`` (B x S x C), ``inside`` (B x S x 1 x 1; 1 at words, 0 at padding).
    Outputs, of each decoder layer l: ``keys.l`` and ``values.l``, B x H x S x C / H.
    """
    encoder, graph = model.encoder, Graph("encoder", precision, integers=False)
    width = encoder.embed_tokens.embedding_dim
    x = graph.input("embedded", "float32", ["sentences", "length", width])
    inside = graph.input("inside", "float32", ["sentences", "length", 1, 1])
    sequence = WholeSentence(graph, inside)
    if encoder.embed_positions is not None:
        x = graph.op("Add", x, sequence.at_positions(position_table(encoder)))
    x = graph.reshape(x, -1, width)
    x = graph.linear(graph.norm(x, encoder.layernorm_embedding), encoder.quant_noise)
    for number, layer in enumerate(map(fold_layer, encoder.layers)):
        x = mixing_branch(graph, x, layer.token_mixing, number, sequence)
        x = feed_forward(graph, x, layer.feed_forward)
    attentions = [layer.cross_attention.attn for layer in model.decoder.layers]
    read = [part for attn in attentions for part in (attn.k_proj, attn.v_proj)]
    read = [absorb(encoder.layer_norm, part)[1] for part in read]
    heads, each = attentions[0].num_heads, attentions[0].head_dim
    weight = np.concatenate([array(part.weight) for part in read]).T
    zeros = np.zeros(heads * each, np.float32)
    bias = [zeros if part.bias is None else array(part.bias) for part in read]
    x = graph.norm(x, encoder.layer_norm)
    x = graph.product(x, graph.store_columns(weight), np.concatenate(bias))
    x = graph.transpose(sequence.reshape(x, len(read) * heads, each), 0, 2, 1, 3)
    for number, part in enumerate(graph.split(x, len(read), axis=1)):
        name = f"{('keys', 'values')[number % 2]}.{number // 2}"
        graph.output(part, name, "float32", ["sentences", heads, "length", each])
    return graph


def step_graph(model: nn.Module, precision: str) -> tuple[Graph, NewestWord]:
    """One decoding step of J hypotheses of B sentences, and its memory.

    Inputs: ``embedded`` ((B J) x C, the newest words), ``shape`` (int64: B, J, C), ``lengths``
    (int32, B, of the sources), ``count`` (int64, 1), those of :class:`NewestWord`, and the outputs
    of the encoder.
    Outputs, of each hypothesis: ``scores`` and ``words`` (int64), log probabilities of the *count*
    best words, the best first; ``end_scores`` (B J), of the end of sentence; ``query`` (C), of the
    last layer's attention; ``new``.
    """
    decoder, graph = model.decoder, Graph("step", precision, integers=True)
    width = decoder.embed_tokens.embedding_dim
    x = graph.input("embedded", "float32", ["all rows", width])
    shape, count = graph.input("shape", "int64", [3]), graph.input("count", "int64", [1])
    graph.input("lengths", "int32", ["sentences"])
    layers = [fold_layer(layer) for layer in decoder.layers]
    sequence = NewestWord(graph, [layer.token_mixing for layer in layers])
    x = graph.linear(graph.linear(x, decoder.quant_noise), decoder.project_in_dim)
    if decoder.embed_positions is not None:
        x = graph.op("Add", x, sequence.at_positions(position_table(decoder), "positions"))
    x = graph.norm(x, decoder.layernorm_embedding, "first_norm")
    for number, layer in enumerate(layers):
        graph.layer = f"{number}."
        x = mixing_branch(graph, x, layer.token_mixing, number, sequence)
        x, query = attend(graph, x, layer.cross_attention, number, shape)
        x = feed_forward(graph, x, layer.feed_forward)
    graph.layer = ""
    if sequence.new:
        new = graph.op("Concat", *sequence.new, axis=1)
        graph.output(new, "new", "float32", ["all rows", "all channels"])
    graph.output(query, "query", "float32", ["all rows", decoder.embed_dim])
    norm, layer = decoder.layer_norm, decoder.output_projection
    if decoder.project_out_dim is not None:
        norm, project = absorb(norm, decoder.project_out_dim)
        x, norm = graph.linear(graph.norm(x, norm), project), None
    x, weight = graph.norm(x, norm, "last_norm"), array(layer.weight)
    if isinstance(norm, Affine):
        layer = before(norm, layer)
        if np.array_equal(weight, array(decoder.embed_tokens.weight)):
            # the embedding, which cannot have the scale in it
            x = graph.op("Mul", x, graph.constant(array(norm.alpha), "float32", "alpha"))
        else:
            weight = array(layer.weight)
    bias = None if layer.bias is None else array(layer.bias)
    logits = graph.product(x, graph.store_columns(weight.T), bias, "last")
    scores = graph.op("LogSoftmax", logits, axis=-1)
    end = graph.op("Gather", scores, graph.constant(decoder.dictionary.eos()), axis=1)
    graph.output(end, "end_scores", "float32", ["all rows"])
    best, words = graph.op("TopK", scores, count, outputs=2, axis=1)
    graph.output(best, "scores", "float32", ["all rows", "count"])
    graph.output(words, "words", "int64", ["all rows", "count"])
    return graph, sequence


def position_table(side: nn.Module) -> np.ndarray:
    """The embedding of each position, N x C."""
    words = torch.full((1, side.max_positions()), side.padding_idx + 1)
    return array(side.embed_positions(words)[0])


def feed_forward(graph: Graph, x: Name, branch: nn.Module) -> Name:
    """``Y = Z + C GELU(B Z)``."""
    h = graph.linear(graph.norm(x, branch.pre, "feed_forward_norm"), branch.fc1, "first")
    h = graph.activation(h, branch.activation_fn)
    return graph.op("Add", x, graph.linear(h, branch.fc2, "second"))


def attend(graph: Graph, x: Name, branch: nn.Module, number: int, shape: Name) -> tuple[Name, Name]:
    """Cross-attention: (B J) x C to the same, and the scaled queries, (B J) x C."""
    attn = branch.attn
    heads, each = attn.num_heads, attn.head_dim
    sizes = ["sentences", heads, "length", each]
    read = [graph.input(f"{name}.{number}", "float32", sizes) for name in ("keys", "values")]
    scale = np.float32(attn.scaling)
    bias = None if attn.q_proj.bias is None else array(attn.q_proj.bias) * scale
    weight = array(attn.q_proj.weight).T * scale
    h = graph.norm(x, branch.pre, "attention_norm")
    query = graph.product(h, graph.store_columns(weight), bias, "query")
    y = graph.op(
        "MultiHeadAttention",
        *(graph.op("Reshape", query, shape), *read, "", "lengths"),
        domain="com.microsoft",
        num_heads=heads,
        scale=1.0,
    )
    y = graph.linear(graph.reshape(y, -1, heads * each), attn.out_proj, "attended")
    return graph.op("Add", x, y), query
