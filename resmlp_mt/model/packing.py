"""Float32 linear layers on a CPU, with the weight in oneDNN's own layout.

PyTorch multiplies float32 matrices by MKL. For the few rows of a single sentence MKL takes up to
twice as long as oneDNN, and on other CPUs than Intel's it does not use AVX-512. Worth 1.3x with
AVX-512 and 1.1x with AVX2 for one sentence at 512 channels: results.jsonl, speed/*/decode/1x4.
"""

import platform
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FEW = 16  # up to this many rows: the beams of one sentence
# PyTorch caches half a megabyte or more for each number of rows that oneDNN has multiplied, so
# other numbers are split and padded to one of these
ROWS = (1, 4, 8, FEW, 32, 64, 128, 192, 256)


@cache
def available() -> bool:
    """Whether PyTorch has oneDNN's products, and the CPU is x86."""
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    return x86 and torch.backends.mkldnn.is_available()


@cache
def faster_for_many_rows() -> bool:
    """Whether oneDNN is faster for many rows, too: on CPUs with AVX-512 that are not Intel's."""
    try:
        cpu = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and "GenuineIntel" not in cpu


def pack_(model: nn.Module) -> None:
    """Replace each linear layer by a :class:`PackedLinear`, where that is faster."""
    weight = next(model.parameters())
    if not (available() and torch.backends.mkldnn.enabled):
        return
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is nn.Linear:
                setattr(parent, name, PackedLinear(layer))


class PackedLinear(nn.Linear):
    """A linear layer with the parameters of *linear* that also stores its weight packed, and packs
    it again after it is replaced or changed in place."""

    def __init__(self, linear: nn.Linear):
        super().__init__(linear.in_features, linear.out_features, bias=False, device="meta")
        self.weight, self.bias = linear.weight, linear.bias
        # the weight that was packed, so that no other can have its address, and its version
        self._packed: tuple[Tensor, Tensor, int] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Shape ``(..., C)`` to ``(..., C')``."""
        if not self.reads_packed(x):
            return super().forward(x)
        packed = self._up_to_date()
        parts = x.reshape(-1, self.in_features).split(ROWS[-1])
        products = [_product(part, packed, self.bias) for part in parts]
        y = products[0] if len(products) == 1 else torch.cat(products)
        return y.view(*x.shape[:-1], self.out_features)

    def reads_packed(self, x: Tensor) -> bool:
        """Whether *x* is multiplied by the packed weight."""
        weight = self.weight
        if torch.compiler.is_compiling():  # the compiler has no product by a packed weight
            return False
        if torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or x.device.type != "cpu":
            return False
        if not (x.dtype == weight.dtype == torch.float32 and available()):
            return False
        if weight.is_inference():
            return False  # it has no version that would show a change
        return x.numel() <= FEW * self.in_features or faster_for_many_rows()

    def _up_to_date(self) -> Tensor:
        weight, packed = self.weight, self._packed
        if packed is None or (packed[1].data_ptr(), packed[2]) != (
            weight.data_ptr(),
            weight._version,
        ):
            made = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), FEW)
            packed = self._packed = made, weight.detach(), weight._version
        return packed[0]

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_packed": None}  # which PyTorch can neither copy nor write


def _product(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    """R x C to R x C', R at most the last of :data:`ROWS`."""
    rows = next(rows for rows in ROWS if rows >= len(x))
    padded = x if rows == len(x) else F.pad(x, (0, 0, 0, rows - len(x)))
    return torch.ops.mkldnn._linear_pointwise(padded, packed, bias, "none", [], "")[: len(x)]
