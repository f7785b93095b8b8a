"""Checks of a GPU before a large training: agreement with the CPU, training in each precision, and
speed in 16 bits."""

import os
import shlex
import warnings
from argparse import Namespace

import modes
import torch
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.sequence_generator import SequenceGenerator
from fairseq.trainer import Trainer
from fairseq.utils import apply_to_sample
from measuring import show
from models import Models, complete, loss_of
from systems import make_ready
from torch import Tensor

from resmlp_mt.errors import UserError
from resmlp_mt.loss import AUTOCAST
from resmlp_mt.model.mixing import TOKEN_MIXING
from resmlp_mt.pipeline.train.recipe import command_line, load_recipe
from resmlp_mt.search.beam_search import ResMLPGenerator

TOLERANCE = 1e-3  # how far float32 on two devices may be apart
SMALL = (
    "--encoder-layers 2 --decoder-layers 2 --encoder-embed-dim 32 --encoder-ffn-embed-dim 64 "
    "--decoder-embed-dim 32 --dropout 0"
)


def agreement(args) -> dict[str, dict]:
    """By kind of token mixing: the largest differences from the CPU, and the sentences whose tokens
    differ from those of fairseq's own beam search there."""
    small = {"vocabulary": 200, "device": "cpu", "dtype": "float32"}
    found = {}
    # without mixing the same tokens score the same in many orders: which comes first is chance
    for kind in [kind for kind in TOKEN_MIXING if kind != "none"]:
        arch = f"resmlp_mt_tiny {SMALL} --token-mixing {kind}"
        models = Models(Namespace(**{**vars(args), **small, "arch": [arch]}))
        batch, model = models.batch(4, 7, 9), models.build(arch)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
        here = computed(model.state_dict(), models, batch, "cpu", SequenceGenerator)
        there = computed(model.state_dict(), models, batch, args.device, ResMLPGenerator)
        gradients = zip(there["gradients"], here["gradients"], strict=True)
        found[kind] = {
            "logits": difference(there["logits"], here["logits"]),
            "gradients": max(difference(some, others) for some, others in gradients),
            "other_tokens": sum(
                a != b for a, b in zip(there["tokens"], here["tokens"], strict=True)
            ),
        }
    return found


def computed(state: dict, models: Models, batch: dict, device: str, search: type) -> dict:
    model = models.build(models.ours[0])
    model.load_state_dict(state)
    model.to(device).train()
    batch = apply_to_sample(lambda x: x.to(device), batch)
    logits, _ = model(**batch["net_input"])
    loss_of(model, models.task, batch).backward()
    # a bias that is added to all keys alike changes no softmax: its gradient is rounding alone
    gradients = [
        parameter.grad.cpu()
        for name, parameter in model.named_parameters()
        if not name.endswith("k_proj.bias")
    ]
    model.eval()
    if search is ResMLPGenerator:
        make_ready(model, 4)
    generator = search([model], models.task.target_dictionary, beam_size=4, max_len_b=40)
    tokens = [[h["tokens"].tolist() for h in beams] for beams in generator.generate([model], batch)]
    return {"logits": logits.detach().cpu(), "gradients": gradients, "tokens": tokens}


def difference(some: Tensor, others: Tensor) -> float:
    """The largest one, relative to the largest value where that is above 1."""
    gap = (some - others).abs().max() / others.abs().max().clamp(min=1)
    return gap.nan_to_num(nan=torch.inf).item()


def train(args, precision: str) -> list[float]:
    """The losses of ``--updates`` updates with the paper's recipe, skipped ones left out."""
    models = Models(Namespace(**{**vars(args), "dtype": "float32", "device": "cpu"}))
    switches = {"float16": ["--fp16"]}.get(precision, []) + ["--cpu"] * (args.device == "cpu")
    recipe = command_line(load_recipe("paper").options_for("resmlp_mt", "en-de", args.updates))
    arch, *sizes = shlex.split(args.arch[0])
    options = complete(arch, [*sizes, *recipe, *switches])
    warnings.simplefilter("ignore")  # hydra's, about fairseq's use of it
    cfg = convert_namespace_to_omegaconf(options)
    criterion = models.task.build_criterion(cfg.criterion)
    trainer = Trainer(cfg, models.task, models.build(models.ours[0]), criterion)
    trainer.begin_epoch(1)
    losses: list[float] = []
    os.environ[AUTOCAST] = precision if precision == "bfloat16" else ""
    for update in range(args.updates):
        batch = models.training_batch(args.source_length, args.target_length[0], 2 * update)
        logged = trainer.train_step([batch])
        if trainer.get_num_updates() > len(losses):
            losses.append(float(logged["loss"]))
    return losses


def main(args) -> dict:
    agreed = agreement(args)
    rows = [[kind, *(f"{value:.1g}" for value in of.values())] for kind, of in agreed.items()]
    show("Differences from the CPU", ["", *agreed["linear"]], rows)
    on_gpu = args.device == "cuda"
    trained = {p: train(args, p) for p in ("float32", "bfloat16", *["float16"] * on_gpu)}
    rows = [
        [name, f"{len(of)} of {args.updates}", *(f"{of[at]:.2f}" if of else "-" for at in (0, -1))]
        for name, of in trained.items()
    ]
    show("Training with the paper's recipe", ["", "updates", "first loss", "last loss"], rows)
    found = {"agreement": agreed, "training": trained, "speed": {}}
    for dtype in ("float16", "bfloat16") if on_gpu else ("float32",):
        given = Namespace(**{**vars(args), "dtype": dtype})
        found["speed"][dtype] = [modes.decode(given), modes.train(given)]
    for kind, of in agreed.items():
        if max(of["logits"], of["gradients"]) > TOLERANCE or of["other_tokens"]:
            raise UserError(f"--device {args.device}: {kind} disagrees with the CPU, see above")
    return found
