"""Weights, gradients and Adam's moments sharded over the processes (FSDP2), for models that do not fit one device.

Each process keeps a slice of every parameter, its gradient and its moments, and computes its own batches as with DDP.
The weights of a group are gathered just before they are read and freed afterwards; their gradients are reduced over the
processes as soon as they are complete, and each process keeps its slice. Groups are the layers of a Transformer. The
rest (embeddings, final normalisation, output projection, position schemes; everything in other architectures) is the
root group, which stays gathered from the start of the forward pass to the end of the backward pass. Therefore tied
matrices are in one group, and the loss can read the output projection, and a layer its position schemes.

Evaluation and files need all weights at once: the first process gets an unsharded copy of the model.

PyTorch's sharding takes seconds to import, so it is imported only when it is used.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from torch import nn

from posnmt.model.attention import CrossAttention
from posnmt.model.layers import DecoderLayer, EncoderLayer
from posnmt.model.slices import full_tensor
from posnmt.model.weights import stored

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


def shard(module: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Shard the parameters of a loss module over the processes of a mesh, in place; return the module."""
    from torch.distributed.fsdp import FSDPModule, fully_shard

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
    """Copy all that files hold of a sharded module into a plain one of the same class; a collective operation.

    Args:
        plain: None in processes that need no copy.
    """
    places = stored(plain) if plain is not None else {}
    for name, slice in stored(sharded).items():
        tensor = full_tensor(slice.detach())
        if plain is not None:
            places[name].data.copy_(tensor)
