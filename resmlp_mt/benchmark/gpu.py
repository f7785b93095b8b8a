"""``benchmark gpu``: what to know of a card before a large training, in one call.

* agreement: logits, gradients and translations of every kind of token mixing, against the CPU
* training: updates at the recipe of the paper in each precision, the losses against float32, and
  how far the states stay below the largest number of float16
* step: operations and waits of a decoding step, and its share of the rate of matrix products
* speed: ``decode``, ``train`` and ``memory`` in 16 bits
* fsdp: updates with ``--ddp-backend fully_sharded`` and one process, the losses against those
  without
"""

import warnings
from argparse import Namespace
from contextlib import ExitStack, nullcontext
from importlib.util import find_spec
from statistics import median
from typing import Dict, Iterator, List, Optional, Tuple
from unittest import mock

import torch
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import fsdp_enable_wrap, fsdp_wrap
from fairseq.sequence_generator import SequenceGenerator
from fairseq.trainer import Trainer
from torch import Tensor, nn
from tqdm import tqdm

from resmlp_mt.benchmark import decoding, memory
from resmlp_mt.benchmark import training as training_speed
from resmlp_mt.benchmark.half_products import HalfProducts
from resmlp_mt.benchmark.models import Pair, complete, make_ready
from resmlp_mt.benchmark.operations import Operations
from resmlp_mt.benchmark.report import Report, Table
from resmlp_mt.benchmark.sentences import Sentences, build_task
from resmlp_mt.benchmark.timing import alternate, number, synchronizer
from resmlp_mt.benchmark.work import multiply_adds
from resmlp_mt.decoding.generator import ResMLPGenerator
from resmlp_mt.model.branches import Branch
from resmlp_mt.model.layers import ResMLPDecoderLayer, ResMLPEncoderLayer
from resmlp_mt.model.mixing_kinds import TOKEN_MIXING
from resmlp_mt.model.model import ResMLPModel

# section 3 of the paper
RECIPE = (
    *("--optimizer", "adagrad", "--lr", "0.2", "--lr-scheduler", "fixed"),
    *("--warmup-updates", "32000", "--layerscale-init", "0.2", "--dropout", "0.15"),
    *("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1"),
    *("--clip-norm", "0"),
)
# how far float32 on two devices may be apart
TOLERANCE = 1e-3
SMALL = (
    *("--encoder-layers", "2", "--decoder-layers", "2", "--encoder-embed-dim", "32"),
    *("--encoder-ffn-embed-dim", "64", "--decoder-embed-dim", "32", "--dropout", "0"),
    *("--max-source-positions", "64", "--max-target-positions", "64"),
    "--share-all-embeddings",
)


# ------------------------------------------------------------------------------- agreement


def agreement(args) -> Dict[str, dict]:
    """By kind of token mixing: the largest differences to the CPU, and the sentences whose words
    differ from those of the generator of fairseq there."""
    small = Namespace(**{**vars(args), "data": None, "vocabulary": 200, "device": "cpu"})
    task = build_task(small, 64)
    sentences = Sentences(task, small)
    batch = sentences.training_batch(40, 7, 9)
    found = {}
    # without mixing the same words score the same in many orders: which comes first is chance
    for kind in [kind for kind in TOKEN_MIXING if kind != "none"]:
        options = complete("--arch", "resmlp_mt_tiny", [*SMALL, "--token-mixing", kind])
        torch.manual_seed(args.seed)
        model = ResMLPModel.build_model(options, task)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
        state = model.state_dict()
        here = _computed(state, options, task, batch, "cpu", SequenceGenerator)
        there = _computed(state, options, task, batch, args.device, ResMLPGenerator)
        found[kind] = {
            "logits": _difference(there["logits"], here["logits"]),
            "gradients": max(
                _difference(there["gradients"][name], gradient)
                for name, gradient in here["gradients"].items()
            ),
            "sentences_with_other_words": sum(
                some != others for some, others in zip(there["words"], here["words"], strict=True)
            ),
        }
    return found


def _computed(state: dict, options, task, batch: dict, device: str, search: type) -> dict:
    """Logits, gradients and the words that *search* finds. Our search has the folded model and
    steps of constant shape."""
    model = ResMLPModel.build_model(options, task)
    model.load_state_dict(state)
    model.to(device).train()
    batch = _moved(batch, device)
    logits, _ = model(**batch["net_input"])
    training_speed.loss_of(model, task, batch).backward()
    # what is added to all keys alike changes no softmax: that gradient is rounding alone
    gradients = {
        name: parameter.grad.cpu()
        for name, parameter in model.named_parameters()
        if not name.endswith("k_proj.bias")
    }
    model.eval()
    if search is ResMLPGenerator:
        make_ready(model, 4)
    generator = search([model], task.target_dictionary, beam_size=4, max_len_b=40)
    generator.constant_shape = True
    found = generator.generate([model], batch)
    words = [[h["tokens"].tolist() for h in some] for some in found]
    return {"logits": logits.detach().cpu(), "gradients": gradients, "words": words}


def _moved(value, device: str):
    if isinstance(value, dict):
        return {name: _moved(part, device) for name, part in value.items()}
    return value.to(device) if isinstance(value, Tensor) else value


def _difference(some: Tensor, others: Tensor) -> float:
    """The largest one, relative to the largest value where that is above 1."""
    return ((some - others).abs().max() / others.abs().max().clamp(min=1)).item()


# -------------------------------------------------------------------------------- training


def precisions(device: str) -> List[str]:
    return ["float32", *(["tf32"] if device == "cuda" else []), "bfloat16", "float16"]


def training(args) -> Dict[str, dict]:
    """By precision: the losses of some updates, and what is left to the largest number."""
    return {precision: _train(args, precision) for precision in precisions(args.device)}


def _train(args, precision: str, sharded: bool = False) -> dict:
    switches = ["--fp16"] if precision == "float16" else []
    if sharded:
        switches = [*switches, "--ddp-backend", "fully_sharded"]
    if args.device == "cpu":
        switches = [*switches, "--cpu", "--fp16-no-flatten-grads"]
    words = " ".join([args.arch_options, *RECIPE, *switches])
    pair = Pair(
        Namespace(**{**vars(args), "arch_options": words, "dtype": "float32", "device": "cpu"}),
        args.source_length + 1,
        max(args.target_length) + 1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of hydra, about fairseq's use of it
        cfg = convert_namespace_to_omegaconf(pair.options[0])
    with fsdp_enable_wrap(cfg.distributed_training) if sharded else nullcontext():
        model = fsdp_wrap(pair.build(0)) if sharded else pair.build(0)
    criterion = pair.task.build_criterion(cfg.criterion)
    largest = Largest(model)
    trainer = Trainer(cfg, pair.task, model, criterion)
    trainer.begin_epoch(1)
    losses: List[Optional[float]] = []  # None for an update that was skipped
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        with ExitStack() as stack:
            if precision == "bfloat16":
                stack.enter_context(torch.autocast(args.device, torch.bfloat16))
            if precision == "float16" and args.device == "cpu":
                stack.enter_context(HalfProducts())
                # where gradients overflow, fairseq moves their norm to a GPU
                stack.enter_context(mock.patch.object(Tensor, "cuda", Tensor.cpu))
            batches = _batches(pair.task, args)
            for batch in tqdm(batches, precision, args.updates, unit="update", disable=None):
                done = trainer.get_num_updates()
                logged = trainer.train_step([batch])
                skipped = trainer.get_num_updates() == done
                losses.append(None if skipped else float(logged["loss"]))
    finally:
        torch.set_float32_matmul_precision(before)
    scaler = getattr(trainer.optimizer, "scaler", None)
    states = largest.read()
    limit = torch.finfo(torch.float16).max
    return {
        "updates": trainer.get_num_updates(),
        "skipped": losses.count(None),
        "loss_scale": None if scaler is None else float(scaler.loss_scale),
        "losses": losses,
        "largest": states,
        "headroom": {name: limit / value for name, value in states.items()},
    }


def _batches(task, args) -> Iterator[dict]:
    """``args.updates`` batches: new random sentences each time, or those of the data, epoch after
    epoch."""
    sentences = Sentences(task, Namespace(**{**vars(args), "device": "cpu"}))
    if args.data is None:
        for update in range(args.updates):
            sentences.args.seed = args.seed + 2 * update
            lengths = args.source_length, args.target_length[0]
            yield sentences.training_batch(args.tokens, *lengths)
        return
    epochs = task.get_batch_iterator(
        sentences.data, max_tokens=args.tokens, max_positions=task.max_positions(), seed=args.seed,
        ignore_invalid_inputs=True,
    )  # fmt: skip
    left = args.updates
    while left:
        for batch in epochs.next_epoch_itr(shuffle=True):
            yield batch
            left -= 1
            if not left:
                return


class Largest:
    """The largest absolute value of the states of each layer: after it, and within it what its
    branches compute, by the name of the module."""

    def __init__(self, model: nn.Module):
        self._found: Dict[str, Tensor] = {}
        for name, module in model.named_modules():
            whole = isinstance(module, (ResMLPEncoderLayer, ResMLPDecoderLayer, Branch))
            if whole or name.endswith((".mixing", ".fc1", ".fc2", ".out_proj")):
                self._watch(name, module)

    def _watch(self, name: str, module: nn.Module) -> None:
        def hook(module, inputs, output):
            states = output[0] if isinstance(output, tuple) else output
            largest = states.detach().abs().amax().float()
            old = self._found.get(name, largest)
            self._found[name] = torch.maximum(old, largest)

        module.register_forward_hook(hook)

    def read(self) -> Dict[str, float]:
        return {name: float(value) for name, value in self._found.items()}


# ------------------------------------------------------------------------------------ step


def step(args) -> dict:
    """A decoding step of our model: operations, waits, time, and products a second beside those of
    a large matrix product."""
    pair = Pair(args, args.source_length + 1, 64)
    model = make_ready(pair.build(0), args.beam)
    batch = Sentences(pair.task, args).source_batch(args.sentences, args.source_length)
    few, many = 17, 33
    runs = {words: _search(pair.task, model, args.beam, batch, words) for words in (few, many)}
    taken = alternate(runs, args.warmup, args.repeats, synchronizer(args.device))
    seconds = {words: median(some) for words, some in taken.items()}
    counts, work = {}, {}
    for words, run in runs.items():
        with Operations() as counts[words]:
            run()
        work[words] = multiply_adds(run)
    steps = many - few
    kinds = ("work", "views", "waits")
    a_step = {
        kind: sum((getattr(counts[many], kind) - getattr(counts[few], kind)).values()) / steps
        for kind in kinds
    }
    rate = 2 * (work[many] - work[few]) / (seconds[many] - seconds[few])
    peak = matrix_rate(args)
    return {
        **a_step,
        "ms": 1000 * (seconds[many] - seconds[few]) / steps,
        "flops": rate,
        "flops_of_a_large_product": peak,
        "share": rate / peak,
    }


def _search(task, model, beam: int, batch: dict, words: int):
    # random weights end no sentence early: every step is a whole one
    options = Namespace(beam=beam, max_len_a=0, max_len_b=words, min_len=1, lenpen=0.6)
    generator = task.build_generator([model], options)
    generator.constant_shape = True
    return lambda: task.inference_step(generator, [model], batch)


def matrix_rate(args) -> float:
    """Operations a second in a square product, the best of five."""
    size = 8192 if args.device == "cuda" else 1024
    a, b = (
        torch.randn(size, size, device=args.device, dtype=getattr(torch, args.dtype))
        for _ in range(2)
    )
    taken = alternate({"product": lambda: a @ b}, 1, 5, synchronizer(args.device))
    return 2 * size**3 / min(taken["product"])


# ----------------------------------------------------------------------------------- speed


def speed(args) -> Dict[str, Dict[str, Report]]:
    """``decode``, ``train`` and ``memory`` by type of number."""
    found = {}
    for dtype in ("float16", "bfloat16") if args.device == "cuda" else ("float32", "bfloat16"):
        given = Namespace(**{**vars(args), "dtype": dtype})
        found[dtype] = {
            "decode": decoding.main(given),
            "train": training_speed.main(given),
            "memory": memory.main(given),
        }
    return found


# ------------------------------------------------------------------------------------ fsdp


def fsdp(args) -> dict:
    """The losses of some updates by FSDP and without it, or why they were not made."""
    if args.device != "cuda":
        return {"not_run": "fairscale, by which fairseq does it, needs CUDA"}
    if find_spec("fairscale") is None:
        return {"not_run": "pip install fairscale, by which fairseq does it"}
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
    try:
        sharded = _train(args, "float32", sharded=True)
    finally:
        torch.distributed.destroy_process_group()
    return {"losses": sharded["losses"], "without": _train(args, "float32")["losses"]}


# ------------------------------------------------------------------------------------ all


def agrees(found: Dict[str, dict]) -> bool:
    return all(
        max(of_kind["logits"], of_kind["gradients"]) < TOLERANCE
        and of_kind["sentences_with_other_words"] == 0
        for of_kind in found.values()
    )


def agreement_table(found: Dict[str, dict]) -> Table:
    rows = [
        [kind, f"{x['logits']:.1e}", f"{x['gradients']:.1e}", str(x["sentences_with_other_words"])]
        for kind, x in found.items()
    ]
    header = ["", "logits", "gradients", "sentences with other words"]
    return Table("Differences to the CPU, by kind of token mixing", header, rows)


def loss_range(losses: List[Optional[float]]) -> str:
    """The first and the last that is not of an update that was skipped."""
    made = [loss for loss in losses if loss is not None]
    return f"{made[0]:.2f} .. {made[-1]:.2f}" if made else "none"


def least_headroom(headroom: Dict[str, float]) -> Tuple[str, float]:
    """The layer whose states come nearest to the largest number of float16."""
    return min(headroom.items(), key=lambda item: item[1])


def training_table(found: Dict[str, dict]) -> Table:
    rows = []
    for precision, of_precision in found.items():
        pairs = zip(of_precision["losses"], found["float32"]["losses"], strict=True)
        apart = [abs(a - b) for a, b in pairs if a is not None and b is not None]
        name, headroom = least_headroom(of_precision["headroom"])
        rows.append(
            [
                precision,
                f"{of_precision['updates']} ({of_precision['skipped']})",
                loss_range(of_precision["losses"]),
                f"{max(apart):.3f}" if apart else "none",
                f"{number(headroom)} ({name})",
            ]
        )
    notes = [
        "skipped: updates whose gradients overflowed, after which the loss scale is halved",
        "headroom: the largest number of float16 divided by the largest state, and where that is",
    ]
    header = ["", "updates (skipped)", "loss", "from float32", "headroom"]
    return Table("Training at the recipe of the paper", header, rows, notes)


def step_table(found: dict) -> Table:
    row = [f"{found[kind]:.1f}" for kind in ("work", "views", "waits")]
    row += [number(found["ms"]), f"{100 * found['share']:.1f}%"]
    header = ["operations", "views", "waits", "ms", "share of the rate of a large product"]
    return Table("A decoding step", header, [row])


def fsdp_table(found: dict) -> Table:
    title = "Training by FSDP, one process"
    if "not_run" in found:
        return Table(title, ["not run"], [[found["not_run"]]])
    apart = [abs(a - b) for a, b in zip(found["losses"], found["without"], strict=True)]
    loss = f"{found['losses'][0]:.3f} .. {found['losses'][-1]:.3f}"
    return Table(title, ["loss", "from that without"], [[loss, f"{max(apart):.3f}"]])


def main(args) -> Report:
    """The parts that ``args.parts`` names."""
    result, shown = {}, []
    if "agreement" in args.parts:
        found = result["agreement"] = agreement(args)
        result["agrees"] = agrees(found)
        shown.append(agreement_table(found))
    if "training" in args.parts:
        found = result["training"] = training(args)
        shown.append(training_table(found))
    if "step" in args.parts:
        found = result["step"] = step(args)
        shown.append(step_table(found))
    if "speed" in args.parts:
        found = speed(args)
        result["speed"] = {
            dtype: {mode: report.result for mode, report in reports.items()}
            for dtype, reports in found.items()
        }
        for dtype, reports in found.items():
            for table in [table for report in reports.values() for table in report.tables]:
                table.title = f"{dtype}. {table.title}"
                shown.append(table)
    if "fsdp" in args.parts:
        found = result["fsdp"] = fsdp(args)
        shown.append(fsdp_table(found))
    return Report(result, shown)
