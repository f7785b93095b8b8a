"""What to know of a GPU before a large training: agreement with the CPU, training in each
precision, and speed in 16 bits."""

import warnings
from argparse import Namespace
from contextlib import nullcontext

import modes
import torch
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.sequence_generator import SequenceGenerator
from fairseq.trainer import Trainer
from fairseq.utils import apply_to_sample
from measuring import show
from models import Pair, complete, loss_of, make_ready
from torch import Tensor

from resmlp_mt.errors import UserError
from resmlp_mt.model.mixing import TOKEN_MIXING
from resmlp_mt.pipeline.train.recipe import command_line, load_recipe
from resmlp_mt.search.beam_search import ResMLPGenerator

TOLERANCE = 1e-3  # how far float32 on two devices may be apart
SMALL = (
    "--encoder-layers 2 --decoder-layers 2 --encoder-embed-dim 32 --encoder-ffn-embed-dim 64 "
    "--decoder-embed-dim 32 --dropout 0"
)


def agreement(args) -> dict[str, dict]:
    """By kind of token mixing: the largest differences to the CPU, and sentences whose words differ
    from those of fairseq's own beam search there."""
    small = {"vocabulary": 200, "device": "cpu", "dtype": "float32", "arch": "resmlp_mt_tiny"}
    found = {}
    # without mixing the same words score the same in many orders: which comes first is chance
    for kind in [kind for kind in TOKEN_MIXING if kind != "none"]:
        options = f"{SMALL} --token-mixing {kind}"
        pair = Pair(Namespace(**{**vars(args), **small, "arch_options": options}))
        batch, model = pair.batch(4, 7, 9), pair.build(pair.ours)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
        here = computed(model.state_dict(), pair, batch, "cpu", SequenceGenerator)
        there = computed(model.state_dict(), pair, batch, args.device, ResMLPGenerator)
        gradients = zip(there["gradients"], here["gradients"], strict=True)
        found[kind] = {
            "logits": difference(there["logits"], here["logits"]),
            "gradients": max(difference(some, others) for some, others in gradients),
            "other_words": sum(a != b for a, b in zip(there["words"], here["words"], strict=True)),
        }
    return found


def computed(state: dict, pair: Pair, batch: dict, device: str, search: type) -> dict:
    model = pair.build(pair.ours)
    model.load_state_dict(state)
    model.to(device).train()
    batch = apply_to_sample(lambda x: x.to(device), batch)
    logits, _ = model(**batch["net_input"])
    loss_of(model, pair.task, batch).backward()
    # what is added to all keys alike changes no softmax: that gradient is rounding alone
    named = [pair for pair in model.named_parameters() if not pair[0].endswith("k_proj.bias")]
    gradients = [parameter.grad.cpu() for _, parameter in named]
    model.eval()
    if search is ResMLPGenerator:
        make_ready(model, 4)
    generator = search([model], pair.task.target_dictionary, beam_size=4, max_len_b=40)
    words = [[h["tokens"].tolist() for h in beams] for beams in generator.generate([model], batch)]
    return {"logits": logits.detach().cpu(), "gradients": gradients, "words": words}


def difference(some: Tensor, others: Tensor) -> float:
    """The largest one, relative to the largest value where that is above 1."""
    return ((some - others).abs().max() / others.abs().max().clamp(min=1)).item()


def train(args, precision: str) -> list[float]:
    """The losses of ``--updates`` updates with the paper's recipe, without skipped ones."""
    pair = Pair(Namespace(**{**vars(args), "dtype": "float32", "device": "cpu"}))
    switches = {"float16": ["--fp16"]}.get(precision, []) + ["--cpu"] * (args.device == "cpu")
    recipe = command_line(load_recipe("paper").options_for("resmlp_mt", "en-de", args.updates))
    options = complete(args.arch, [*args.arch_options.split(), *recipe, *switches])
    warnings.simplefilter("ignore")  # hydra's, about fairseq's use of it
    cfg = convert_namespace_to_omegaconf(options)
    criterion = pair.task.build_criterion(cfg.criterion)
    trainer = Trainer(cfg, pair.task, pair.build(pair.ours), criterion)
    trainer.begin_epoch(1)
    losses: list[float] = []
    bfloat16 = torch.autocast(args.device, torch.bfloat16)
    with bfloat16 if precision == "bfloat16" else nullcontext():
        for update in range(args.updates):
            batch = pair.training_batch(args.source_length, args.target_length[0], 2 * update)
            logged = trainer.train_step([batch])
            if trainer.get_num_updates() > len(losses):
                losses.append(float(logged["loss"]))
    return losses


def main(args) -> dict:
    agreed = agreement(args)
    rows = [[kind, *(f"{value:.1g}" for value in of.values())] for kind, of in agreed.items()]
    show("Differences to the CPU", ["", *agreed["linear"]], rows)
    on_gpu = args.device == "cuda"
    trained = {p: train(args, p) for p in ("float32", "bfloat16", *["float16"] * on_gpu)}
    rows = [
        [name, f"{len(of)} of {args.updates}", *(f"{loss:.2f}" for loss in (of[0], of[-1]))]
        for name, of in trained.items()
    ]
    show("Training with the paper's recipe", ["", "updates", "first loss", "last loss"], rows)
    found = {"agreement": agreed, "training": trained, "speed": {}}
    for dtype in ("float16", "bfloat16") if on_gpu else ("float32",):
        given = Namespace(**{**vars(args), "dtype": dtype})
        found["speed"][dtype] = [modes.decode(given), modes.train(given)]
    for kind, of in agreed.items():
        if max(of["logits"], of["gradients"]) > TOLERANCE or of["other_words"]:
            raise UserError(f"--device {args.device}: {kind} disagrees with the CPU, see above")
    return found
