"""What the words of source and translations are aligned by: eflomal, or a lexicon."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from posnmt.analyse.completeness.lexicon import learn
from posnmt.analyse.completeness.split import Line
from posnmt.data.alignment import Links, align, eflomal

if TYPE_CHECKING:
    import numpy as np

Strengths = Callable[[int], "np.ndarray"]
"""The number of a line → `[n, T]` how well the words of its source and of its translation translate each other."""


@dataclass(frozen=True)
class Aligned:
    """The alignments of several translations of the same source.

    Attributes:
        by: `eflomal` or `lexicon`.
        lines: aligned lines that the lexicon is learned from; with eflomal, all lines that are aligned together.
        of_texts: the strengths of each translation.
    """

    by: str
    lines: int
    of_texts: list[Strengths]


def aligned(
    sources: Sequence[Line],
    reference: Sequence[Line],
    translations: Sequence[Sequence[Line]],
    further: Iterable[tuple[Sequence[str], Sequence[str]]] = (),
) -> Aligned:
    """Align translations with their source.

    Args:
        sources, reference: N lines.
        translations: texts of N lines.
        further: forms of more aligned lines, for the lexicon.
    """
    known = [(source.forms, line.forms) for source, line in zip(sources, reference, strict=True)]
    if eflomal() is not None:
        own = [(source.forms, line.forms) for text in translations for source, line in zip(sources, text, strict=True)]
        links = align([*known, *own])[len(known) :]
        starts = range(0, len(own), max(1, len(sources)))
        texts = [_of_links(own[at : at + len(sources)], links[at : at + len(sources)]) for at in starts]
        return Aligned("eflomal", len(known) + len(own), texts)
    lexicon = learn(chain(known, further))
    return Aligned(
        "lexicon", lexicon.lines,
        [
            lambda number, text=text: lexicon.table(sources[number].forms, text[number].forms)  # type: ignore[misc]
            for text in translations
        ],
    )  # fmt: skip


def _of_links(pairs: Sequence[tuple[Sequence[str], Sequence[str]]], links: Sequence[Links]) -> Strengths:
    """Strengths of a text whose words are linked or not."""

    def strengths(number: int) -> np.ndarray:
        import numpy as np

        table = np.zeros(tuple(map(len, pairs[number])))
        for i, j in links[number]:
            table[i, j] = 1.0
        return table

    return strengths
