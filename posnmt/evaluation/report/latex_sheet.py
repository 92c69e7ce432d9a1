"""Tables as LaTeX with booktabs: below each row its intervals, and in brackets the published figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from posnmt.evaluation.report.grid import Cell, Grid, Row, Sheet, headed
from posnmt.evaluation.report.latex import PAGE, Block, escape, table
from posnmt.evaluation.report.latex import Cell as Heading

# Maximum number of columns of figures; a table with more continues in a second tabular below.
MOST_COLUMNS = 10
# The same for tables whose cells are marks, which are narrow.
MOST_MARKS = 20
# A matrix has the systems' names as column headings if they are at most this many and this long; otherwise numbers.
MOST_NAMED, LONGEST_NAMED = 6, 12
MARKS = {">>": r"$\gg$", "<<": r"$\ll$", ">": "$>$", "<": "$<$", "~": r"$\sim$"}
# Signs in running text that not every LaTeX font has.
_SIGNS = {"±": r"$\pm$", "×": r"$\times$", "≤": r"$\leq$", "≥": r"$\geq$", ">>": r"$\gg$", "<<": r"$\ll$"}


def to_latex(sheet: Sheet) -> str:
    """The text of a file with a `table` environment, for `\\input`."""
    blocks = [block for grid in sheet.grids for block in _blocks(_numbered(grid), sheet)]
    sentences = [f"{sheet.caption.rstrip('.')}."]
    if sheet.best:
        sentences.append("In bold: the best of each column.")
    if any(cell.published for cell in sheet.cells):
        sentences.append("In brackets: as published.")
    if sheet.unseen:
        sentences.append("In italics: lengths that do not occur in the system's training.")
    if sheet.few:
        sentences.append(f"In parentheses: {sheet.about_few}.")
    sentences += sheet.legend
    sentences += [f"({letter}) {text}" for text, letter in sheet.notes.items()]
    return table(blocks, _text(" ".join(sentences)), sheet.name)


def _blocks(grid: Grid, sheet: Sheet) -> list[Block]:
    """The tabulars of a grid, with so few columns that each fits a page."""
    most = MOST_MARKS if grid.matrix else MOST_COLUMNS
    while True:
        blocks = [_block(part, sheet) for part in _cut(grid, most)]
        if most == 1 or max(block.width() for block in blocks) <= PAGE:
            return blocks
        most -= 1


def _block(grid: Grid, sheet: Sheet) -> Block:
    """One tabular; its title and its subheadings are rows of their own."""
    heading = []
    if grid.groups:
        heading.append([Heading(""), *(Heading(_text(text), span) for text, _, span in grid.groups)])
        if any(about for _, about, _ in grid.groups):
            heading.append([Heading(""), *(Heading(_text(about), span) for _, about, span in grid.groups)])
    heading.append([Heading(_text(grid.corner)), *(Heading(_text(headed(head.title))) for head in grid.heads)])
    if not grid.groups and any(head.about for head in grid.heads):
        abouts = [head.about for head in grid.heads]
        counted = all(about.startswith("n = ") for about in abouts)  # the sign stands once, so that columns are narrow
        words = [about.removeprefix("n = ") for about in abouts] if counted else abouts
        heading.append([Heading("n" if counted else ""), *(Heading(_text(text)) for text in words)])
    empty = [""] * len(grid.heads)
    rows = [[rf"\textit{{{_text(grid.title)}}}", *empty]] if grid.title else []
    for row in grid.rows:
        if row.heading:
            rows.append([rf"\textit{{{_text(row.heading)}}}", *empty])
        rows += _lines(row, grid, sheet)
    return Block(heading, rows, "c" if grid.matrix else "r")


def _lines(row: Row, grid: Grid, sheet: Sheet) -> Iterator[list[str]]:
    """The lines of a row: our figures, below them their intervals, and below them the published ones, if any."""
    lines = [[_own(cell, grid, sheet) for cell in row.cells]]
    lines.append([_small(cell.spread if cell.low is not None else "") for cell in row.cells])
    lines.append([_published(cell) for cell in row.cells])
    label = _text(row.label)
    for line in filter(any, lines):
        yield [label, *line]
        label = ""
    if label:
        yield [label, *lines[0]]


def _own(cell: Cell, grid: Grid, sheet: Sheet) -> str:
    """Our figure with sign, spread, ratio and the letter of its footnote."""
    own = MARKS.get(cell.own) or _text(cell.own)
    text = rf"\textbf{{{own}}}" if cell.best else own
    text = rf"\textit{{{text}}}" if cell.training == "unseen" else text
    text = f"({text})" if cell.few else text
    smalls = [cell.spread if cell.low is None and not grid.matrix else "", cell.ratio and f"({cell.ratio})"]
    beside = "".join(f" {_small(small)}" for small in smalls if small)
    beside += rf"\textsuperscript{{({sheet.notes[cell.note]})}}" if cell.note else ""
    if cell.sign:
        sign = rf"\textsuperscript{{{MARKS.get(cell.sign) or _text(cell.sign)}}}"
        # Right-aligned figures stay aligned.
        text += sign if beside else rf"\rlap{{{sign}}}"
    return text + beside


def _small(text: str) -> str:
    return rf"{{\scriptsize {_text(text)}}}" if text else ""


def _published(cell: Cell) -> str:
    """The published figure in brackets, with its ratio."""
    text = " ".join(filter(None, [cell.published, cell.published_ratio and f"({cell.published_ratio})"]))
    return _small(f"[{text}]" if text else "")


def _text(text: str) -> str:
    for sign, command in _SIGNS.items():
        if sign in text:
            return command.join(map(_text, text.split(sign)))
    return escape(text)


def _numbered(grid: Grid) -> Grid:
    """A matrix with numbers as column headings where names have no space."""
    names = [head.title for head in grid.heads]
    if not grid.matrix or (len(names) <= MOST_NAMED and max(map(len, names)) <= LONGEST_NAMED):
        return grid
    heads = [replace(head, title=str(number)) for number, head in enumerate(grid.heads, 1)]
    rows = [replace(row, label=f"{number} {row.label}") for number, row in enumerate(grid.rows, 1)]
    return replace(grid, heads=heads, rows=rows)


def _cut(grid: Grid, most: int) -> Iterator[Grid]:
    """Split a grid into parts of similar width with at most so many columns; columns of one group stay together."""
    widths = [span for _, _, span in grid.groups] or [1] * len(grid.heads)
    fair = -(-len(grid.heads) // -(-len(grid.heads) // most))
    fair += -fair % max(widths)
    start = end = 0
    for width in widths:
        if end > start and end + width - start > fair:
            yield _columns(grid, start, end)
            start = end
        end += width
    yield _columns(grid, start, end)


def _columns(grid: Grid, start: int, end: int) -> Grid:
    return replace(
        grid, heads=grid.heads[start:end], rows=[replace(row, cells=row.cells[start:end]) for row in grid.rows]
    )
