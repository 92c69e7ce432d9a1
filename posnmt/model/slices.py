"""Tensors that are sharded over processes (`train.shard`): gathering one, and taking the slice of a full one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def full_tensor(tensor: Tensor) -> Tensor:
    """The full tensor; a collective operation of all processes if it is sharded."""
    return tensor.full_tensor() if _is_sliced(tensor) else tensor


def slice_like(tensor: Tensor, like: Tensor) -> Tensor:
    """This process's slice of a tensor if `like` is sharded, else the tensor; on the device of `like`."""
    tensor = tensor.to(like.device)
    if not _is_sliced(like):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(
        tensor, like.device_mesh, like.placements, src_data_rank=None
    )  # every process has the full tensor


def _is_sliced(tensor: Tensor) -> TypeGuard[DTensor]:
    return hasattr(tensor, "device_mesh")
