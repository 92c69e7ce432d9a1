"""Tables of a report, independent of the output format: the page, LaTeX and CSV are made from the same `Sheet`.

A cell has a figure, and what qualifies it; in the report of a study also the published figure.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from posnmt.evaluation.analyse.bins import FEWEST_SENTENCES


@dataclass(frozen=True)
class Cell:
    """Our figure, the published one, or both.

    Attributes:
        own: ours as text, or a word such as "failed" if it is missing.
        spread: over several seeds, or the interval, as text; in a matrix of significance the p-value.
        sign: mark of a significant difference from a baseline.
        ratio, published_ratio: to the figure in the first row, as text; of ours and of the published one.
        published: the published figure as text.
        note: footnote.
        training: whether its lengths occur in training: `seen`, `partly unseen`, `unseen`; None: not by length.
        few: whether it rests on too few sentences to say much.
        best: whether no other system has a better figure, as the figures are shown.
        absent: whether `own` is a word that says why there is no figure.
        mean, deviation: ours in full precision; None if there is none.
        seeds: number of seeds.
        low, high: the ends of an interval, or the lowest and highest seed.
    """

    own: str = ""
    spread: str = ""
    sign: str = ""
    ratio: str = ""
    published: str = ""
    published_ratio: str = ""
    note: str = ""
    training: str | None = None
    few: bool = False
    best: bool = False
    absent: bool = False
    mean: float | None = None
    deviation: float | None = None
    seeds: int = 0
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Head:
    """The heading of a column: its title, that of its group of columns, and a remark about the group or the column."""

    title: str
    group: str = ""
    about: str = ""


@dataclass(frozen=True)
class Row:
    """A row.

    Attributes:
        label: its first cell.
        cells: the others.
        heading: a subheading above it.
        series: the number of its system, for the colour in figures; None: it has no colour.
    """

    label: str
    cells: Sequence[Cell]
    heading: str = ""
    series: int | None = None


@dataclass(frozen=True)
class Grid:
    """Rows under column headings.

    Attributes:
        heads: of the columns.
        rows: below.
        title: distinguishes the grids of a table.
        corner: heads the row labels.
        ordered: whether the rows have an order of their own, such as bins of length, which is not that of their labels.
        matrix: whether rows and columns are the same systems, and cells compare them.
    """

    heads: Sequence[Head]
    rows: Sequence[Row]
    title: str = ""
    corner: str = "System"
    ordered: bool = False
    matrix: bool = False

    @property
    def groups(self) -> list[tuple[str, str, int]]:
        """The headings of groups: text, remark, and number of columns; empty if there are none."""
        groups = []
        for (text, about), heads in groupby(self.heads, lambda head: (head.group, head.about)):
            groups.append((dashed(text), about, len(list(heads))))
        return groups if any(head.group for head in self.heads) else []

    @property
    def plain(self) -> bool:
        """Whether every row and every column has one heading, so that rows can be sorted by any column."""
        return not self.groups and not any(row.heading for row in self.rows)


@dataclass(frozen=True)
class Sheet:
    """One table of the report.

    Attributes:
        name: of its files, and its anchor on the page.
        title: for example "Table 1".
        caption: text.
        grids: from top to bottom.
        legend: sentences below the table.
        about_few: the explanation of figures in parentheses.
    """

    name: str
    title: str
    caption: str
    grids: Sequence[Grid]
    legend: Sequence[str] = ()
    about_few: str = f"fewer than {FEWEST_SENTENCES} sentences"

    @property
    def cells(self) -> Iterator[Cell]:
        """Yield the cells of all grids, row by row."""
        return (cell for grid in self.grids for row in grid.rows for cell in row.cells)

    @property
    def notes(self) -> dict[str, str]:
        """Return footnote -> its letter, in the order in which the cells use them."""
        texts = dict.fromkeys(cell.note for cell in self.cells if cell.note)
        return {text: _letter(number) for number, text in enumerate(texts)}

    @property
    def few(self) -> bool:
        """Whether any figure is of few sentences."""
        return any(cell.few for cell in self.cells)

    @property
    def best(self) -> bool:
        """Whether the best figures are marked."""
        return any(cell.best for cell in self.cells)

    @property
    def unseen(self) -> bool:
        """Whether any cell is of lengths that do not occur in training."""
        return any(cell.training == "unseen" for cell in self.cells)


def with_best(rows: Sequence[Sequence[Cell]], higher: Sequence[bool | None]) -> list[list[Cell]]:
    """Rows of cells, in which the best figure of each column is marked; figures that are shown alike are best together.

    Figures of few sentences are not compared.

    Args:
        rows: of the systems.
        higher: for each column, whether higher figures are better; None: none is.
    """
    marked = [list(row) for row in rows]
    for column, direction in enumerate(higher):
        known = [
            (cell.mean, _figure(cell))
            for row in rows
            for cell in [row[column]]
            if cell.mean is not None and not cell.few and direction is not None
        ]
        best = (max if direction else min)(known, default=(None, ""))[1]
        for row in marked if len(known) > 1 else []:
            row[column] = replace(row[column], best=_figure(row[column]) == best and not row[column].few)
    return marked


def _figure(cell: Cell) -> str:
    """The figure as it is shown, without its deviation."""
    return cell.own.partition(" ")[0]


OPEN = r"\d[\d,]*-"
"""The label of a bin without an upper end."""


def dashed(text: str) -> str:
    """A text with en dashes in ranges of numbers, such as 10-19, but not in names such as t5-base.

    The label of an open bin, 60-, becomes `60 and more`.
    """
    if re.fullmatch(OPEN, text):
        return f"{text[:-1]} and more"
    return re.sub(r"(?<![\w.-])(\d[\d,]*)-(?![^\W\d])", "\\1\N{EN DASH}", text)


def headed(text: str) -> str:
    """The same where there is little space, as above a column: 60- becomes `≥ 60`."""
    return f"≥ {text[:-1]}" if re.fullmatch(OPEN, text) else dashed(text)


def _letter(number: int) -> str:
    """a, b … z, aa, ab …"""
    before, last = divmod(number, 26)
    return (_letter(before - 1) if before else "") + chr(ord("a") + last)


def stem(text: str, taken: Sequence[str]) -> str:
    """A file name from a text, with a number if it is taken."""
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
    """CSV with a row for every cell that is not empty, in full precision."""
    return csv_text([CSV_HEAD, *(row for grid in grids for row in _csv_rows(grid))])


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Write rows as CSV, each ended by a line feed; quote what needs it."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _csv_rows(grid: Grid) -> Iterator[list[str | float | int | None]]:
    """The rows of the cells that are not empty."""
    for row in grid.rows:
        for head, cell in zip(grid.heads, row.cells, strict=True):
            if cell != Cell():
                yield [
                    grid.title, row.label, head.group, head.title, cell.own, cell.mean, cell.deviation,
                    cell.low, cell.high, cell.seeds or None, cell.sign, cell.published, cell.training, cell.note,
                ]  # fmt: skip
