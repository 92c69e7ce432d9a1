"""Messages of programs, as in PO and JSON files: texts with line breaks, which are divided into segments."""

from __future__ import annotations

import re
from collections.abc import Iterable

from posnmt.deploy.documents.segment import Piece, Segment, Tag

ITEM = re.compile(r"[-*•+#] |\d+[.)] ")
"""The beginning of an item of a list."""


def divided(text: str, line: int) -> list[str | Segment]:
    """The paragraphs and list items of a message as segments, and the white space between them.

    Other line breaks, tabs and runs of several blanks are tags in a segment, which keep their places.

    Args:
        text: the message.
        line: its line in the document.
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
    """The message with the translations of the parts from `divided`. Parts without a translation stay as they are."""
    written = []
    for part in parts:
        pieces = [part] if isinstance(part, str) else part.translated or part.pieces
        written += [each if isinstance(each, str) else str(each.content) for each in pieces]
    return "".join(written)
