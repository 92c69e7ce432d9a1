"""Training from the weights of another run, `train.init`: the settings, text pipeline and weights that are taken over.

The model must be that of the run, except for its position schemes. Every weight that both have is copied. Two schemes
are the same if they have the same name, options, layers and stack; other schemes start as in any training.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posnmt.base.errors import UserError
from posnmt.base.files import sha256_of
from posnmt.base.words import counted
from posnmt.config.marks import OfWeights, marked
from posnmt.config.schema import SCHEME_LISTS, Config, Model, SchemeChoice
from posnmt.config.systems import SIZES
from posnmt.config.yaml import expand, merge
from posnmt.data.learn import text_folder
from posnmt.data.text import TextPipeline, text_hash
from posnmt.model.base import TranslationModel
from posnmt.model.positions import scheme_class
from posnmt.model.slices import full_tensor, slice_like
from posnmt.model.weights import read_tensors, stored
from posnmt.run.defaults import is_set
from posnmt.run.run import Run
from posnmt_position.registry import split

_SCHEMES = dict(zip(("source", "target", "cross"), map(".".join, SCHEME_LISTS), strict=True))
"""Part of a model -> the setting that lists its schemes."""

_TEXT = ("source_language", "target_language", "tokenise", "truecase")
"""Settings of `data` that belong to the text pipeline."""


def with_origin(tree: dict[str, Any], base: Path) -> dict[str, Any]:
    """A configuration as written, with the text pipeline and the model of the run that `train.init` names.

    Written settings are kept; a written system, or written position schemes, replace those of the run.

    Args:
        base: folder that `data.root` is relative to.

    Raises:
        UserError: `train.init` names no run folder.
    """
    data, train = tree.get("data", {}), tree.get("train", {})
    if not (isinstance(train, Mapping) and isinstance(train.get("init"), str) and isinstance(data, Mapping)):
        return tree
    root = base / expand(str(data.get("root", ".")), "data.root")
    begun = Run.open(root / expand(train["init"], "train.init"))
    config = begun.config.model_dump(mode="json")
    subword = {**config["subword"], "text": str((begun.folder / "text").resolve()), "pieces": "kept"}
    taken = {"data": {key: config["data"][key] for key in _TEXT}, "model": _model(config["model"], tree)}
    if not is_set(tree, "subword.text"):
        taken["subword"] = subword
    return merge(taken, tree)


def _model(begun: dict[str, Any], tree: dict[str, Any]) -> dict[str, Any]:
    """The `model` section of the run, without what a configuration replaces by a name."""
    left_out: set[str] = set()
    sides = {side: dict(begun[side]) for side in ("encoder", "decoder")}
    places = [setting.split(".") for setting in _SCHEMES.values()]
    for stack, name in places:
        sides[stack][name] = [_whole(choice) for choice in begun[stack][name]]
    if is_set(tree, "model.system") or is_set(tree, "model.architecture"):
        left_out |= {"system", "without", "architecture", "options"}
    elif any(is_set(tree, f"model.{setting}") for setting in _SCHEMES.values()):
        left_out |= {"system", "without"}
    if is_set(tree, "model.system") or is_set(tree, "model.without"):
        for stack, name in places:
            del sides[stack][name]
    if is_set(tree, "model.size"):
        size = SIZES.get(str(tree["model"]["size"]), {})
        left_out |= {"size", *(key for key in size if key not in sides)}
        for settings in sides.values():
            settings.pop("layers", None)
    return {**{key: value for key, value in begun.items() if key not in left_out}, **sides}


def _whole(choice: dict[str, Any]) -> dict[str, Any]:
    """A scheme with its clipping distance written out; if it were left out, the new text would decide it."""
    options = {key: value for key, value in choice.items() if key != "scheme"}
    settings = vars(scheme_class(choice["scheme"]).Settings(**options))
    return {**choice, **{key: settings[key] for key in ("distance",) if key in settings}}


def refuse_other_model(config: Config, begun: Run) -> None:
    """Check that a training can continue from a run.

    Raises:
        UserError: a model that differs in more than its positions, or another text pipeline.
    """
    was, now = begun.config.model, config.model
    differing = [key for key in marked(Model, OfWeights) if _at(was, key) != _at(now, key)]
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
def continue_from(model: TranslationModel, begun: Run, text: TextPipeline) -> dict[str, Any]:
    """Give a new model, or this process's slice of it, the weights of a run.

    Args:
        text: of the new run; its first entries are those of the run.

    Returns:
        For the record: `path`, `weights` (SHA-256), `system` and `positions` of the run, `updates` that its weights
        have had, the number of tensors `copied`, the names of `new` ones and of those `left_out`, and the number of
        `new_pieces` of each side.

    Raises:
        UserError: a weight of another shape.
    """
    weights = begun.trained_weights()
    tensors, about = read_tensors(weights)
    before = begun.text()
    grown = {(old.size, new.size) for old, new in ((before.source, text.source), (before.target, text.target))}
    names = dict(_origins(model, begun.config.model))
    new = []
    for name, parameter in stored(model).items():
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
        "positions": {
            place: [each.scheme for each in choices] for place, choices in begun.config.model.recorded_schemes.items()
        },
        "updates": about.get("step"),
        "copied": len(names) - len(new),
        "new": new,
        "left_out": sorted(set(tensors).difference(origin for origin in names.values() if origin)),
        "new_pieces": {
            "source": text.source.size - before.source.size, "target": text.target.size - before.target.size
        },
    }  # fmt: skip


def described(taken: dict[str, Any]) -> Iterator[str]:
    """Sentences for the result of `continue_from`."""
    total, updates = taken["copied"] + len(taken["new"]), taken["updates"]
    trained = "" if updates is None else f", trained with {counted(updates, 'update')}"
    yield f"continuing from {taken['path']}{trained}: {taken['copied']} of {total} tensors are copied"
    for what, names in (
        ("new, as at a start", taken["new"]),
        ("left out, as the model has no such", taken["left_out"]),
    ):
        if names:
            yield f"{what}: {', '.join(_grouped(names))}"


def _grouped(names: Sequence[str]) -> list[str]:
    counts: dict[str, int] = {}
    for name in names:
        scheme = re.match(r"(source|target|cross)\.schemes\.\d+", name)
        part = scheme[0] if scheme else name
        counts[part] = counts.get(part, 0) + 1
    return [f"{part} ({count} tensors)" if count > 1 else part for part, count in counts.items()]


def _origins(model: TranslationModel, begun: Model) -> Iterator[tuple[str, str | None]]:
    """For the name of each tensor, the name of the same one in a run; None: it belongs to a scheme of its own."""
    for name in stored(model):
        scheme = re.match(r"(source|target|cross)\.schemes\.(\d+)\.", name)
        if scheme is None:
            yield name, name
            continue
        setting = _SCHEMES[scheme[1]]
        place = _place(model.config.schemes[setting][int(scheme[2])], begun.schemes[setting])
        yield name, None if place is None else f"{scheme[1]}.schemes.{place}.{name[scheme.end() :]}"


def _place(choice: SchemeChoice, others: Sequence[SchemeChoice]) -> int | None:
    """Where a scheme with the same name and options in the same layers is among others."""
    kind = scheme_class(choice.scheme)

    def chosen(each: SchemeChoice) -> tuple[Any, set[int] | None]:
        options, layers = split(each.options)
        return kind.Settings(**options), None if layers is None else {*layers}

    for place, other in enumerate(others):
        if other.scheme == choice.scheme and chosen(other) == chosen(choice):
            return place
    return None


def _with_rows(name: str, tensor: Tensor, drawn: Tensor, grown: set[tuple[int, int]]) -> Tensor:
    """A tensor of a run, followed by rows for new vocabulary entries, which are as they were drawn.

    Raises:
        UserError: the shapes differ in another way.
    """
    if tensor.shape[1:] == drawn.shape[1:] and (len(tensor), len(drawn)) in grown:
        return torch.cat([tensor.to(drawn), drawn[len(tensor) :]])
    raise UserError(
        f"the weight {name} is {list(tensor.shape)} in the run that train.init names, and {list(drawn.shape)} here",
        "train.init", "choose the settings of that run, or leave train.init out",
    )  # fmt: skip


def _at(model: Model, key: str) -> Any:
    return reduce(getattr, key.split("."), model)
