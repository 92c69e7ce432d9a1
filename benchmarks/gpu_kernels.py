"""Compiles Triton kernels for an H100 on a machine without a GPU, as the GPU machine would, and packs them for it.

    nice PYTHON benchmarks/gpu_kernels.py --out .gpu/kernels.tar.xz [--uses updates ...] [--processes 2]

PYTHON has the PyTorch and the Triton of the GPU machine: Triton's cache knows a kernel by its source, the types of its
arguments, and all of Triton. The functions of `USES` call posnmt on a CPU with kernels that only note their arguments;
then each kernel is compiled for the arguments that were noted. There, `gpu.py --caches` unpacks them. To add a kernel,
add a function to `USES` that calls it as posnmt does on a GPU. Tests of kernels are found by the names of their files.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from gpu_cache import KEY, pack, variables

CAPABILITY = 90


@dataclass(frozen=True)
class Noted:
    """A kernel and arguments that it is to be compiled for.

    Attributes:
        module, name: of the kernel.
        arguments: in order; a tensor as its type and whether it begins at a multiple of 16 bytes.
        options: constants and launch options.
    """

    module: str
    name: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]


class Elsewhere:
    """Triton's view of a GPU that is not here."""

    def get_current_device(self) -> int:
        """The first."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """The default."""
        return 0

    def get_current_target(self) -> Any:
        """An H100."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", CAPABILITY, 32)


class Pointer:
    """What Triton reads of a tensor to compile for it."""

    def __init__(self, dtype: Any, aligned: bool) -> None:
        self.dtype, self.aligned = dtype, aligned

    def data_ptr(self) -> int:
        """An address that 16 divides, or not."""
        return 16 if self.aligned else 8


@contextmanager
def noting(found: dict[str, Noted]) -> Iterator[None]:
    """A block in which tensors seem to be on a GPU, and kernels note their arguments instead of running."""
    import torch
    from triton.runtime.driver import driver
    from triton.runtime.jit import JITFunction

    def note(self: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> None:
        binder = self.device_caches[0][-1]
        _, specialised, rest = binder(*arguments, **options)
        key = f"{self.module}.{self.fn.__name__} {specialised} {sorted(rest.items())}"
        if key not in found:
            kept = tuple(
                (each.dtype, each.data_ptr() % 16 == 0) if isinstance(each, torch.Tensor) else each
                for each in arguments
            )
            found[key] = Noted(self.module, self.fn.__name__, kept, options)

    with ExitStack() as stack:
        driver.set_active(Elsewhere())  # type: ignore[arg-type]
        stack.enter_context(patch.object(JITFunction, "run", note))
        stack.enter_context(patch.object(torch.Tensor, "is_cuda", True))
        stack.enter_context(patch("torch.cuda.get_device_capability", lambda *_: divmod(CAPABILITY, 10)))
        stack.enter_context(patch.dict(os.environ, POSNMT_KERNELS="always"))  # their results are not computed
        yield


def compiled(noted: Noted, end: float) -> tuple[str, float | None]:
    """Compile a kernel into Triton's cache; its name, and the seconds that it took; None: it was too late to begin."""
    from triton.runtime.driver import driver

    if time.monotonic() > end:
        return noted.name, None
    driver.set_active(Elsewhere())  # type: ignore[arg-type]
    kernel = getattr(import_module(noted.module), noted.name)
    arguments = [Pointer(*each) if isinstance(each, tuple) else each for each in noted.arguments]
    began = time.monotonic()
    kernel.run(*arguments, grid=(1,), warmup=True, **noted.options)
    return noted.name, time.monotonic() - began


def updates() -> None:
    """Forward and backward passes of a training, in bf16: short and long sentences, and lengths that 16 divides."""
    for length in (20, 50, 48, 32):
        _train("relative", "base", length, "bf16", encoder={"layers": 1}, decoder={"layers": 1})


def families() -> None:
    """The gradients of gpu_stages.py."""
    from gpu_stages import FAMILIES

    for system in FAMILIES:
        for precision in ("fp32", "bf16"):
            _train(system, "tiny", 30, precision, dropout=0.0)


def _train(system: str, size: str, length: int, precision: str, **model: Any) -> None:
    import torch
    from gpu_stages import model_of

    from posnmt.training.loss import TrainingLoss

    loss_of = TrainingLoss(model_of(system, size, 204, **model), 0.1)
    words, lengths = torch.randint(4, 200, (3, length)), torch.tensor([length, length - 1, 3])
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        loss, _ = loss_of(words, lengths, words, words)
    loss.backward()


def attention() -> None:
    """The kernels of gpu_attention.py."""
    import torch

    from posnmt.model.kernels.shaw import shaw_attention

    q = torch.randn(1, 8, 64, 64, dtype=torch.bfloat16, requires_grad=True)
    table = torch.randn(33, 64)
    for values in (None, table):
        shaw_attention(q, q, q, table, values, None, False, 0.0).sum().backward()


def reading() -> None:
    """The encoder of a translation."""
    import torch
    from gpu_stages import model_of

    model = model_of("relative", "base", 204, encoder={"layers": 1}, decoder={"layers": 1}).eval()
    for precision in ("bf16", "fp32"):
        for length in (20, 32, 48, 50):
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                model.encode(torch.randint(4, 200, (2, length)), torch.tensor([length, length - 1]))


def tests() -> None:
    """The tests of kernels, as on a GPU but with tensors on the CPU; those that compare results fail."""
    import pytest
    from gpu_stages import kernel_tests

    from posnmt.model.kernels import shaw

    attends = shaw.shaw_attention

    def with_gradients(*operands: Any) -> Any:
        attended = attends(*operands)
        if attended.requires_grad:  # at once: a test may fail before
            attended.sum().backward(retain_graph=True)
        return attended

    class OnCPU:
        def pytest_collection_modifyitems(self, items: list[Any]) -> None:
            for item in items:
                item.module.DEVICE = "cpu"

    with patch("torch.cuda.is_available", lambda: True):
        import_module("tests.support.triton_interpreter")
    silent, trained = redirect_stdout(StringIO()), patch.object(shaw, "shaw_attention", with_gradients)
    with silent, trained:
        pytest.main(["-p", "no:cacheprovider", *kernel_tests()], plugins=[OnCPU()])


USES: dict[str, Callable[[], None]] = {each.__name__: each for each in (updates, reading, attention, families, tests)}


def main() -> None:
    """Note the kernels, compile them, and pack the cache."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--caches", type=Path, help="a folder with caches, to go on with; else a new one")
    parser.add_argument("--uses", nargs="*", choices=list(USES), default=list(USES))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=20.0, help="begin no kernel after so many (%(default)g)")
    arguments = parser.parse_args()
    end = time.monotonic() + 60 * arguments.minutes
    with tempfile.TemporaryDirectory() as folder:
        caches = (arguments.caches or Path(folder)).resolve()
        os.environ |= {**variables(caches), "TRITON_STORE_BINARY_ONLY": "1"}
        found: dict[str, Noted] = {}
        for name in arguments.uses:
            before = len(found)
            with noting(found):
                USES[name]()
            print(f"{name}: {len(found) - before} kernels more", flush=True)
        done = compile_all(list(found.values()), arguments.processes, end)
        (caches / "triton").mkdir(parents=True, exist_ok=True)
        (caches / "triton" / KEY).write_text(key_of_triton(), encoding="utf-8")
        pack(caches, arguments.out)
    size = arguments.out.stat().st_size / 2**20
    print(f"{done} of {len(found)} kernels compiled; {arguments.out}, {size:.1f} MiB")


def key_of_triton() -> str:
    """What Triton's cache knows a Triton by."""
    from triton.runtime.cache import triton_key

    return str(triton_key())


def begin(order: list[tuple[str, str]]) -> None:
    """Let a process compile as others do: the key of a kernel depends on the kernels that Triton has read before it."""
    for module, name in order:
        _ = getattr(import_module(module), name).cache_key


def compile_all(noted: list[Noted], processes: int, end: float) -> int:
    """Compile kernels in the order in which they were noted, and begin none after a time; how many were compiled."""
    done = 0
    context, order = (
        multiprocessing.get_context("spawn"),
        list(dict.fromkeys((each.module, each.name) for each in noted)),
    )
    with ProcessPoolExecutor(processes, context, initializer=begin, initargs=(order,)) as pool:
        futures = [pool.submit(compiled, each, end) for each in noted]
        for future in as_completed(futures):
            name, seconds = future.result()
            if seconds is not None:
                done += 1
                print(f"  {name}: {seconds:.1f} s", flush=True)
    return done


if __name__ == "__main__":
    main()
