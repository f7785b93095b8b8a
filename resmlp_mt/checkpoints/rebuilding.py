"""The model in a checkpoint of ours, built from its options without the data it was trained on."""

import warnings
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary

from resmlp_mt.errors import UserError
from resmlp_mt.model.model import ResMLPModel


def synthetic_dictionary(types: int) -> Dictionary:
    """A dictionary of *types* made-up words, the four special symbols of fairseq included: for a
    model whose shape depends on nothing of a dictionary but its size."""
    dictionary = Dictionary()
    for number in range(types - len(dictionary)):
        dictionary.add_symbol(f"w{number}")
    return dictionary


def model_options(state: dict) -> dict:
    """The options of the model in a checkpoint, whether it was trained by command line or hydra.
    A change of them changes *state*."""
    options = state["cfg"]["model"]
    return options if isinstance(options, dict) else vars(options)


def rebuild(state: dict) -> ResMLPModel:
    """The model with its weights.

    Args:
        state: what :func:`~resmlp_mt.checkpoints.loading.load_checkpoint` gives.
    """
    weights = state["model"]
    task = SimpleNamespace(
        source_dictionary=synthetic_dictionary(len(weights["encoder.embed_tokens.weight"])),
        target_dictionary=synthetic_dictionary(len(weights["decoder.embed_tokens.weight"])),
    )
    # the weights are in the checkpoint, and the file may be gone
    without = {"encoder_embed_path": None, "decoder_embed_path": None}
    model = ResMLPModel.build_model(Namespace(**{**model_options(state), **without}), task)
    model.load_state_dict(dict(weights), strict=True)
    return model


def check_fits(state: dict, path: Path) -> None:
    """Whether the names and shapes of the weights are those that the options give. No tensor
    is made for that.

    Args:
        state: what :func:`~resmlp_mt.checkpoints.loading.load_checkpoint` gives.
        path: its file.

    Raises:
        UserError: if not.
    """
    try:
        with torch.device("meta"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it copies nothing, and says so for each parameter
            rebuild(state)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except Exception as error:  # what wrong options make of a model is beyond listing
        # PyTorch lists all that does not fit, below a heading
        lines = [" ".join(line.split()) for line in str(error).split("\n")]
        raise UserError(
            f"{path} does not fit its own options ({lines[min(1, len(lines) - 1)][:200]}): it is "
            "damaged or was made by another version"
        ) from None
