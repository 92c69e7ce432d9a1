"""Files of losses, to analyse them again."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posnmt.base.errors import UserError
from posnmt.base.files import replacing
from posnmt.evaluation.analyse.losses import Losses, Scored

PLAIN, AFTER_SHORT, AFTER_LONG, SHIFTED = "losses", "after-short", "after-long", "shift-"
"""Names of designs, and of their files; those with shifted positions begin with the last."""

SIDES = ("source", "target", "both")
"""Whose positions are shifted."""


def write_losses(path: Path, losses: Losses) -> None:
    """Write losses into an .npz file; those of subwords and ends in single precision, in which models compute."""
    names = [each.name for each in fields(losses) if each.name != "models"]
    arrays: dict[str, Any] = {name: _narrowed(name, getattr(losses, name)) for name in names}
    arrays["models"] = json.dumps([asdict(model) for model in losses.models], ensure_ascii=False)
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)


def write_all(losses: Mapping[str, Sequence[Losses]], folder: Path) -> None:
    """Write the losses of each design, of one or several vocabularies: `losses.npz`, or `losses-1.npz` and so on."""
    for name, of_groups in losses.items():
        for number, each in enumerate(of_groups, 1):
            write_losses(folder / (f"{name}-{number}.npz" if len(of_groups) > 1 else f"{name}.npz"), each)


def of_shifts(losses: Mapping[str, Losses], shift: int | None) -> dict[str, Losses]:
    """The losses with shifted positions, by what the report calls them: "source +40", "target +40", "both +40".

    Args:
        losses: name of a design -> those of one vocabulary.
        shift: where positions begin.
    """
    return {f"{side} +{shift}": losses[name] for side in SIDES if (name := f"{SHIFTED}{side}") in losses}


def read_losses(path: Path) -> Losses:
    """The losses in a file that `write_losses` wrote.

    Raises:
        UserError: the file is missing or damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            models = [Scored(**each) for each in json.loads(str(file["models"]))]
            arrays = {each.name: file[each.name] for each in fields(Losses) if each.name != "models"}
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        raise UserError(
            "not a file of losses, or a damaged one", path, "make it again with `posnmt score --by-position`"
        ) from None
    wide = {name: array.astype(np.float64 if array.dtype.kind == "f" else np.int64) for name, array in arrays.items()}
    return Losses(**wide, models=models)


def _narrowed(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind != "f":
        return array.astype(np.int32)
    return array.astype(np.float32) if name in ("losses", "ends") else array
