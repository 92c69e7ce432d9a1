"""What the words of source and translations are aligned by: a lexicon."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from posnmt.evaluation.analyse.completeness.lexicon import learn
from posnmt.evaluation.analyse.completeness.split import Line

Strengths = Callable[[int], "np.ndarray"]
"""The number of a line → `[n, T]` how well the words of its source and of its translation translate each other."""


@dataclass(frozen=True)
class Aligned:
    """The alignments of several translations of the same source.

    Attributes:
        by: `lexicon`; a detector is fitted for it.
        lines: aligned lines that the lexicon is learned from.
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
    """Align translations with their source, by a lexicon of source and reference.

    Args:
        sources, reference: N lines.
        translations: texts of N lines.
        further: forms of more aligned lines, for the lexicon.
    """
    known = ((source.forms, line.forms) for source, line in zip(sources, reference, strict=True))
    lexicon = learn(chain(known, further))

    def strengths_of(text: Sequence[Line]) -> Strengths:
        return lambda number: lexicon.table(sources[number].forms, text[number].forms)

    return Aligned("lexicon", lexicon.lines, [strengths_of(text) for text in translations])
