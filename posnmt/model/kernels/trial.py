"""A kernel of ours is used where it agrees with the plain form: each variant is tried once, in each process.

A trial computes a small case by both forms, forward and gradients. It compiles the variant that is used next, and no
other. The environment variable POSNMT_KERNELS makes a trial needless: `always` uses kernels untried, `never` none.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from threading import Lock

import torch
from torch import Tensor

from posnmt.base.errors import UserError
from posnmt.base.progress import warn

VARIABLE = "POSNMT_KERNELS"
"""The environment variable that decides without a trial."""

WITHIN = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 4e-2}
"""Type → the largest difference that rounding explains, as a share of the largest number of a result."""

WITHIN_TF32 = 5e-3
"""The same for products of float32 in TF32, which has the precision of fp16."""

Results = Mapping[str, Tensor]
"""What a form computes of a case: its outputs and its gradients, by name."""

_verdicts: dict[tuple[str, Hashable, torch.device], bool] = {}
_lock = Lock()


def compiles(device: torch.device) -> bool:
    """Whether Triton compiles kernels for a device; torch.compile is told that this is a constant (`model.layers`)."""
    return _compiles(device)


@cache
def _compiles(device: torch.device) -> bool:
    """Whether Triton is installed and supports bfloat16 on this generation of GPU."""
    return importlib.util.find_spec("triton") is not None and torch.cuda.get_device_capability(device) >= (8, 0)


def trusted(
    name: str,
    case: Hashable,
    device: torch.device,
    kernel: Callable[[], Results],
    plain: Callable[[], Results],
    within: float,
) -> bool:
    """Whether a kernel may compute a case on a device: it agreed with the plain form, or the user trusts it.

    The first call of each case tries the kernel, and prints a warning if it fails or differs. While a CUDA graph is
    recorded or PyTorch compiles, nothing can be tried, and a case that was not tried before is not trusted.

    Args:
        name: of the kernel, for people.
        case: everything that decides which variant of the kernel is compiled.
        kernel, plain: compute the same small case, on this device; called outside autocast and inference mode.
        within: the largest difference, as a share of the largest number of each result.

    Raises:
        UserError: POSNMT_KERNELS is neither `always` nor `never`.
    """
    if (decided := by_user()) is not None:
        return decided
    key = name, case, device
    verdict = _verdicts.get(key)
    if verdict is not None or torch.compiler.is_compiling() or _is_recording(device):
        return bool(verdict)
    with _lock:
        if key not in _verdicts:
            with torch.inference_mode(False), torch.enable_grad(), torch.autocast(device.type, enabled=False):
                fault = _fault(kernel, plain, within)
            if fault:
                warn(f"{name} is not used on {device} ({case}): {fault}; the plain form is used, which is slower")
            _verdicts[key] = not fault
        return _verdicts[key]


def by_user() -> bool | None:
    """Whether POSNMT_KERNELS lets kernels be used; None: a trial decides.

    Raises:
        UserError: it is neither `always` nor `never`.
    """
    asked = os.environ.get(VARIABLE)
    if asked and asked not in ("always", "never"):
        raise UserError(f"it is always or never, not {asked!r}", VARIABLE, "leave it out to try each kernel first")
    return asked == "always" if asked else None


def verdicts(name: str, device: torch.device) -> dict[Hashable, bool]:
    """Case → whether it is trusted, of what was tried of a kernel on a device."""
    return {case: verdict for (kernel, case, where), verdict in _verdicts.items() if (kernel, where) == (name, device)}


def _is_recording(device: torch.device) -> bool:
    """Whether a CUDA graph is being recorded."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _fault(kernel: Callable[[], Results], plain: Callable[[], Results], within: float) -> str:
    """What is wrong with a kernel; empty: nothing."""
    try:
        found, wanted = kernel(), plain()
        differences = {name: _difference(found[name], each) for name, each in wanted.items()}
    except torch.OutOfMemoryError:
        raise  # says nothing about the kernel
    except Exception as error:  # of Triton's compiler, of its launch, or of the device
        return f"it failed with {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    far = [
        f"its {name} differs by {difference:.2g}, and {within:g} is rounding"
        for name, difference in differences.items()
        if not difference <= within  # also if it is no number
    ]
    return "; ".join(far)


def _difference(found: Tensor, wanted: Tensor) -> float:
    """The largest difference of two results, as a share of the largest number of the second."""
    if found.shape != wanted.shape:
        return float("inf")
    found, wanted = found.detach().double(), wanted.detach().double()
    size = wanted.abs().max() if wanted.numel() else wanted.new_ones(())
    most = (found - wanted).abs().max() if wanted.numel() else wanted.new_zeros(())
    return float(torch.where(most == 0, most, most / size))
