"""Weights in safetensors files, written atomically and without pickle, and their average."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from posnmt.base.errors import UserError
from posnmt.base.output import replacing
from posnmt.model.slices import slice_like

_NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
"""Names of types in safetensors files."""


MOST_HEADER = 1 << 23
"""The most bytes of a safetensors file's header, where a tensor takes about a hundred: each is an object of Python."""

MOST_TABLES = 1 << 30
"""The most bytes of tables that follow from a configuration alone, such as those of sinusoids by distance."""


def stored(model: nn.Module) -> dict[str, Tensor]:
    """What files hold of a model: its parameters, shared ones once, and buffers that do not follow from its config."""
    saved = model.state_dict(keep_vars=True).keys()
    return {**dict(model.named_parameters()), **{name: each for name, each in model.named_buffers() if name in saved}}


def save_model(model: nn.Module, path: Path, about: dict[str, Any]) -> None:
    """Write the weights of a model, shared matrices once, with metadata in the file's header."""
    named = {name: tensor.detach().cpu().contiguous() for name, tensor in stored(model).items()}
    save_tensors(named, path, about)


def save_tensors(tensors: dict[str, Tensor], path: Path, about: dict[str, Any]) -> None:
    """Write tensors to a safetensors file, atomically."""
    with replacing(path) as partial:
        write_tensors(tensors, partial, {key: json.dumps(value) for key, value in about.items()})


def write_tensors(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write tensors to a safetensors file: the length of the header, the header in JSON, and the tensors' bytes.

    The same content gives the same bytes, which it does not with the safetensors library (0.8): that writes the
    metadata in random order. As there, wider types come first, so that each tensor is aligned.

    Args:
        tensors: contiguous, on the CPU.
    """
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(sorted(metadata.items()))}
    ordered = sorted(tensors.items(), key=lambda each: (-each[1].element_size(), each[0]))
    end = 0
    for name, tensor in ordered:
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": [*tensor.shape], "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, tensor in ordered:
            file.write(tensor.reshape(-1).view(torch.uint8).numpy().data)


def read_tensors(path: Path, described: bool = True) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors in a safetensors file by name, and the metadata of its header.

    Args:
        described: whether the metadata are posnmt's; those of another program are left alone.

    Raises:
        UserError: no such file, or not safetensors.
    """
    _refuse_header(path)
    try:
        tensors = load_file(path)
        with safe_open(path, framework="pt") as file:
            metadata = (file.metadata() or {}) if described else {}
            about = {key: json.loads(value) for key, value in metadata.items()}
    except (SafetensorError, ValueError, RecursionError) as error:
        raise UserError(f"not a readable safetensors file: {error}", path, "copy it again from its origin") from None
    return tensors, about


def _refuse_header(path: Path) -> None:
    """Check that a file of weights exists, and the length of its header.

    Raises:
        UserError: it does not exist, or the header is longer than `MOST_HEADER`.
    """
    if not path.exists():
        raise UserError("no such checkpoint", path, "train the model first, or name another checkpoint")
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
    if length > MOST_HEADER:
        what = f"not a readable safetensors file: its header has {length:,} bytes, more than {MOST_HEADER:,}"
        raise UserError(what, path, "copy it again from its origin")


def shapes_in(path: Path) -> dict[str, list[int]]:
    """The shapes of the tensors in a safetensors file by name, from its header: no tensor is read.

    Raises:
        UserError: no such file, or not safetensors.
    """
    _refuse_header(path)
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118  no mapping
    except (SafetensorError, ValueError, RecursionError) as error:
        raise UserError(f"not a readable safetensors file: {error}", path, "copy it again from its origin") from None


def refuse_other_weights(model: nn.Module, path: Path) -> None:
    """Check that the weights in a file are those of a model, by their names and shapes in the file's header.

    Args:
        model: may be on the device meta. So a configuration that does not belong to the file allocates nothing.

    Raises:
        UserError: no such file, not safetensors, or weights of another model (names or shapes differ).
    """
    shapes, places = shapes_in(path), stored(model)
    faults = [f"{name} is missing" for name in places if name not in shapes]
    faults += [f"{name} is not in this model" for name in shapes if name not in places]
    faults += [
        f"{name} is {shapes[name]}, not {list(place.shape)}"
        for name, place in places.items()
        if name in shapes and shapes[name] != list(place.shape)
    ]
    if faults:
        more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
        raise UserError(
            f"the checkpoint was made with another config: {'; '.join(faults[:3])}{more}", path,
            "use the config.yaml that was written with it",
        )  # fmt: skip


def refuse_large_tables(model: nn.Module, path: Path) -> None:
    """Check the tables of a model that no file of weights holds, since they follow from its configuration.

    Raises:
        UserError: they have more than `MOST_TABLES` bytes.
    """
    places = stored(model)
    if sum(each.nbytes for name, each in model.named_buffers() if name not in places) > MOST_TABLES:
        what = f"the model's fixed tables have more than {MOST_TABLES:,} bytes"
        raise UserError(what, path, "correct the distances and lengths in its config.yaml")


def load_model(model: nn.Module, path: Path) -> dict[str, Any]:
    """Read the weights of a model, or of this process's slice of it, from a file; return the metadata of its header.

    Raises:
        UserError: no such file, not safetensors, or weights of another model (names or shapes differ).
    """
    refuse_other_weights(model, path)
    tensors, about = read_tensors(path)
    with torch.no_grad():
        for name, place in stored(model).items():
            place.copy_(slice_like(tensors[name], place))
    return about


def average(files: list[Path]) -> dict[str, Tensor]:
    """The mean of the weights in several files, summed in float64."""
    total: dict[str, Tensor] = {}
    for file in files:
        for name, tensor in load_file(file).items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    kinds = load_file(files[0])
    return {name: (value / len(files)).to(kinds[name].dtype) for name, value in total.items()}
