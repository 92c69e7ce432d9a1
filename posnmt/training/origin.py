"""What the configuration of a training takes from the run that it continues from, `train.init`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posnmt.config.systems import SIZES
from posnmt.config.yaml import expand, merge
from posnmt.model.positions import scheme_class
from posnmt.run.defaults import is_set
from posnmt.run.run import Run

_TEXT = ("source_language", "target_language", "tokenise", "truecase")
"""Settings of `data` that belong to the text pipeline."""

_POSITIONS = ("model.encoder.position", "model.decoder.position")


def with_origin(tree: dict[str, Any], base: Path) -> dict[str, Any]:
    """A configuration as written, with the text pipeline and the model of the run that `train.init` names.

    What is written is kept. Another system, or other position schemes, replace those of the run.

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
    sides = {
        side: {**begun[side], "position": [_whole(choice) for choice in begun[side]["position"]]}
        for side in ("encoder", "decoder")
    }
    if is_set(tree, "model.system") or is_set(tree, "model.architecture"):
        left_out |= {"system", "without", "architecture", "options"}
    elif any(is_set(tree, key) for key in _POSITIONS):
        left_out |= {"system", "without"}
    if is_set(tree, "model.system") or is_set(tree, "model.without"):
        for side in sides.values():
            del side["position"]
    if is_set(tree, "model.size"):
        size = SIZES.get(str(tree["model"]["size"]), {})
        left_out |= {"size", *(key for key in size if key not in sides)}
        for side in sides.values():
            side.pop("layers", None)
    return {**{key: value for key, value in begun.items() if key not in left_out}, **sides}


def _whole(choice: dict[str, Any]) -> dict[str, Any]:
    """A scheme with the clipping distance that it has, which would be chosen by the new text if it were left out."""
    options = {key: value for key, value in choice.items() if key != "scheme"}
    settings = vars(scheme_class(choice["scheme"]).Settings(**options))
    return {**choice, **{key: settings[key] for key in ("distance",) if key in settings}}
