"""From a YAML file to a complete, checked configuration. All faults are reported at once.

A named system (`model.system: relative`) or a named size (`model.size: small`) replaces defaults of the schema. Each
fault names the file, the line, the rule and the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from posnmt.base import plugins
from posnmt.base.errors import UserError, combined, raise_all
from posnmt.config.schema import Config, Model
from posnmt.config.systems import SIZES, SYSTEMS, named
from posnmt.config.yaml import Lines, expand, faults, merge, override, place, read_yaml, written_yaml

_ENDINGS = (".yaml", ".yml")
_TEXTS = "to train on two texts, name them: `posnmt train --source train.en --target train.de`"

_ABLATED = {"encoder": ("encoder",), "decoder": ("decoder",), "both": ("encoder", "decoder")}


def load(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """The configuration in a YAML file, checked.

    Args:
        path: the YAML file.
        overrides: `key.key=value` settings, the value in YAML, which override the file.

    Raises:
        UserError: every fault of the file and of the overrides at once, each with its line; a class by `module:Class`
            that is not allowed (`posnmt.base.plugins`).
    """
    tree, lines = read(path, overrides)
    return from_tree(tree, Path(path), lines)


def read(path: str | Path, overrides: Sequence[str] = ()) -> tuple[dict[str, Any], Lines]:
    """A configuration as written, with overrides, and the line of each key of the file; it is not checked yet.

    Raises:
        UserError: no such file, or no YAML mapping; an override that is not `key.key=value`.
    """
    try:
        tree, lines = read_yaml(
            path, "config", "a config is a YAML mapping with the sections data, subword, model, train, decode"
        )
    except UserError as fault:
        if Path(path).suffix in _ENDINGS or not Path(path).is_file():
            raise
        raise UserError(fault.what, fault.where, _TEXTS) from None
    for setting in overrides:
        tree = override(tree, setting)
    return tree, lines


def from_tree(tree: dict[str, Any], path: Path | None = None, lines: Lines | None = None) -> Config:
    """The configuration in a nested dictionary, checked; `path` and `lines` locate its keys for messages.

    `data.root` and `train.init` become absolute, so that the configuration does not depend on the working directory or
    on the place of its file.
    """
    tree = _with_defaults_of_names(tree, path, lines or {})
    try:
        config = Config.model_validate(tree)
    except ValidationError as error:
        raise combined(faults(error, Config, path, lines or {})) from None
    plugins.admit(_schemes(config.model), path)
    raise_all(_model_faults(config, path, lines or {}))
    base = Path() if path is None else path.parent
    root = base / expand(config.data.root, "data.root" if path is None else f"{path}: data.root")
    data = config.data.model_copy(update={"root": str(root.resolve())})
    train = config.train
    if train.init is not None:
        train = train.model_copy(update={"init": str((root / expand(train.init, "train.init")).resolve())})
    return config.model_copy(update={"data": data, "train": train})


def with_names(model: dict[str, Any]) -> dict[str, Any]:
    """A `model` section with the defaults of its named size and system filled in.

    Raises:
        UserError: an unknown system, or nothing for `without` to remove.
    """
    filled: dict[str, Any] = _with_defaults_of_names({"model": model}, None, {})["model"]
    return filled


def dump(config: Config) -> str:
    """The configuration as YAML that `load` reads back to an equal one."""
    return written_yaml(config.model_dump(mode="json"))


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the configuration, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema(), "title": "posnmt"}


def _with_defaults_of_names(tree: dict[str, Any], path: Path | None, lines: Lines) -> dict[str, Any]:
    """Fill in the defaults of model.size and model.system: size, then system, then the file's own settings."""
    model = tree.get("model", {})
    if not isinstance(model, dict):
        return tree
    merged: dict[str, Any] = SIZES.get(str(model.get("size")), {})
    name = model.get("system")
    if isinstance(name, str):
        try:
            system = named(name)
        except UserError as error:
            raise UserError(
                f"model.system: {error.placed}", place(("model", "system"), path, lines), error.todo
            ) from None
        merged = merge(merged, system.over(merged))
        subword = tree.get("subword", {})
        if system.subword and isinstance(subword, dict):
            tree = {**tree, "subword": merge(system.subword, subword)}
    for side in _ABLATED.get(str(model.get("without")), ()):
        fault = _why_not_without(side, merged, model)
        if fault is not None:
            what, todo = fault
            raise UserError(what, place(("model", "without"), path, lines), todo)
        merged = merge(merged, {side: {"position": []}})
    return {**tree, "model": merge(merged, model)}


def _why_not_without(side: str, named: dict[str, Any], model: dict[str, Any]) -> tuple[str, str] | None:
    """Why `model.without` cannot remove the order information of a side: what is wrong, and what to do."""
    if not isinstance(model.get("system"), str):
        return "model.without needs model.system", f"no order information is model.{side}.position: []"
    written = model.get(side)
    if isinstance(written, dict) and written.get("position"):  # [], as in a resolved config, is allowed
        what = f"model.without: {model['without']} removes the position schemes of a named system"
        return f"{what}, and model.{side}.position is set in the config", "leave one of them out"
    if not named.get(side, {}).get("position"):
        what = f"model.without: {model['system']} has no order information in its {side} that could be left out"
        return what, "leave model.without out"
    return None


def _schemes(model: Model) -> list[str]:
    return [choice.scheme for schemes in model.schemes.values() for choice in schemes]


def origins(model: Model) -> list[plugins.Origin]:
    """The origins of the parts of a checked `model` section that are not posnmt's own, each once."""
    system = [] if model.system is None else [("system", model.system)]
    parts = dict.fromkeys([*system, *(("scheme", name) for name in _schemes(model))])
    return [origin for kind, name in parts if (origin := plugins.origin(kind, name)) is not None]


def clashes(model: Model) -> list[str]:
    """A sentence for each part of posnmt that a `model` section names and that an installed package has as well."""
    from posnmt.model.positions import SCHEMES

    named = {"scheme": {*_schemes(model)} & {*SCHEMES}, "system": {str(model.system)} & {*SYSTEMS}}
    return [sentence for kind, own in named.items() for sentence in plugins.clashes(kind, own)]


def _model_faults(config: Config, path: Path | None, lines: Lines) -> list[UserError]:
    """The faults of the `model` section for its architecture and position schemes."""
    from posnmt.model.registry import architecture, check  # which imports PyTorch

    faults = [*check(config.model)]
    if not faults and architecture(config.model.architecture).reads_pairs and config.subword.pairs is None:
        what = (
            f"{config.model.architecture} needs pairs of subwords; set subword.pairs: {{}}, or name it as model.system"
        )
        faults = [(("architecture",), what)]
    return [
        UserError(
            f"{'.'.join(('model', *(key for key in keys if not key.isdigit())))}: {fault}",
            place(("model", *keys), path, lines),
        )
        for keys, fault in faults
    ]
