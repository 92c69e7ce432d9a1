"""The tables of a study as LaTeX with booktabs: below each row, in brackets, the published figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from posnmt.report.latex import Block, escape, table
from posnmt.report.latex import Cell as Heading
from posnmt.study.grid import Cell, Grid, Head, Row, Sheet

# Columns of figures that fit across a page; a table with more continues below.
MOST_COLUMNS = 10
# Signs that not every LaTeX font has.
_SIGNS = {"±": r"$\pm$", "×": r"$\times$"}


def to_latex(sheet: Sheet) -> str:
    """The text of a file with a `table` environment, for `\\input`."""
    blocks = [_block(part, sheet) for grid in sheet.grids for part in _cut(grid)]
    sentences = [f"{sheet.caption.rstrip('.')}."]
    if any(cell.published for cell in sheet.cells):
        sentences.append("In brackets: as published.")
    if sheet.unseen:
        sentences.append("In italics: lengths that the system's training never saw.")
    sentences += sheet.legend
    sentences += [f"({letter}) {text}" for text, letter in sheet.notes.items()]
    return table(blocks, _text(" ".join(sentences)), sheet.name)


def _block(grid: Grid, sheet: Sheet) -> Block:
    """One tabular; its title and its subheadings are rows of their own."""
    heading = []
    if grid.groups:
        groups = [Heading(_text(" ".join(filter(None, [text, f"({about})" if about else ""]))), span)
                  for text, about, span in grid.groups]  # fmt: skip
        heading.append([Heading(""), *groups])
    heading.append([Heading(_text(grid.corner)), *(Heading(_text(head.title)) for head in grid.heads)])
    empty = [""] * len(grid.heads)
    rows = [[rf"\textit{{{_text(grid.title)}}}", *empty]] if grid.title else []
    for row in grid.rows:
        if row.heading:
            rows.append([rf"\textit{{{_text(row.heading)}}}", *empty])
        rows += _lines(row, sheet)
    return Block(heading, rows)


def _lines(row: Row, sheet: Sheet) -> Iterator[list[str]]:
    """The lines of a row: our figures, and below them the published ones, if any."""
    ours = [_own(cell, sheet) for cell in row.cells]
    theirs = [_published(cell) for cell in row.cells]
    label = _text(row.label)
    if any(ours):
        yield [label, *ours]
        label = ""
    if any(theirs) or label:
        yield [label, *theirs]


def _own(cell: Cell, sheet: Sheet) -> str:
    """Our figure with sign, spread, ratio and the letter of its footnote."""
    text = rf"\textit{{{_text(cell.own)}}}" if cell.training == "unseen" else _text(cell.own)
    if cell.sign:
        text += rf"\textsuperscript{{{_text(cell.sign)}}}"
    for small in (cell.spread, cell.ratio and f"({cell.ratio})"):
        if small:
            text += rf" {{\scriptsize {_text(small)}}}"
    return text + (rf"\textsuperscript{{({sheet.notes[cell.note]})}}" if cell.note else "")


def _published(cell: Cell) -> str:
    """The published figure in brackets, with its ratio."""
    text = " ".join(filter(None, [cell.published, cell.published_ratio and f"({cell.published_ratio})"]))
    return rf"{{\scriptsize {_text(f'[{text}]')}}}" if text else ""


def _text(text: str) -> str:
    """Escape a text for LaTeX."""
    for sign, command in _SIGNS.items():
        if sign in text:
            return command.join(map(_text, text.split(sign)))
    return escape(text)


def _cut(grid: Grid) -> Iterator[Grid]:
    """Split a grid into parts that fit a page; columns of one group stay together."""
    widths = [span for _, _, span in grid.groups] or [1] * len(grid.heads)
    start = end = 0
    for width in widths:
        if end > start and end + width - start > MOST_COLUMNS:
            yield _columns(grid, start, end)
            start = end
        end += width
    yield _columns(grid, start, end)


def _columns(grid: Grid, start: int, end: int) -> Grid:
    """Some columns of a grid."""
    heads: Sequence[Head] = grid.heads[start:end]
    return replace(grid, heads=heads, rows=[replace(row, cells=row.cells[start:end]) for row in grid.rows])
