"""The weights that a training takes from the run that it continues from, `train.init`.

The model must be that of the run, except for its position schemes: every weight that both have is copied. A scheme with
the same name and options in the same stack is the same; other schemes start as in any training.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from posnmt.base.errors import UserError
from posnmt.base.files import sha256_of
from posnmt.config.schema import Config, Model, SchemeChoice
from posnmt.data.learn import text_folder
from posnmt.data.text import text_hash
from posnmt.model.base import TranslationModel
from posnmt.model.positions import scheme_class
from posnmt.model.slices import full_tensor, slice_like
from posnmt.model.weights import read_tensors
from posnmt.run.run import Run

if TYPE_CHECKING:
    from posnmt.data.text import TextPipeline

_SAME = (
    "architecture", "options", "d_model", "feed_forward", "heads", "encoder.layers", "decoder.layers", "norm",
    "norm_epsilon", "activation", "source_end", "scale_embeddings", "tie_embeddings",
)  # fmt: skip
"""Settings of the model without which the weights of a run mean something else, or have other shapes."""

_SIDES = {"source": "encoder", "target": "decoder"}


def refuse_other_model(config: Config) -> None:
    """Check that a training can continue from the run of `train.init`, if it names one.

    Raises:
        UserError: no such run, a model that differs in more than its positions, or another text pipeline.
    """
    if config.train.init is None:
        return
    begun = Run.open(config.train.init)
    was, now = begun.config.model, config.model
    differing = [key for key in _SAME if _at(was, key) != _at(now, key)]
    if differing:
        shown = ", ".join(f"{key} was {_at(was, key)!r}, is {_at(now, key)!r}" for key in differing)
        what = f"a training can continue from a run with other positions, but not with another model: {shown}"
        raise UserError(what, begun.folder, "leave these settings out, or train.init")
    if config.subword.text is None or text_hash(text_folder(config)) != begun.text_hash():
        raise UserError(
            "the text is not split as that of the run that train.init names", begun.folder,
            f"set subword.text: {begun.folder / 'text'}, and subword.pieces: extended for characters that it lacks",
        )  # fmt: skip


@torch.no_grad()
def continue_from(model: TranslationModel, config: Config, text: TextPipeline) -> dict[str, Any]:
    """Give a new model, or this process's slice of it, the weights of the run of `train.init`.

    Args:
        text: of the new run; its first entries are those of the run.

    Returns:
        For the record: `path`, `weights` (SHA-256), `system` and `positions` of the run, `updates` that its weights
        have had, the number of tensors `copied`, the names of `new` ones and of those `left_out`, and the number of
        `new_pieces` of each side.

    Raises:
        UserError: a weight of another shape.
    """
    begun = Run.open(str(config.train.init))
    weights = begun.weights()
    tensors, about = read_tensors(weights)
    before = begun.text()
    grown = {(old.size, new.size) for old, new in ((before.source, text.source), (before.target, text.target))}
    names = dict(_origins(model, begun.config.model))
    new = []
    for name, parameter in model.named_parameters():
        origin = names[name]
        if origin not in tensors:
            new.append(name)
            continue
        tensor = tensors[origin]
        if tensor.shape != parameter.shape:
            tensor = _with_rows(name, tensor, full_tensor(parameter), grown)
        parameter.copy_(slice_like(tensor.to(parameter.dtype), parameter))
    return {
        "path": str(begun.folder),
        "weights": sha256_of(weights),
        "system": begun.config.model.system,
        "positions": {side: [each.scheme for each in _choices(begun.config.model, side)] for side in _SIDES.values()},
        "updates": about.get("step"),
        "copied": len(names) - len(new),
        "new": new,
        "left_out": sorted(set(tensors).difference(origin for origin in names.values() if origin)),
        "new_pieces": {
            "source": text.source.size - before.source.size, "target": text.target.size - before.target.size
        },
    }  # fmt: skip


def described(taken: dict[str, Any]) -> Iterator[str]:
    """What `continue_from` returns, as sentences."""
    total, updates = taken["copied"] + len(taken["new"]), taken["updates"]
    trained = "" if updates is None else f", trained with {updates:,} updates"
    yield f"continuing from {taken['path']}{trained}: {taken['copied']} of {total} tensors are copied"
    for what, names in (
        ("new, as at a start", taken["new"]),
        ("left out, as the model has no such", taken["left_out"]),
    ):
        if names:
            yield f"{what}: {', '.join(_grouped(names))}"


def _grouped(names: Sequence[str]) -> list[str]:
    """Names of tensors, those of one scheme as one."""
    counts: dict[str, int] = {}
    for name in names:
        scheme = re.match(r"(source|target)\.schemes\.\d+", name)
        part = scheme[0] if scheme else name
        counts[part] = counts.get(part, 0) + 1
    return [f"{part} ({count} tensors)" if count > 1 else part for part, count in counts.items()]


def _origins(model: TranslationModel, begun: Model) -> Iterator[tuple[str, str | None]]:
    """For the name of each parameter, the name of the same one in a run; None: it belongs to a scheme of its own."""
    for name, _ in model.named_parameters():
        scheme = re.match(r"(source|target)\.schemes\.(\d+)\.", name)
        if scheme is None:
            yield name, name
            continue
        side = _SIDES[scheme[1]]
        place = _place(_choices(model.config, side)[int(scheme[2])], _choices(begun, side))
        yield name, None if place is None else f"{scheme[1]}.schemes.{place}.{name[scheme.end() :]}"


def _choices(model: Model, side: str) -> list[SchemeChoice]:
    chosen: list[SchemeChoice] = getattr(model, side).position
    return chosen


def _place(choice: SchemeChoice, others: Sequence[SchemeChoice]) -> int | None:
    """Where a scheme with the same name and options is among others."""
    kind = scheme_class(choice.scheme)
    wanted = kind.Settings(**choice.options)
    for place, other in enumerate(others):
        if other.scheme == choice.scheme and kind.Settings(**other.options) == wanted:
            return place
    return None


def _with_rows(name: str, tensor: Tensor, drawn: Tensor, grown: set[tuple[int, int]]) -> Tensor:
    """A tensor of a run with the rows of new vocabulary entries, as they were drawn, below its own.

    Raises:
        UserError: the shapes differ otherwise.
    """
    if tensor.shape[1:] == drawn.shape[1:] and (len(tensor), len(drawn)) in grown:
        return torch.cat([tensor.to(drawn), drawn[len(tensor) :]])
    raise UserError(
        f"the weight {name} is {list(tensor.shape)} in the run that train.init names, and {list(drawn.shape)} here",
        "train.init", "choose the settings of that run, or leave train.init out",
    )  # fmt: skip


def _at(model: Model, key: str) -> Any:
    """A setting of the model by its dotted key."""
    value: Any = model
    for name in key.split("."):
        value = getattr(value, name)
    return value
