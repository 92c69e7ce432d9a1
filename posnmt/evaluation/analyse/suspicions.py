"""Signs that something is wrong with the texts of an analysis: shifted lines, exchanged files, copied lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from posnmt.config.writing import EXAMPLES
from posnmt.data.offsets import sentences, shifts, unrelated
from posnmt.data.suspicions import COPIES, MARGIN, likeness
from posnmt.evaluation.analyse.inputs import Text, once

FEW = 20
"""The least number of lines of a text to tell its language from another one, and to count copied lines."""


def warnings(texts: Sequence[Text]) -> list[str]:
    """Sentences about references and outputs that are shifted, and outputs that are in another order or copied.

    A reference is compared with the source. An output is compared with the first reference that is not shifted; if all
    are shifted, with the source.

    Args:
        texts: the source, the references, then the outputs.
    """
    return once(_warnings(texts))


def _warnings(texts: Sequence[Text]) -> Iterator[tuple[str, int, str]]:
    """Warnings for `once`: the role of a file, the number of lines concerned (0: all), and the end of the sentence."""
    source, reference, *_ = texts
    sound: list[Text] = []
    for text in texts[1:]:
        compared = source if text.system is None or not sound else sound[0]
        shifted = shifts(compared.lines, text.lines)
        kind = "reference" if text.system is None else "output"
        for sentence in sentences(shifted, kind, "source" if compared is source else "reference"):
            yield text.file.role, 0, f": {sentence}."
        if text.system is None:
            sound += [] if shifted else [text]
            continue
        if sound and not shifted and unrelated(sound[0].lines, text.lines):
            yield (
                text.file.role,
                0,
                (
                    ": its lines fit those of the reference no better than other lines do;"
                    " is it in another order, or a translation of another text?"
                ),
            )
        if len(text.lines) < FEW:
            continue
        if likeness(*(each.lines[:EXAMPLES] for each in (text, source, reference))) > MARGIN:
            what = (
                f": looks like the source ({source.file.path}), and not like the reference ({reference.file.path});"
                " are these two exchanged, or is the output another file?"
            )
            yield f"{text.file.role} ({text.file.path})", 0, what
        elif (copies := _copies(text, texts)) > COPIES * len(text.lines):
            yield text.file.role, copies, f" of {len(text.lines)} lines are copies of the source line."


def _copies(output: Text, texts: Sequence[Text]) -> int:
    """How many lines of an output, with letters, are those of the source and not of a reference."""
    source, *references = ([line.strip() for line in text.lines] for text in texts if text.system is None)
    return sum(
        line == original and any(map(str.isalpha, line)) and line not in translations
        for line, original, *translations in zip(map(str.strip, output.lines), source, *references, strict=True)
    )
