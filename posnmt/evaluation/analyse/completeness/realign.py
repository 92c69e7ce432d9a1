"""Paragraphs as sentences: what a translation has for each sentence of its source line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from posnmt.evaluation.analyse.completeness.evidence import parts
from posnmt.evaluation.analyse.completeness.links import aligned
from posnmt.evaluation.analyse.completeness.measure import UNKNOWN
from posnmt.evaluation.analyse.completeness.split import Line, split


@dataclass(frozen=True)
class Realigned:
    """Texts with a line for each sentence of the source.

    Attributes:
        texts: the source, then its translations; joined, the lines of a paragraph are the paragraph.
        places: for each line the number of its sentence in its paragraph, from 0.
    """

    texts: list[list[str]]
    places: list[int]


def realigned(
    source: Sequence[str], translations: Sequence[Sequence[str]], languages: tuple[str | None, str | None]
) -> Realigned:
    """Cut translations of paragraphs where the sentences of the source end.

    Args:
        source: N paragraphs; one without words stays a line.
        translations: texts of N lines, the reference first: the lexicon is learned from it.
        languages: codes of the source's and the target's language; None: unknown.
    """
    here, there = (code or UNKNOWN for code in languages)
    sources = [split(line, here) for line in source]
    texts = [[split(line, there) for line in lines] for lines in translations]
    links = aligned(sources, texts[0], texts)
    expansion = sum(len(line.forms) for line in texts[0]) / max(1, sum(len(line.forms) for line in sources))
    cut: list[list[str]] = [[] for _ in translations]
    for number, line in enumerate(sources):
        for new, whole, text, strengths in zip(cut, translations, texts, links.of_texts, strict=True):
            if line.sentences:
                own = parts(line, text[number], strengths(number), expansion, INSIDE_COST)
                new += _pieces(whole[number], text[number], own)
            else:
                new.append(whole[number])
    first = [each for line, text in zip(sources, source, strict=True) for each in line.sentences or [text]]
    places = [place for line in sources for place in range(max(1, len(line.sentences)))]
    return Realigned([first, *cut], places)


def _pieces(text: str, line: Line, own: Sequence[slice]) -> list[str]:
    """A text cut before the first word of each part but the first; signs before a word, such as `„`, go with it."""
    begins = [0]
    for part in own[1:]:
        begin = line.starts[part.start] if part.start < len(line.starts) else len(text)
        while begin < len(text) and begin > begins[-1] and text[begin - 1] in OPENING:
            begin -= 1
        begins.append(max(begins[-1], begin))
    return [text[start:end] for start, end in pairwise([*begins, len(text)])]


INSIDE_COST = 5.0
"""Of a cut inside a sentence of a translation: here it leaves half a sentence in each line, so it is rarely right."""
OPENING = "([{„“‚‘«「『（《¿¡"
"""Signs that belong to the word behind them."""
