"""Devices, processes and precision of a run: Lightning Fabric on a CPU, a GPU, or the processes of torchrun.

With `train.shard`, weights, gradients and Adam's moments are sharded over the processes (FSDP2), for models that do not
fit one device. Each process keeps a slice of every parameter, its gradient and its moments, and computes its own
batches as with DDP. The weights of a group are gathered just before they are read and freed afterwards; their gradients
are reduced over the processes as soon as they are complete, and each process keeps its slice. Groups are the layers of
a Transformer. The rest (embeddings, final normalisation, output projection, position schemes; everything in other
architectures) is the root group, which stays gathered from the start of the forward pass to the end of the backward
pass. Therefore tied matrices are in one group, and the loss can read the output projection, and a layer its position
schemes.

Evaluation and files need all weights at once: the first process gets an unsharded copy of the model.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import DoublePrecision
from lightning_fabric.strategies import ModelParallelStrategy, Strategy
from torch import nn

from posnmt.base.errors import UserError
from posnmt.config.schema import Train
from posnmt.model.attention import CrossAttention
from posnmt.model.layers import DecoderLayer, EncoderLayer
from posnmt.model.slices import full_tensor
from posnmt_position.processor import multiplies_bf16

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

LONGEST_WAIT = timedelta(days=1)
"""For the first process to prepare the corpus."""


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
    # parts of a sum of bf16 products are added in float32
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
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
    """All processes wait after the block until the first one has left it; up to a day, as preparing a corpus may take.

    Other operations of several processes end with an error after half an hour, because a process has probably died.
    """
    if fabric.world_size == 1:
        yield
        return
    waiting = torch.distributed.new_group(backend="gloo", timeout=LONGEST_WAIT)
    yield
    torch.distributed.barrier(waiting)
    torch.distributed.destroy_process_group(waiting)


def _strategy(train: Train, processes: int) -> str | Strategy:
    """The distributed strategy: data parallel, and with `train.shard` also sharded."""
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


def shard(module: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Shard the parameters of a loss module over the processes of a mesh, in place; return the module."""
    from torch.distributed.fsdp import FSDPModule, fully_shard  # which takes seconds to import

    # CrossAttention.memory returns a view, and the warning is about in-place changes of it, of which there are none
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
    for part in reversed(list(module.modules())):  # inner modules first
        if isinstance(part, CrossAttention):
            fully_shard(part.memory, mesh=mesh)  # read for all layers before the first layer is called
        elif isinstance(part, EncoderLayer | DecoderLayer):
            fully_shard(part, mesh=mesh)
    fully_shard(module, mesh=mesh)
    if mesh.device_type == "cpu":
        for part in module.modules():
            if isinstance(part, FSDPModule):
                part.set_force_sum_reduction_for_comms(True)  # gloo's mean was a sum (pytorch issue 162338)
    return module


def copy_unsharded(sharded: nn.Module, plain: nn.Module | None) -> None:
    """Copy all weights of a sharded module into a plain one of the same class; a collective operation.

    Args:
        plain: None in processes that need no copy.
    """
    places = dict(plain.named_parameters()) if plain is not None else {}
    for name, parameter in sharded.named_parameters():
        tensor = full_tensor(parameter.detach())
        if plain is not None:
            places[name].data.copy_(tensor)
