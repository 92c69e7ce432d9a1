"""Marks of settings, in the annotations of their fields: what rules outside the schema do with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel


@dataclass(frozen=True)
class Chosen:
    """Where a configuration leaves the setting out, or has `auto` for it, it is chosen: see `posnmt.run.defaults`."""


@dataclass(frozen=True)
class OfWeights:
    """With another value, trained weights mean something else or have other shapes: see `posnmt.training.continued`."""


@dataclass(frozen=True)
class MayChange:
    """A run that is resumed may have another value: see `posnmt.run.run`."""


def marked(section: type[BaseModel], mark: type, prefix: str = "") -> Iterator[str]:
    """The dotted keys of a section's settings that have a mark, those of sections in it included.

    Args:
        prefix: of the keys.
    """
    for name, field in section.model_fields.items():
        if any(isinstance(each, mark) for each in field.metadata):
            yield f"{prefix}{name}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from marked(field.annotation, mark, f"{prefix}{name}.")
