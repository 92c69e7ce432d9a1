"""Weights, gradients and Adam's moments shared out over the processes (FSDP2), for models that do not fit one device.

Each process keeps a slice of every parameter, and of what belongs to it, and computes its own batches as with DDP. The
weights of a group are put together just before they are read and dropped after; their gradients are added up over the
processes as soon as they are complete, and each process keeps its slice. Groups are the layers of a Transformer. All
else (embeddings, final normalisation, output projection, position schemes; everything in other architectures) is one
group, the root's, whole from the beginning of the forward pass to the end of the backward pass: so tied matrices are in
one group, and the loss reads the output projection, and a layer its position schemes, as always.

Evaluation and files need all weights at once: the first process gets a model of its own that has them.

PyTorch's sharding takes seconds to import, which translating, whose weights are read by functions that slice, need not
spend: so it is imported where it is used.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from torch import nn

from posnmt.model.attention import CrossAttention
from posnmt.model.layers import DecoderLayer, EncoderLayer
from posnmt.model.slices import full_tensor

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


def shard(module: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Share the parameters of a loss module out over the processes of a mesh, in place; the module."""
    from torch.distributed.fsdp import FSDPModule, fully_shard

    # what CrossAttention.memory gives is a view; nothing changes it in place, which is what the warning is about
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
    for part in reversed(list(module.modules())):  # what is inside comes first
        if isinstance(part, CrossAttention):
            fully_shard(part.memory, mesh=mesh)  # read for all layers before the first of them is called
        elif isinstance(part, EncoderLayer | DecoderLayer):
            fully_shard(part, mesh=mesh)
    fully_shard(module, mesh=mesh)
    if mesh.device_type == "cpu":
        for part in module.modules():
            if isinstance(part, FSDPModule):
                part.set_force_sum_reduction_for_comms(True)  # gloo's mean has been a sum (pytorch issue 162338)
    return module


def copy_unsharded(sharded: nn.Module, plain: nn.Module | None) -> None:
    """Put all weights of a sharded module into a plain one of the same kind; every process takes part.

    Args:
        plain: None for the processes that need no copy.
    """
    places = dict(plain.named_parameters()) if plain is not None else {}
    for name, parameter in sharded.named_parameters():
        tensor = full_tensor(parameter.detach())
        if plain is not None:
            places[name].data.copy_(tensor)
