"""Messages of programs, in catalogues (PO, JSON): texts with line breaks, divided into segments and joined again."""

from __future__ import annotations

import re
from collections.abc import Iterable

from posnmt.deploy.documents.segment import Piece, Segment, Tag

ITEM = re.compile(r"[-*•+#] |\d+[.)] ")
"""How an item of a list begins."""


def divided(text: str, line: int) -> list[str | Segment]:
    """The paragraphs and items of a message as segments, and the white space between them.

    Another line break, a tab and several blanks are tags in a segment, which keep their places.

    Args:
        line: of the document.
    """
    parts: list[str | Segment] = []
    pieces: list[Piece] = []
    last = 0
    for run in re.finditer(r"\s+", text):
        blank, end = run.group(), run.end()
        breaks = blank.count("\n")
        is_list = breaks == 1 and (not blank.endswith("\n") or ITEM.match(text, end))
        if run.start() == 0 or end == len(text) or breaks > 1 or is_list:
            pieces.append(text[last : run.start()])
            parts += [Segment(line, pieces), blank]
            pieces, last = [], end
        elif breaks or blank == "\t" or len(blank) > 1:
            pieces += [text[last : run.start()], Tag("alone", blank, separates=True)]
            last = end
    pieces.append(text[last:])
    parts.append(Segment(line, pieces))
    return [each for each in parts if isinstance(each, str) or each.pieces != [""]]


def joined(parts: Iterable[str | Segment]) -> str:
    """The message of the parts that `divided` made, with the translations that they have."""
    written = []
    for part in parts:
        pieces = [part] if isinstance(part, str) else part.translated or part.pieces
        written += [each if isinstance(each, str) else str(each.content) for each in pieces]
    return "".join(written)
