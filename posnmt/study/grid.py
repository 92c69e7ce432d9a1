"""A table of a study as people read it, whatever it is written as: cells with our figure and the published one."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class Cell:
    """One figure of ours, one of the paper's, or both.

    Attributes:
        own: ours, as text; a word such as "failed" where there is none and should be.
        spread: of several seeds, as text.
        sign: that it differs from a baseline by more than chance.
        ratio: to the first row's, as text; of ours and of the published one.
        published: the paper's, as text.
        note: a sentence below the table that belongs to it.
        training: whether the system's training saw the lengths: `seen`, `partly unseen`, `unseen`; None: no lengths.
        absent: `own` is a word that says why there is no figure.
        mean, deviation: ours in full precision; None where there is none.
        seeds: of how many.
        low, high: the ends of an interval, or the lowest and the highest seed.
    """

    own: str = ""
    spread: str = ""
    sign: str = ""
    ratio: str = ""
    published: str = ""
    published_ratio: str = ""
    note: str = ""
    training: str | None = None
    absent: bool = False
    mean: float | None = None
    deviation: float | None = None
    seeds: int = 0
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Head:
    """The heading of a column, with one that it shares with its neighbours, and what is said of that one."""

    title: str
    group: str = ""
    about: str = ""


@dataclass(frozen=True)
class Row:
    """A row; `heading` stands above it."""

    label: str
    cells: Sequence[Cell]
    heading: str = ""


@dataclass(frozen=True)
class Grid:
    """Rows under headings; `title` tells it from the other grids of a table; `corner` heads the names of the rows."""

    heads: Sequence[Head]
    rows: Sequence[Row]
    title: str = ""
    corner: str = "System"

    @property
    def groups(self) -> list[tuple[str, str, int]]:
        """The shared headings: text, what is said of it, and how many columns it spans; empty if there are none."""
        groups = []
        for (text, about), heads in groupby(self.heads, lambda head: (head.group, head.about)):
            groups.append((re.sub(r"(?<=\d)-", "\N{EN DASH}", text), about, len(list(heads))))
        return groups if any(head.group for head in self.heads) else []


@dataclass(frozen=True)
class Sheet:
    """One table of the report.

    Attributes:
        name: of its files, and of its place on the page.
        title: "Table 1".
        caption: what it shows.
        grids: one below the other.
        legend: sentences below it.
    """

    name: str
    title: str
    caption: str
    grids: Sequence[Grid]
    legend: Sequence[str] = ()

    @property
    def cells(self) -> Iterator[Cell]:
        """All cells of all grids."""
        return (cell for grid in self.grids for row in grid.rows for cell in row.cells)

    @property
    def notes(self) -> dict[str, str]:
        """The sentences that cells refer to: sentence -> its letter."""
        texts = dict.fromkeys(cell.note for cell in self.cells if cell.note)
        return {text: _letter(number) for number, text in enumerate(texts)}

    @property
    def unseen(self) -> bool:
        """Whether some cell is of lengths that training never saw."""
        return any(cell.training == "unseen" for cell in self.cells)


def _letter(number: int) -> str:
    """a, b … z, aa, ab …"""
    before, last = divmod(number, 26)
    return (_letter(before - 1) if before else "") + chr(ord("a") + last)


def stem(text: str, taken: Sequence[str]) -> str:
    """A name for files that is not taken yet."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}-{number}"
    return name


CSV_HEAD = (
    "block", "row", "group", "column", "shown", "mean", "deviation", "low", "high", "seeds", "sign", "published",
    "in_training", "note",
)  # fmt: skip


def to_csv(grids: Sequence[Grid]) -> str:
    """A row for every cell, in full precision; empty where there is nothing."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(CSV_HEAD)
    for grid in grids:
        writer.writerows(_csv_rows(grid))
    return stream.getvalue()


def _csv_rows(grid: Grid) -> Iterator[list[str | float | int | None]]:
    """The cells of a grid that hold anything."""
    for row in grid.rows:
        for head, cell in zip(grid.heads, row.cells, strict=True):
            if cell != Cell():
                yield [
                    grid.title, row.label, head.group, head.title, cell.own, cell.mean, cell.deviation,
                    cell.low, cell.high, cell.seeds or None, cell.sign, cell.published, cell.training, cell.note,
                ]  # fmt: skip
