"""From a YAML file to a whole, checked configuration: unknown keys refused, every fault listed at once.

A named system (`model.system: relative`) or a named size (`model.size: small`) fills in what the file leaves out;
whatever the file says wins. Each fault names the file, the line, the rule and the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from posnmt.config.formats import FORMAT, as_meant, unreadable
from posnmt.config.schema import Config
from posnmt.config.systems import SIZES, named
from posnmt.config.yaml import Lines, expand, faults, merge, override, place, read_yaml
from posnmt.errors import UserError, raise_all

_ABLATED = {"encoder": ("encoder",), "decoder": ("decoder",), "both": ("encoder", "decoder")}


def load(path: str | Path, overrides: Sequence[str] = (), unnumbered: int = FORMAT) -> Config:
    """The configuration in a YAML file, checked.

    Args:
        path: the YAML file.
        overrides: `key.key=value` settings, the value in YAML; they win over the file.
        unnumbered: the format of a file that does not name its own: today's where a person writes it, `OLDEST` where an
            earlier posnmt may have written it.

    Raises:
        UserError: every fault of the file and of the overrides at once, each with its line.
    """
    tree, lines = read(path, overrides)
    return from_tree(tree, Path(path), lines, unnumbered)


def read(path: str | Path, overrides: Sequence[str] = ()) -> tuple[dict[str, Any], Lines]:
    """A configuration as written, with overrides put in, and the line of each key of the file; not checked yet.

    Raises:
        UserError: no such file, or no YAML mapping; an override that is none.
    """
    tree, lines = read_yaml(
        path, "config", "a config is a YAML mapping with the sections data, subword, model, train, decode"
    )
    for setting in overrides:
        tree = override(tree, setting)
    return tree, lines


def from_tree(
    tree: dict[str, Any], path: Path | None = None, lines: Lines | None = None, unnumbered: int = FORMAT
) -> Config:
    """The configuration in a nested dictionary, checked; `path` and `lines` say where each key stands.

    `unnumbered` is as for `load`. `data.root` becomes absolute, so that the configuration names the same files whatever
    the working directory is, and wherever it is written down.
    """
    if unnumbered != FORMAT:
        tree = {"format": unnumbered, **tree}
    tree = _with_defaults_of_names(tree, path, lines or {})
    tree = as_meant(tree, tree.get("format", FORMAT))
    try:
        config = Config.model_validate(tree)
    except ValidationError as error:
        raise_all(faults(error, Config, path, lines or {}))
        raise AssertionError from error  # raise_all raised: a ValidationError holds at least one problem
    raise_all(_model_faults(config, path, lines or {}))
    base = Path() if path is None else path.parent
    root = base / expand(config.data.root, "data.root" if path is None else f"{path}: data.root")
    data = config.data.model_copy(update={"root": str(root.resolve())})
    return config.model_copy(update={"data": data})


def with_names(model: dict[str, Any]) -> dict[str, Any]:
    """A `model` section with all that its named size and system stand for; what it says itself wins.

    Raises:
        UserError: an unknown system, or nothing for `without` to take away.
    """
    filled: dict[str, Any] = _with_defaults_of_names({"model": model}, None, {})["model"]
    return filled


def resumed(config: Config, number: int) -> Config:
    """A configuration for going on with a run of format `number`: one that names no format is read as of that."""
    if "format" in config.model_fields_set or config.format == number:
        return config
    written = config.model_dump(mode="json", exclude_unset=True)  # earlier formats have defaults of their own
    return from_tree({**written, "format": number})


def dump(config: Config) -> str:
    """The configuration as YAML that `load` reads back to an equal one."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=100)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the configuration, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema(), "title": "posnmt"}


def _with_defaults_of_names(tree: dict[str, Any], path: Path | None, lines: Lines) -> dict[str, Any]:
    """Fill in what model.size and model.system stand for: size, then system, then what the file says."""
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
                f"model.system: {error.what}", place(("model", "system"), path, lines), error.todo
            ) from None
        merged = merge(merged, system.over(merged))
    for side in _ABLATED.get(str(model.get("without")), ()):
        fault = _why_not_without(side, merged, model)
        if fault is not None:
            what, todo = fault
            raise UserError(what, place(("model", "without"), path, lines), todo)
        merged = merge(merged, {side: {"position": []}})
    return {**tree, "model": merge(merged, model)}


def _why_not_without(side: str, named: dict[str, Any], model: dict[str, Any]) -> tuple[str, str] | None:
    """Why `model.without` cannot take order information away from a side: what is wrong, and what to do."""
    if not isinstance(model.get("system"), str):
        return "model.without needs model.system", f"no order information is model.{side}.position: []"
    written = model.get(side)
    if isinstance(written, dict) and written.get("position"):  # a config as resolved says [], which is the same
        what = f"model.without: {model['without']} takes away what a named system gives"
        return f"{what}, and model.{side}.position is the config's own", "leave one of them out"
    if not named.get(side, {}).get("position"):
        what = f"model.without: {model['system']} has no order information in its {side} that could be left out"
        return what, "leave model.without out"
    return None


def _model_faults(config: Config, path: Path | None, lines: Lines) -> list[UserError]:
    """What the architecture and the position schemes have against the `model` section."""
    from posnmt.model.registry import check  # which imports PyTorch

    stacks = {"encoder": config.model.encoder, "decoder": config.model.decoder}
    positions = {side: {choice.scheme for choice in stack.position} for side, stack in stacks.items()}
    old = [((side, "position"), fault) for side, fault in unreadable(positions, config.format)]
    return [
        UserError(
            f"{'.'.join(('model', *(key for key in keys if not key.isdigit())))}: {fault}",
            place(("model", *keys), path, lines),
        )
        for keys, fault in [*check(config.model), *old]
    ]
