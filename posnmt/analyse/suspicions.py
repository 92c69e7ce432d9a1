"""Signs that the texts of an analysis are not what they should be: lines that are shifted, exchanged files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from posnmt.analyse.inputs import Text, once
from posnmt.config.writing import EXAMPLES
from posnmt.data.offsets import sentences, shifts
from posnmt.data.suspicions import MARGIN, likeness

FEW = 20
"""Lines of a text that is too short to tell its language from another one."""


def warnings(texts: Sequence[Text]) -> list[str]:
    """Sentences about references and outputs that are shifted, and outputs that look like the source.

    A reference is compared with the source, and an output with the first reference that is not shifted, or else with
    the source.

    Args:
        texts: the source, the references, then the outputs.
    """
    return once(_warnings(texts))


def _warnings(texts: Sequence[Text]) -> Iterator[tuple[str, int, str]]:
    """Warnings for `once`."""
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
        elif len(text.lines) >= FEW:
            like_source = likeness(*(each.lines[:EXAMPLES] for each in (text, source, reference)))
            if like_source > MARGIN:
                what = (
                    f": looks like the source ({source.file.path}), and not like the reference ({reference.file.path});"
                    " are these two exchanged, or is the output another file?"
                )
                yield f"{text.file.role} ({text.file.path})", 0, what
