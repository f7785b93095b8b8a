"""Nothing in the options of a checkpoint is run.

Some of the models of fairseq keep lists in strings, such as ``[(512, 3)] * 20``, and hand them to
the ``eval`` of Python when they are built. The options come from the checkpoint, so that a file of
nothing but data, which the weights-only loader lets pass, could run anything. It can go when
fairseq calls ``eval`` on no option (test_hostile_checkpoints.py lists its calls).
"""

import ast
from argparse import Namespace
from typing import Iterator, Tuple

from omegaconf import DictConfig, ListConfig, OmegaConf

from resmlp_mt.errors import UserError

# of fairseq's models, modules and tasks
EVALUATED = {
    *("adaptive_input_cutoff", "adaptive_softmax_cutoff", "character_filters"),
    *("conv_aggregator_layers", "conv_feature_layers", "feature_encoder_spec"),
    *("encoder_layers", "decoder_layers", "encoder_attention", "decoder_attention"),
    *("self_attention", "project_input", "gated_attention", "downsample", "pretrained"),
    *("left_pad_source", "left_pad_target", "xformers_att_config"),
    *("pipeline_balance", "pipeline_encoder_balance", "pipeline_decoder_balance"),
    *("pipeline_devices", "pipeline_encoder_devices", "pipeline_decoder_devices"),
}
_PLAIN = (
    *(ast.Expression, ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Load),
    *(ast.UnaryOp, ast.USub, ast.BinOp, ast.Add, ast.Sub, ast.Mult),
)


def check_options(options, path: str) -> None:
    """
    Args:
        options: of a checkpoint, nested.
        path: the checkpoint.

    Raises:
        UserError: naming the first option that fairseq evaluates and that is more than numbers,
            words, lists, sums and products.
    """
    for name, value in _strings(options):
        if name in EVALUATED and not _is_plain(value):
            raise UserError(
                f"{path}: its option {name} is {value[:60]!r}, which fairseq would run: it may "
                "hold numbers, words, lists, sums and products: give a checkpoint that you trust"
            )


def _strings(options, name: str = "") -> Iterator[Tuple[str, str]]:
    """Every string in *options* with the name of its option."""
    if isinstance(options, (DictConfig, ListConfig)):
        options = OmegaConf.to_container(options)
    if isinstance(options, Namespace):
        options = vars(options)
    if isinstance(options, dict):
        for key, value in options.items():
            yield from _strings(value, str(key))
    elif isinstance(options, (list, tuple)):
        for value in options:
            yield from _strings(value, name)
    elif isinstance(options, str):
        yield name, options


def _is_plain(expression: str) -> bool:
    try:
        nodes = ast.walk(ast.parse(expression.strip(), mode="eval"))
        return all(isinstance(node, _PLAIN) for node in nodes)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
