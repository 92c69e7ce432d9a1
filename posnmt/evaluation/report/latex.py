"""Text and tables as LaTeX: any text is escaped, and files are plain ASCII for any engine."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

# `[` and `*` would be parsed as options of a preceding `\\`.
_SPECIAL = {
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\char34{}", "`": r"\textasciigrave{}",
    "[": "{[}", "]": "{]}", "*": "{*}", "-": "{-}", "'": "{'}",
    "\N{FIRST STRONG ISOLATE}": "", "\N{POP DIRECTIONAL ISOLATE}": "",
    "\N{EN DASH}": "--", "\N{EM DASH}": "---", "\N{MINUS SIGN}": "$-$", "\N{NO-BREAK SPACE}": "~",
    "ß": r"\ss{}", "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}", "Œ": r"\OE{}", "ø": r"\o{}", "Ø": r"\O{}",
    "ł": r"\l{}", "Ł": r"\L{}", "ı": r"\i{}",
}  # fmt: skip
# Diacritics that every font encoding of LaTeX has.
_ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0323": "d", "\u0327": "c",
}  # fmt: skip
_OTHER = r"\posnmtletter"
# XeLaTeX and LuaLaTeX print other letters in the current font; pdfLaTeX lacks a font, and prints their code points.
_DEFINE_OTHER = rf"\providecommand{{{_OTHER}}}[2]{{\ifdefined\Umathcode\char#2\relax\else U+#1\fi\allowbreak}}"
# Letters of small type that fit in a column of a page; wider tables span both columns.
COLUMN = 46
# The same of a page of two columns; wider tables continue in a second tabular below.
PAGE = 92
# In letters: the space between two columns of a table, and a letter of the type of intervals.
GAP, SCRIPT = 1.7, 0.8
# Names with more characters of LaTeX may be broken into lines.
LONGEST = 45
NEEDS = r"% needs \usepackage{booktabs}"


def escape(text: str) -> str:
    """Escape a text for LaTeX: special characters, accents, and letters of any script."""
    return "".join(map(_letter, unicodedata.normalize("NFC", text)))


def _letter(letter: str) -> str:
    """A letter in LaTeX: itself, escaped, an accent on a letter, or a macro with its code point."""
    if letter in _SPECIAL:
        return _SPECIAL[letter]
    if " " <= letter <= "~":
        return letter
    base, *marks = list(unicodedata.normalize("NFD", letter))
    if base.isascii() and base.isalpha() and len(marks) == 1 and marks[0] in _ACCENTS:
        return rf"\{_ACCENTS[marks[0]]}{{{base}}}"
    return rf"{_OTHER}{{{ord(letter):04X}}}{{{ord(letter)}}}"


@dataclass(frozen=True)
class Cell:
    """A cell that spans columns; `text` is LaTeX."""

    text: str
    span: int = 1


@dataclass(frozen=True)
class Block:
    """One tabular: heading rows, in which spanning cells are underlined, and the body; all texts are LaTeX.

    The first column is text: left-aligned, and wrapped if it is long. Other columns are figures, aligned by `align`.
    """

    heading: Sequence[Sequence[Cell]]
    rows: Sequence[Sequence[str]]
    align: str = "r"

    @property
    def columns(self) -> int:
        """Return the number of columns, which the cells of the first heading row span."""
        return sum(cell.span for cell in self.heading[0])

    @property
    def wrapped(self) -> bool:
        """Whether the texts of the first column are broken into lines."""
        return max(len(row[0]) for row in self.rows) > LONGEST

    def width(self) -> float:
        """An estimate of the width, in letters; spanning cells have the width of what they span."""
        heading = [[cell.text for cell in row] for row in self.heading if all(cell.span == 1 for cell in row)]
        widths = [max(map(_width, column)) for column in zip(*heading, *self.rows, strict=True)]
        if self.wrapped:
            widths[0] = 0.4 * COLUMN
        return sum(widths) + GAP * (self.columns - 1)

    def lines(self) -> list[str]:
        """Return the lines of the `tabular` environment, with the rules of booktabs."""
        first = r"p{0.4\linewidth}" if self.wrapped else "l"
        return [
            rf"\begin{{tabular}}{{@{{}}{first}{self.align * (self.columns - 1)}@{{}}}}",
            r"\toprule",
            *self._heading(),
            r"\midrule",
            *(f"{' & '.join(row)} \\\\" for row in self.rows),
            r"\bottomrule",
            r"\end{tabular}",
        ]

    def _heading(self) -> list[str]:
        """The rows of the heading, and lines under the spanning cells of the last row that has them."""
        rules, column = [], 1
        for cell in self.heading[0]:
            if cell.span > 1:
                rules.append(rf"\cmidrule(lr){{{column}-{column + cell.span - 1}}}")
            column += cell.span
        rows = [f"{' & '.join(map(_spanning, row))} \\\\" for row in self.heading]
        if rules:
            spanning = sum(any(cell.span > 1 for cell in row) for row in self.heading)
            rows.insert(spanning, "".join(rules))
        return rows


def _width(text: str) -> float:
    """An estimate of the width of a cell, in letters."""
    printed = re.sub(r"\\(?:scriptsize|textit|textbf|textsuperscript|rlap)\b|[{}$]", "", text)
    return len(re.sub(r"\\[a-zA-Z]+|\\.", "x", printed)) * (SCRIPT if text.startswith(r"{\scriptsize") else 1)


def _spanning(cell: Cell) -> str:
    return cell.text if cell.span == 1 else rf"\multicolumn{{{cell.span}}}{{c}}{{{cell.text}}}"


def table(blocks: Sequence[Block], caption: str, label: str) -> str:
    """The text of a file with a `table` environment, or `table*` if a tabular is wider than a column.

    Args:
        blocks: tabulars, from top to bottom.
        caption: in LaTeX.
        label: without the prefix `tab:`.
    """
    environment = "table*" if max(block.width() for block in blocks) > COLUMN else "table"
    inner = r"\\[\medskipamount]".join("\n".join(block.lines()) + "\n" for block in blocks).splitlines()
    body = [
        rf"\begin{{{environment}}}[t]",
        r"\centering\small",
        r"\setlength{\tabcolsep}{4pt}",
        *inner,
        rf"\caption{{{caption}}}",
        rf"\label{{tab:{label}}}",
        rf"\end{{{environment}}}",
    ]
    return with_letters("\n".join([NEEDS, *body]) + "\n")


def with_letters(text: str) -> str:
    """A file with the definition of the command for letters of any script, below its first line, if it has any."""
    first, below, rest = text.partition("\n")
    return f"{first}\n{_DEFINE_OTHER}\n{rest}" if _OTHER in text else f"{first}{below}{rest}"
