"""Tensors of which each process has a slice (`train.shard`): all of one, and the slice of one that was read whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def full_tensor(tensor: Tensor) -> Tensor:
    """All of a tensor, by every process together where each has a slice."""
    return tensor.full_tensor() if _is_sliced(tensor) else tensor


def slice_like(tensor: Tensor, like: Tensor) -> Tensor:
    """This process's slice of a tensor where `like` is shared out, else all of it; on the device of `like`."""
    tensor = tensor.to(like.device)
    if not _is_sliced(like):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor, like.device_mesh, like.placements, src_data_rank=None)  # all have read the file


def _is_sliced(tensor: Tensor) -> TypeGuard[DTensor]:
    """Whether this process has only a slice of a tensor."""
    return hasattr(tensor, "device_mesh")
