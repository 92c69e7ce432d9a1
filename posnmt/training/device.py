"""Devices, processes and precision of a run: Lightning Fabric on a CPU, a GPU, or the processes of torchrun."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Literal

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import DoublePrecision
from lightning_fabric.strategies import ModelParallelStrategy, Strategy

from posnmt.base.errors import UserError
from posnmt.config.schema import Train
from posnmt.training.sharding import shard
from posnmt.translate.device import use_fp32
from posnmt_position.processor import multiplies_bf16

LONGEST_WAIT = timedelta(days=1)
"""How long other processes wait while the first one prepares the corpus."""


def make_fabric(train: Train) -> Fabric:
    """Fabric for this process: one device, or its share of torchrun's processes (LOCAL_WORLD_SIZE a node).

    Raises:
        UserError: `train.shard` with a single process.
    """
    warnings.filterwarnings("ignore", "The `srun` command is available")  # studies start their own jobs
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # the run itself reports precision and device
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    nodes = int(os.environ.get("WORLD_SIZE", "1")) // local
    accelerator = "cuda" if torch.cuda.is_available() else "cpu"
    width = precision(train, accelerator)
    use_fp32()
    # parts of a sum of bf16 products are added in float32
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    # cuDNN's attention makes a plan for each shape, and batches have many; PyTorch 2.11 would prefer it on an H100
    torch.backends.cuda.enable_cudnn_sdp(False)
    # with a sharding strategy, Fabric refuses float64 by name but not as a plugin
    arithmetic: Any = {"plugins": DoublePrecision()} if width == "64-true" else {"precision": width}
    fabric = Fabric(
        accelerator=accelerator,
        devices=local,
        num_nodes=nodes,
        strategy=_strategy(train, processes=local * nodes),
        **arithmetic,
    )
    fabric.launch()
    return fabric


@contextmanager
def first_alone(fabric: Fabric) -> Iterator[None]:
    """A block after which all processes wait until the first one has left it; up to a day, since preparing may be slow.

    Other collective operations fail after half an hour, since then a process has probably died.
    """
    if fabric.world_size == 1:
        yield
        return
    waiting = torch.distributed.new_group(backend="gloo", timeout=LONGEST_WAIT)
    yield
    torch.distributed.barrier(waiting)
    torch.distributed.destroy_process_group(waiting)


def _strategy(train: Train, processes: int) -> str | Strategy:
    """The distributed strategy: data parallel; sharded with `train.shard`."""
    if not train.shard:
        return "ddp" if processes > 1 else "auto"
    if processes == 1:
        raise UserError(
            "it shards the model over several processes, and there is only one",
            "train.shard",
            "start it with torchrun, as in `torchrun --nproc-per-node 8 -m posnmt train`, or set train.shard: false",
        )
    return ModelParallelStrategy(
        lambda module, mesh: shard(module, mesh["data_parallel"]), data_parallel_size=processes, tensor_parallel_size=1
    )


def precision(train: Train, accelerator: str) -> Literal["bf16-mixed", "32-true", "64-true"]:
    """Fabric's name for the configured precision; auto is bf16 if the hardware supports it."""
    if train.precision == "fp64":
        return "64-true"
    if train.precision == "fp32":
        return "32-true"
    on_gpu = accelerator == "cuda"
    in_hardware = torch.cuda.is_bf16_supported(including_emulation=False) if on_gpu else multiplies_bf16()
    return "bf16-mixed" if in_hardware or train.precision == "bf16" else "32-true"
