"""The fairseq-train command: tokens shared out over processes, one for each GPU."""

import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import resmlp_mt
from resmlp_mt.errors import UserError
from resmlp_mt.train.recipe import Options, command_line

USER_DIR = Path(resmlp_mt.__file__).parent
MAX_TOKENS = 4096  # of a batch, unless each GPU's share is smaller
PORT = 29500  # torchrun's default

# fp32 is float32. The next two are float32 with products in TF32 (GPUs) or bfloat16 (CPUs with
# AMX). bf16 is torch.autocast. fp16 keeps weights in 16 bits: --fp16 alone makes one flat copy of
# all weights, which Adagrad cannot work on.
PRECISIONS: Dict[str, Options] = {
    **{name: {} for name in ("fp32", "tf32", "bf16-products", "bf16")},
    "fp16": {"--fp16": [], "--fp16-no-flatten-grads": []},
}
# environment variables that a precision needs
VARIABLES = {
    "tf32": {"RESMLP_MT_MATMUL_PRECISION": "high"},
    "bf16-products": {"RESMLP_MT_MATMUL_PRECISION": "medium"},
    "bf16": {"RESMLP_MT_AUTOCAST": "bfloat16"},
}


@dataclass(frozen=True)
class Devices:
    """The machines of a training, and which of them this is."""

    gpus: Optional[int] = None  # processes on each node; None: a GPU each, or one on the CPU
    nodes: int = 1
    node_rank: int = 0
    master_addr: Optional[str] = None  # host name of the first node
    master_port: int = PORT

    @property
    def processes(self) -> int:
        return self.gpus * self.nodes


def share_tokens(
    tokens: int, devices: Devices, max_tokens: Optional[int], positions: int
) -> Tuple[int, int]:
    """Share out the *tokens* of an update as ``max_tokens x update_freq x processes``.

    With the same *max_tokens* every update sees the same batches, whatever the number of GPUs.
    None takes 4,096, or the share of a GPU if that is less. A batch has to hold *positions*.
    """
    count = devices.processes
    processes = f"{count} process{'es' * (count > 1)}"
    if tokens % count:
        raise UserError(
            f"{tokens} tokens an update are no multiple of {processes}: take another number of "
            "GPUs, or in a new folder other --tokens"
        )
    each = tokens // count
    max_tokens = max_tokens or min(MAX_TOKENS, each)
    if each % max_tokens:
        raise UserError(
            f"{each} tokens an update on each of {processes} are no multiple of the {max_tokens} "
            "of a batch: take another number of GPUs, or in a new folder other --max-tokens"
        )
    if max_tokens < positions:
        raise UserError(
            f"batches of {max_tokens} tokens do not hold a sentence of {positions}: take fewer "
            "GPUs, more --tokens or --max-tokens, or fewer positions (-- --max-source-positions N)"
        )
    return max_tokens, each // max_tokens


def training_command(data: Path, options: Options, devices: Devices) -> List[str]:
    """``fairseq-train ...`` for one process, ``torchrun ... -m fairseq_cli.train ...`` for more."""
    arguments = [
        *(str(data), "--user-dir", str(USER_DIR), *command_line(options)),
        *("--distributed-world-size", str(devices.processes)),
    ]
    if devices.processes == 1:
        return [program("fairseq-train"), *arguments]
    if devices.nodes == 1:
        nodes = ["--standalone"]  # finds a free port
    else:
        nodes = ["--nnodes", str(devices.nodes), "--node_rank", str(devices.node_rank)]
        nodes += ["--master_addr", str(devices.master_addr)]
        nodes += ["--master_port", str(devices.master_port)]
    return [
        *(program("torchrun"), *nodes, "--nproc_per_node", str(devices.gpus)),
        *("-m", "fairseq_cli.train", *arguments),
    ]


def program(name: str) -> str:
    """A program that is installed with this Python."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise UserError(f"{name} is not installed for {sys.executable}: install this package there")
    return found


def quoted(command: List[str], environment: Dict[str, str]) -> str:
    """One line for a shell, which sets the variables too."""
    variables = [f"{name}={value}" for name, value in environment.items()]
    return shlex.join(["env", *variables, *command] if variables else command)
