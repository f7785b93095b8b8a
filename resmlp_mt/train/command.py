"""The command that trains: tokens shared out over GPUs, one process a GPU, one node or several."""

from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional

from resmlp_mt.errors import UserError
from resmlp_mt.train.programs import USER_DIR, program
from resmlp_mt.train.recipe import Options, command_line

MAX_TOKENS = 4096  # of a batch, unless each GPU's share is smaller
PORT = 29500  # the default of torchrun


# fp32 is float32. The next two are float32 with products in TF32 (GPUs) or bfloat16 (CPUs with
# AMX). bf16 is torch.autocast: what stands between the products is bfloat16 too. fp16 has weights
# in 16 bits. --fp16 keeps one flat copy of all weights unless an option forbids it, and Adagrad
# cannot work on that.
PRECISIONS: Dict[str, Options] = {
    "fp32": {},
    "tf32": {},
    "bf16-products": {},
    "bf16": {},
    "fp16": {"--fp16": [], "--fp16-no-flatten-grads": []},
}


@dataclass(frozen=True)
class Devices:
    """
    Attributes:
        gpus: processes on each node. None takes one for each GPU of this machine, or one on
            the CPU if it has no GPU.
        nodes: machines.
        node_rank: number of this machine, from 0.
        master_addr: host name of the first node. None leaves it to ``$MASTER_ADDR`` of the shell.
        master_port: a free port there.
    """

    gpus: Optional[int] = None
    nodes: int = 1
    node_rank: int = 0
    master_addr: Optional[str] = None
    master_port: int = PORT

    @property
    def processes(self) -> int:
        return self.gpus * self.nodes

    def __str__(self) -> str:
        return f"{self.processes} process{'es' * (self.processes > 1)}"


@dataclass(frozen=True)
class Share:
    """How the tokens of an update are shared out: ``max_tokens x update_freq x processes``."""

    max_tokens: int
    update_freq: int


def share_tokens(tokens: int, devices: Devices, max_tokens: Optional[int], positions: int) -> Share:
    """Share out the *tokens* of an update equally.

    With the same *max_tokens*, fairseq makes the same batches, and each update sees the same ones,
    whatever the number of GPUs.

    Args:
        max_tokens: of a batch on one GPU. None takes 4,096, or the share of a GPU if that is less.
        positions: the longest sentence that a batch has to hold.

    Raises:
        UserError: if they cannot be shared out in equal batches that hold the longest sentence.
    """
    if tokens % devices.processes:
        raise UserError(
            f"{tokens} tokens an update are no multiple of {devices}: take another number of GPUs, "
            "or in a new folder other --tokens"
        )
    each = tokens // devices.processes
    if max_tokens is None:
        max_tokens = min(MAX_TOKENS, each)
    if each % max_tokens:
        raise UserError(
            f"{each} tokens an update on each of {devices} are no multiple of the {max_tokens} of "
            "a batch: take another number of GPUs, or in a new folder other --max-tokens"
        )
    if max_tokens < positions:
        raise UserError(
            f"batches of {max_tokens} tokens do not hold a sentence of {positions}: take fewer "
            "GPUs, more --tokens or --max-tokens, or fewer positions (-- --max-source-positions N)"
        )
    return Share(max_tokens, each // max_tokens)


def training_command(
    data: Path, options: Options, share: Share, devices: Devices, node: int
) -> List[str]:
    """What to run on one node: ``fairseq-train ...`` for one process, ``torchrun ... -m
    fairseq_cli.train ...`` for more.

    Args:
        data: folder of binary data.
        options: those of the recipe and the user, without what depends on the devices.
        share: of the tokens of an update.
        devices: what to run on.
        node: number of the node, from 0.
    """
    arguments = [
        str(data),
        *("--user-dir", str(USER_DIR)),
        *command_line(options),
        *("--max-tokens", str(share.max_tokens), "--update-freq", str(share.update_freq)),
        *("--distributed-world-size", str(devices.processes)),
    ]
    if devices.processes == 1:
        return [program("fairseq-train"), *arguments]
    if devices.nodes == 1:
        nodes = ["--standalone"]  # finds a free port
    else:
        nodes = ["--nnodes", str(devices.nodes), "--node_rank", str(node)]
        nodes += ["--master_addr", devices.master_addr or "$MASTER_ADDR"]
        nodes += ["--master_port", str(devices.master_port)]
    return [
        *(program("torchrun"), *nodes, "--nproc_per_node", str(devices.gpus)),
        *("-m", "fairseq_cli.train", *arguments),
        # rank 0 would send the others what it read in a form that the weights-only loader of
        # PyTorch refuses: a stopped run could not be resumed
        "--load-checkpoint-on-all-dp-ranks",
    ]
