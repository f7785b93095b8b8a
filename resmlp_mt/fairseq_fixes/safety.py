"""Errors take one line, options in a checkpoint are not run, memory stays flat.

Without this, the reason stands below forty lines of traceback, and a checkpoint can run code, hide
a flipped bit or fetch files (test_one_line_errors.py, test_hostile_checkpoints.py).
"""

import argparse
import ast
import os
import sys
from collections.abc import Iterator
from typing import Any, cast

from fairseq import checkpoint_utils, hub_utils
from omegaconf import DictConfig, ListConfig, OmegaConf

from resmlp_mt.checkpoints import naming, read_checkpoint
from resmlp_mt.errors import UserError, in_one_line
from resmlp_mt.fairseq_fixes import replace

# ---- nothing in the options is run ----------------------------------------------------------
#
# Some models of fairseq hand options such as "[(512, 3)] * 20" to eval when they are built. It can
# go when fairseq calls eval on no option (test_hostile_checkpoints.py lists its calls).

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
    """Refuse nested options of which fairseq would evaluate more than numbers, words and lists."""
    for name, value in _strings(options):
        if name in EVALUATED and not _is_plain(value):
            raise UserError(
                f"{path}: its option {name} is {value[:60]!r}, which fairseq would run: it may "
                "hold numbers, words, lists, sums and products: give a checkpoint that you trust"
            )


def _strings(options, name: str = "") -> Iterator[tuple[str, str]]:
    """Every string in *options* with the name of its option."""
    if isinstance(options, (DictConfig, ListConfig)):
        options = OmegaConf.to_container(options)
    if isinstance(options, argparse.Namespace):
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


# ---- checkpoints that cannot be used --------------------------------------------------------


@replace(checkpoint_utils, "load_checkpoint_to_cpu")
def load_checkpoint_to_cpu(original, path, *args, **kwargs):
    with naming(path, "cannot be read"):
        if os.path.isfile(path):
            read_checkpoint(path, mapped=True)
        state = original(path, *args, **kwargs)
        check_options([state.get("args"), state.get("cfg")], path)
        # for a training that resumes with another number of processes
        if OmegaConf.is_config(state.get("cfg")) and isinstance(state.get("extra_state"), dict):
            state["extra_state"]["processes"] = OmegaConf.select(
                state["cfg"], "distributed_training.distributed_world_size"
            )
    return state


@replace(checkpoint_utils, "load_model_ensemble_and_task")
def load_model_ensemble_and_task(original, filenames, arg_overrides=None, task=None, *args, **kw):
    models, cfg = [], None
    for filename in filenames:
        with naming(filename, "holds a model that cannot be built here"):
            found, cfg, task = original([filename], arg_overrides, task, *args, **kw)
        models += found
    return models, cfg, task


@replace(hub_utils, "from_pretrained")
def from_pretrained(original, model_name_or_path, checkpoint_file="model.pt", *args, **kwargs):
    """Without this, the hub downloads a tokenizer or BPE from any address that a checkpoint names.
    It can go when ``GeneratorHubInterface`` takes neither from it (``test_nothing_is_fetched``)."""
    loaded = original(model_name_or_path, checkpoint_file, *args, **kwargs)
    for kind in ("bpe", "tokenizer"):
        options = getattr(loaded["args"], kind, None)
        # of a checkpoint with a kind of its own, fairseq ignores the kind that the caller gave
        if not OmegaConf.is_config(options) or options.get("_name") == kwargs.get(kind):
            continue
        found = cast(dict[str, Any], OmegaConf.to_container(options, resolve=True))
        for option, value in found.items():
            if option not in kwargs and "://" in str(value):
                path = os.path.join(str(model_name_or_path), checkpoint_file)
                raise UserError(
                    f"{path}: its option {option} is an address, {value}, and nothing is fetched "
                    f"because a checkpoint says so: give {option}= or {kind}="
                )
    return loaded


# ---- messages --------------------------------------------------------------------


def _shorten_errors() -> None:
    """If this process is one of fairseq's programs, errors that are recognised take one line there.
    ``RESMLP_MT_TRACEBACK=1`` shows all of them in full."""
    program = sys.argv[0] if sys.argv else ""
    name = os.path.basename(program)
    if os.path.basename(os.path.dirname(program)) == "fairseq_cli":
        name = "fairseq-" + os.path.splitext(name)[0].replace("_", "-")
    if not name.startswith("fairseq-") or os.environ.get("RESMLP_MT_TRACEBACK"):
        return
    show = sys.excepthook

    def hook(kind, error, traceback):
        message = in_one_line(error)
        if message is None:
            show(kind, error, traceback)
        else:
            print(f"{name}: error: {' '.join(message.split())}", file=sys.stderr)

    sys.excepthook = hook


_shorten_errors()
