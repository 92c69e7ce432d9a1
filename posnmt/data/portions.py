"""The portions in which lines are translated: small ones first, so that the first translations come soon."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

FIRST = 250
"""Lines of the first portion. Each is larger than the one before, up to `LARGEST`."""

LARGEST = 2_000
"""Lines that are in memory at a time and sorted by length together; batches are fuller where there are more."""


def portion(done: int) -> int:
    """The number of lines of the portion that comes after `done` lines."""
    return min(LARGEST, done + FIRST)


def portions(lines: Iterator[T], done: int = 0) -> Iterator[list[T]]:
    """Lines in portions, in order.

    Args:
        done: lines that came before, so that the rest of a text has the portions that it has in the whole.
    """
    while group := list(islice(lines, portion(done))):
        yield group
        done += len(group)
