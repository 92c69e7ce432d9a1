"""Files of losses: a compact one to analyse them again, and a table of means by bin.

Legend: M models, T scored units (subwords or characters), N sentences.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posnmt.analyse.by_character import CharacterLosses
from posnmt.analyse.losses import Losses, Scored
from posnmt.errors import UserError
from posnmt.files import replacing

WIDTH, CHARACTERS = 10, 20
"""Of a bin, in subwords and in characters."""

COLUMNS = ("axis", "bin", "system", "seed", "sentences", "documents", "units", "loss")
"""Of the table; `loss` is a mean over units, in nats per subword or in bits per character."""


def write_losses(path: Path, losses: Losses) -> None:
    """Write losses into an .npz file; those of subwords and ends in single precision, in which models compute."""
    names = [each.name for each in fields(losses) if each.name != "models"]
    arrays: dict[str, Any] = {name: _narrowed(name, getattr(losses, name)) for name in names}
    arrays["models"] = json.dumps([asdict(model) for model in losses.models], ensure_ascii=False)
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)


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


def table(losses: Losses) -> list[list[Any]]:
    """The rows of `COLUMNS` by target position and by source length."""
    by_source = losses.source_lengths[losses.sentence]
    return [
        *_rows("target position", losses.position, WIDTH, losses.losses, losses),
        *_rows("source length", by_source, WIDTH, losses.losses, losses),
    ]


def design_rows(axis: str, designs: Mapping[str, Losses]) -> list[list[Any]]:
    """A row for each design, its name in place of a bin, and each model: the mean over all of its subwords."""
    return [
        [axis, name, model.system, model.seed, len(losses.documents), len(np.unique(losses.documents)), row.size, mean]
        for name, losses in designs.items()
        for model, row in zip(losses.models, losses.losses, strict=True)
        for mean in [f"{row.mean():.6f}"]
    ]


def character_table(losses: CharacterLosses) -> list[list[Any]]:
    """The rows of `COLUMNS` by characters before a character."""
    return list(_rows("target character", losses.position, CHARACTERS, losses.bits, losses))


def as_csv(rows: Sequence[Sequence[Any]]) -> str:
    """Rows of `COLUMNS` as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *rows])
    return text.getvalue()


def _rows(
    axis: str, values: NDArray[Any], width: int, of_units: NDArray[np.float64], losses: Losses | CharacterLosses
) -> Iterator[list[Any]]:
    """A row for each bin that has units, and each model.

    Args:
        values: [T] of each unit on the axis.
        of_units: [M,T] losses.
    """
    for number in np.unique(values // width).tolist():
        chosen = values // width == number
        sentences = np.unique(losses.sentence[chosen])
        documents = len(np.unique(losses.documents[sentences]))
        name = f"{number * width}-{(number + 1) * width}"
        for model, row in zip(losses.models, of_units, strict=True):
            mean = f"{row[chosen].mean():.6f}"
            yield [axis, name, model.system, model.seed, len(sentences), documents, int(chosen.sum()), mean]
