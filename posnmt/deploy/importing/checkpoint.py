"""Read the tensors of another toolkit's Transformer: check each, and give it posnmt's name.

Shapes: d model width, i inner width, V vocabulary entries.
"""

from __future__ import annotations

import mmap
import pickle
import re
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from posnmt.base.errors import UserError, existing_file, is_out_of_memory, quoted
from posnmt_position.absolute import sinusoids

OTHER = "check that it is the file that the toolkit wrote"

TIED = 4
"""The most names of one table in a checkpoint, which has it once: embeddings of both sides and output weights."""

Linear = tuple[Tensor, Tensor]
"""Weight and bias of a linear layer or of a layer normalisation."""


@dataclass(frozen=True)
class Names:
    """A toolkit's names for the parts of a layer.

    Attributes:
        attention, attention_norm: self-attention, and its normalisation.
        fc1, fc2, feed_forward_norm: the feed-forward network, and its normalisation.
        matrices: the matrices of an attention: query, key, value, output.
        cross, cross_norm: cross-attention of a decoder layer, and its normalisation.
    """

    attention: str
    attention_norm: str
    fc1: str
    fc2: str
    feed_forward_norm: str
    matrices: tuple[str, str, str, str]
    cross: str = ""
    cross_norm: str = ""


class Checkpoint:
    """The tensors of a checkpoint. Each is taken by its name and the shape that it must have.

    Args:
        tensors: toolkit's name → tensor.
        path: their file, for messages.
        width: d.
        order: [d] for each of our features of the residual stream, the index of the toolkit's; None: the same.
    """

    def __init__(self, tensors: Mapping[str, Tensor], path: Path, width: int, order: Tensor | None = None) -> None:
        self.tensors, self.path, self.width = tensors, path, width
        self._order = order
        self._taken: set[str] = set()

    @property
    def order(self) -> Tensor:
        """For each of our features, the index of the toolkit's."""
        return torch.arange(self.width) if self._order is None else self._order

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def take(self, name: str, *shape: int) -> Tensor:
        """A tensor in float32.

        Raises:
            UserError: it is missing, or has another shape or type.
        """
        if name not in self.tensors:
            raise UserError(f"the checkpoint has no {name}", self.path, OTHER)
        self._taken.add(name)
        tensor = self.tensors[name]
        if tensor.shape != shape or not tensor.is_floating_point():
            what = f"{name} is {list(tensor.shape)} of {tensor.dtype}, not {list(shape)} of a floating-point type"
            raise UserError(what, self.path, OTHER)
        return tensor.float()

    def refuse_rest(self, ignored: str) -> None:
        """Check that every tensor was taken, except those whose names match `ignored`.

        Raises:
            UserError: a tensor was not taken, so the toolkit's model computes something else.
        """
        rest = [name for name in self.tensors if name not in self._taken and not re.fullmatch(ignored, name)]
        if rest:
            more = f" and {len(rest) - 3} more" * (len(rest) > 3)
            what = f"the model has parts that posnmt's model does not have: {', '.join(rest[:3])}{more}"
            raise UserError(what, self.path, "translate with the toolkit that trained it")

    def refuse_other_sinusoids(self, name: str) -> None:
        """Check that a table of positions [P,..,d], if there is one, has the sinusoids that posnmt computes.

        Raises:
            UserError: the table has other values.
        """
        if name not in self.tensors:
            return
        table = self.take(name, *self.tensors[name].shape).flatten(1)
        own = sinusoids(torch.arange(len(table)), self.width).float()
        if table.shape != own.shape or not torch.allclose(table[:, self.order], own, atol=2e-3):
            what = f"the positions in {name} are not the sinusoids of Vaswani et al. 2017"
            raise UserError(what, self.path, "translate with the toolkit that trained it")

    def table(self, name: str, entries: int) -> Tensor:
        """Take word embeddings [V,d], with their features in posnmt's order."""
        return self.take(name, entries, self.width)[:, self.order]

    def reads(self, name: str, outputs: int) -> Linear:
        """A linear layer [d] -> [outputs] that reads the residual stream. A missing bias is 0."""
        return self.take(f"{name}.weight", outputs, self.width)[:, self.order], self._bias(name, outputs)

    def writes(self, name: str, inputs: int) -> Linear:
        """A linear layer [inputs] -> [d] that writes to the residual stream. A missing bias is 0."""
        weight = self.take(f"{name}.weight", self.width, inputs)[self.order]
        return weight, self._bias(name, self.width)[self.order]

    def norm(self, name: str) -> Linear:
        """A layer normalisation of the residual stream."""
        weight, bias = (self.take(f"{name}.{part}", self.width)[self.order] for part in ("weight", "bias"))
        return weight, bias

    def layer(self, ours: str, theirs: str, names: Names, inner: int) -> dict[str, Tensor]:
        """The weights of one layer, with posnmt's names.

        Args:
            ours, theirs: the layer's name, such as `encoder.0`, in posnmt and in the toolkit.
            names: the toolkit's names for its parts.
            inner: i.
        """
        *reading, output = names.matrices
        query, *memory = reading
        parts = {
            "attention.project": self._joined(f"{theirs}.{names.attention}", reading),
            "attention.output": self.writes(f"{theirs}.{names.attention}.{output}", self.width),
            "attention_norm": self.norm(f"{theirs}.{names.attention_norm}"),
            "feed_forward.fc1": self.reads(f"{theirs}.{names.fc1}", inner),
            "feed_forward.fc2": self.writes(f"{theirs}.{names.fc2}", inner),
            "feed_forward_norm": self.norm(f"{theirs}.{names.feed_forward_norm}"),
        }
        if names.cross:
            parts |= {
                "cross.query": self._joined(f"{theirs}.{names.cross}", [query]),
                "cross.memory": self._joined(f"{theirs}.{names.cross}", memory),
                "cross.output": self.writes(f"{theirs}.{names.cross}.{output}", self.width),
                "cross_norm": self.norm(f"{theirs}.{names.cross_norm}"),
            }
        return {f"{ours}.{part}.{kind}": tensor for part, linear in parts.items() for kind, tensor in named(linear)}

    def _joined(self, attention: str, matrices: Sequence[str]) -> Linear:
        """Several matrices [d,d] of an attention as one, stacked vertically."""
        weights, biases = zip(*[self.reads(f"{attention}.{matrix}", self.width) for matrix in matrices], strict=True)
        return torch.cat(weights), torch.cat(biases)

    def _bias(self, name: str, width: int) -> Tensor:
        return self.take(f"{name}.bias", width) if f"{name}.bias" in self.tensors else torch.zeros(width)


def named(linear: Linear) -> list[tuple[str, Tensor]]:
    """The weight and the bias of a linear layer or a normalisation, with their names."""
    return list(zip(("weight", "bias"), linear, strict=True))


def embeddings(tie: str, source: Tensor, target: Tensor, output: Linear) -> dict[str, Tensor]:
    """The word embeddings [V,d] and the output projection with posnmt's names; `tie` is `model.tie_embeddings`."""
    weights = {"source.table.weight": source, "output.bias": output[1]}
    if tie != "all":
        weights["target.table.weight"] = target
    if tie == "none":
        weights["output.weight"] = output[0]
    return weights


def unpickled(path: Path, allowed: Sequence[type] = ()) -> Any:
    """The content of a file of `torch.save`, which may have tensors, plain values and objects of allowed classes only.

    Raises:
        UserError: the file does not exist, is not of this kind, or has objects of other classes, whose code would run.
    """
    existing_file(path, "the checkpoint")
    _refuse_compressed(path)
    _refuse_arrays(path)
    safe: AbstractContextManager[None] = torch.serialization.safe_globals(list(allowed))
    try:
        with safe:
            return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, zipfile.BadZipFile, EOFError, RuntimeError, ValueError, KeyError, TypeError,
            AttributeError, IndexError, AssertionError, UnicodeDecodeError) as error:  # fmt: skip
        asked = re.search(r"tried to allocate (\d+) bytes", str(error))
        if is_out_of_memory(error) and not (asked and int(asked[1]) > path.stat().st_size):
            raise
        refusal = re.search(r"[Uu]nsupported (?:global: )?GLOBAL (\S+)|Trying to instantiate class (\S+)", str(error))
        if refusal:
            what = f"the checkpoint has an object of {refusal[1] or refusal[2]}, whose code would run"
            raise UserError(what, path, "save it with tensors and plain values only") from None
        raise UserError("the file is not a checkpoint of PyTorch, or is damaged", path, OTHER) from None


def _refuse_compressed(path: Path) -> None:
    """Check that a zip file is not compressed; PyTorch would unpack it, to any size, and never compresses itself.

    Raises:
        UserError: its files are larger than it, or it is no zip file although it begins like one.
    """
    with path.open("rb") as file:
        if file.read(2) != b"PK":  # the older format of torch.save, which is not compressed
            return
    try:
        with zipfile.ZipFile(path) as box:
            declared = sum(each.file_size for each in box.infolist())
    except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError):
        raise UserError("the file is not a checkpoint of PyTorch, or is damaged", path, OTHER) from None
    if declared > path.stat().st_size:
        what = f"the checkpoint's files have {declared:,} bytes, more than the checkpoint itself"
        raise UserError(what, path, "save it with torch.save, which does not compress")


def _refuse_arrays(path: Path) -> None:
    """Check that no pickle makes an array of bytes: PyTorch allows it, and the pickle has its length, not its bytes.

    Raises:
        UserError: one does.
    """
    if path.stat().st_size == 0:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if any(content.find(b"c%s\nbytearray\n" % module) >= 0 for module in (b"__builtin__", b"builtins")):
            what = "the checkpoint has an array of bytes, which no model has"
            raise UserError(what, path, "save it with tensors and plain values only")


def tensors_of(tree: Any, path: Path) -> dict[str, Tensor]:
    """The tensors in a dictionary, by name.

    Raises:
        UserError: `tree` is not a dictionary with names; or a tensor is not an ordinary one; or tensors have more
            numbers than the file.
    """
    if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
        raise UserError("not a checkpoint: it has no named weights", path, OTHER)
    tensors = {name: tensor for name, tensor in tree.items() if isinstance(tensor, Tensor)}
    for name, tensor in tensors.items():
        if type(tensor) not in (Tensor, nn.Parameter) or tensor.layout != torch.strided or _is_other(tensor):
            raise UserError(f"{quoted(name)} is a tensor of a special kind, such as a sparse one", path, OTHER)
        if tensor.nbytes > (held := tensor.untyped_storage().nbytes()):  # one number repeated, by a stride of 0
            what = f"{quoted(name)} has the shape {list(tensor.shape)}, more than the {held:,} bytes that it is made of"
            raise UserError(what, path, OTHER)
    if (total := sum(tensor.nbytes for tensor in tensors.values())) > TIED * (size := path.stat().st_size):
        raise UserError(f"its tensors have {total:,} bytes, and the file has {size:,}", path, OTHER)
    return tensors


def _is_other(tensor: Tensor) -> bool:
    return tensor.is_quantized or tensor.is_nested or tensor.is_meta
