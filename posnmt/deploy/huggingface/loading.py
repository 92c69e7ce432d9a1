"""Weights of an export in Transformers' format: reading them, their dtype, and the names of shared ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn

WEIGHTS = "model.safetensors"

HUB = ("cache_dir", "force_download", "local_files_only", "token", "revision", "subfolder")
"""Arguments of `from_pretrained` that locate files."""

IGNORED = ("trust_remote_code", "code_revision", "adapter_kwargs", "use_safetensors", "weights_only")
"""Arguments of `from_pretrained` without effect here: the code is installed, and weights are always safetensors."""


def load_weights(model: nn.Module, path: Path) -> None:
    """Read the weights of a model from a file, shared ones under any of their names.

    Raises:
        ValueError: weights are missing or of another model.
    """
    places = model.state_dict(keep_vars=True)
    tensors = load_file(path)
    loaded = {id(places[name]) for name in tensors if name in places}
    faults = [f"{name} is missing" for name, place in places.items() if id(place) not in loaded]
    faults += [f"{name} is not in this model" for name in tensors if name not in places]
    if faults:
        raise ValueError(f"{path} has the weights of another model: {'; '.join(faults[:3])}")
    model.load_state_dict(tensors, strict=False)


def dtype_of(given: Any) -> torch.dtype | None:
    """The dtype of an argument of `from_pretrained`; None: the dtype of the weights.

    Raises:
        ValueError: no dtype has the name.
        TypeError: the argument is neither a dtype nor a name.
    """
    if given is None or given == "auto":
        return None
    dtype = getattr(torch, given, None) if isinstance(given, str) else given
    if isinstance(dtype, torch.dtype):
        return dtype
    if isinstance(given, str):
        raise ValueError(f"PyTorch has no dtype {given!r}; bfloat16 is one")
    raise TypeError(f"dtype must be a dtype of PyTorch, or its name, such as bfloat16, not {given!r}")


def shared_names(module: nn.Module) -> dict[str, str]:
    """Each further name of a shared parameter -> its first name."""
    first: dict[int, str] = {}
    shared = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if first.setdefault(id(parameter), name) != name:
            shared[name] = first[id(parameter)]
    return shared
