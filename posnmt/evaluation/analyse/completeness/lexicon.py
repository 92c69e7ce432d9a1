"""A lexicon of translations, learned from aligned lines: IBM Model 1 in both directions, trained to agree.

Model 1 (Brown et al. 1993) explains each word of a line by a word of the other line. Both directions are trained
together, and a link counts only as much as both directions expect it (Liang, Taskar and Klein 2006), so that a word
that nothing explains well has hardly any links. Words at similar places of a line count more (as in Dyer, Chahuneau and
Smith 2013), which matters for lines of several sentences. Equal forms, such as names and numbers, translate each other.

Legend: n source words of a line, m target words, C different pairs of words that stand in some line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from posnmt.base.progress import Work
from posnmt.evaluation.analyse.completeness.words import Line

ITERATIONS = 8
DIAGONAL = 4.0
"""Words at different places of a line count less, by the factor exp(-DIAGONAL |i/n - j/m|)."""
TINY = 1e-12
"""The least divisor, for sums that are 0."""
LEAST = 0.1
"""Weaker translations are left out."""
MOST_CELLS = 30_000_000
"""The maximum number of pairs of words in the lines that are read; each needs 24 bytes."""


@dataclass(frozen=True)
class Lexicon:
    """Translations of words.

    Attributes:
        strengths: source form → target form → strength, from `LEAST` to 1.
        lines: how many lines it is learned from.
    """

    strengths: Mapping[str, Mapping[str, float]]
    lines: int

    def table(self, source: Sequence[str], target: Sequence[str]) -> np.ndarray:
        """`[n, m]` the strength of every pair of words of two texts, 0 where they do not translate each other."""
        table = np.zeros((len(source), len(target)))
        for row, form in enumerate(source):
            known = self.strengths.get(form, {})
            for column, other in enumerate(target):
                if form == other:
                    table[row, column] = 1.0
                elif other in known:
                    table[row, column] = known[other]
        return table


Strengths = Callable[[int], np.ndarray]
"""The number of a line → `[n, T]` how well the words of its source and of its translation translate each other."""


def aligned(
    sources: Sequence[Line],
    reference: Sequence[Line],
    translations: Sequence[Sequence[Line]],
    further: Iterable[tuple[Sequence[str], Sequence[str]]] = (),
) -> tuple[int, list[Strengths]]:
    """Align translations with their source, by a lexicon that is learned from source and reference.

    Args:
        sources, reference: N lines.
        translations: texts of N lines.
        further: forms of more aligned lines to learn from.

    Returns:
        The number of lines that the lexicon is learned from, and the strengths of each translation.
    """
    known = ((source.forms, line.forms) for source, line in zip(sources, reference, strict=True))
    lexicon = learn(chain(known, further))

    def strengths_of(text: Sequence[Line]) -> Strengths:
        return lambda number: lexicon.table(sources[number].forms, text[number].forms)

    return lexicon.lines, [strengths_of(text) for text in translations]


def learn(pairs: Iterable[tuple[Sequence[str], Sequence[str]]]) -> Lexicon:
    """Learn a lexicon from the forms of aligned lines.

    The strength of a pair is the expected number of its links, divided by the geometric mean of how often its two words
    stand in the lines.
    """
    sources: dict[str, int] = {}
    targets: dict[str, int] = {}
    rows, columns, priors = [], [], []
    left, lines = MOST_CELLS, 0
    for source, target in pairs:
        n, m = len(source), len(target)
        left -= n * m
        if left < 0:
            break
        lines += 1
        if not n * m:
            continue
        i = np.array([sources.setdefault(form, len(sources)) for form in source])
        j = np.array([targets.setdefault(form, len(targets)) for form in target])
        places = np.abs((np.arange(n)[:, None] + 0.5) / n - (np.arange(m) + 0.5) / m)
        rows.append(i)
        columns.append(j)
        priors.append(np.exp(-DIAGONAL * places).astype(np.float32))
    if not rows:
        return Lexicon({}, lines)
    links, first, second = _expected_links(rows, columns, priors, len(sources), len(targets))
    strength = links / np.sqrt(np.bincount(np.concatenate(rows))[first] * np.bincount(np.concatenate(columns))[second])
    names, others = list(sources), list(targets)
    strengths: dict[str, dict[str, float]] = {}
    for each in np.flatnonzero(strength >= LEAST):
        strengths.setdefault(names[first[each]], {})[others[second[each]]] = min(1.0, float(strength[each]))
    return Lexicon(strengths, lines)


def _expected_links(
    rows: list[np.ndarray], columns: list[np.ndarray], priors: list[np.ndarray], sources: int, targets: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The expected links of all pairs of words that stand in some line, `[C]`, and the words of each, two times `[C]`.

    Args:
        rows, columns: for each line the numbers of its source words `[n]` and of its target words `[m]`.
        priors: for each line `[n, m]` the weight of a pair by its places.
        sources, targets: number of different words.
    """
    codes = np.concatenate([(i[:, None] * targets + j).ravel() for i, j in zip(rows, columns, strict=True)])
    kinds, cells = np.unique(codes, return_inverse=True)
    cells = cells.astype(np.int32)
    first, second = kinds // targets, kinds % targets
    links: np.ndarray = np.ones(len(kinds))
    with Work("learning the lexicon", "lines", ITERATIONS * len(priors)) as work:
        for _ in range(ITERATIONS):
            forward = links / np.maximum(np.bincount(first, links, minlength=sources)[first], TINY)
            backward = links / np.maximum(np.bincount(second, links, minlength=targets)[second], TINY)
            at, shares = 0, []
            for prior in priors:
                own = cells[at : at + prior.size]
                at += prior.size
                there, back = prior * forward[own].reshape(prior.shape), prior * backward[own].reshape(prior.shape)
                share = there / np.maximum(there.sum(0), TINY) * (back / np.maximum(back.sum(1, keepdims=True), TINY))
                shares.append(share.ravel().astype(np.float32))
                work.add(1)
            links = np.bincount(cells, np.concatenate(shares), minlength=len(kinds))
    return links, first, second
