"""The swap of a short against a long preceding sentence: the same target subwords in a short and in a long text.

Every scored sentence stands after one sentence of its document, once after a short one and once after a long one. So
the number of sentences, their boundary and the scored subwords are the same, and the length of the text is not; the
content of the preceding sentence is not the same either.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posnmt.data.exposure import exposure, percentile
from posnmt.evaluation.analyse.designs import AFTER_BOUNDARY
from posnmt.evaluation.analyse.likelihood import Design, EncodedTest
from posnmt.evaluation.analyse.zones import longest_reached

SHORT = 0.9
"""The joined source after a short sentence is at most as long as this share of training sources is."""

MOST = 10
"""Most scored sentences of a document, so that no document dominates."""


def swap_designs(test: EncodedTest, source_counts: NDArray[np.int64]) -> tuple[Design, Design] | None:
    """The sentences of a test after a short and after a long sentence of their documents; None: no sentence has both.

    After a long one, the joined source is longer than training reaches.

    Where a document has several, the nearest is taken, the earlier of two equally near; where more than `MOST`
    sentences of a document can be scored, they are evenly spaced.

    Args:
        test: sentences in the order of their documents.
        source_counts: int64 [L+1], training sources by length.
    """
    short, long = percentile(source_counts, SHORT), longest_reached(exposure(source_counts))
    rows: list[tuple[int, int, int]] = []
    usable = (test.source_lengths > 0) & (test.target_lengths > AFTER_BOUNDARY)
    for document in np.unique(test.documents):
        places = np.flatnonzero((test.documents == document) & usable)
        triples = [_with_neighbours(place, places, test.source_lengths, short, long) for place in places.tolist()]
        rows += _evenly([each for each in triples if each is not None])
    if not rows:
        return None
    sentences, after_short, after_long = np.array(rows, dtype=np.int64).T
    return Design(sentences, after_short), Design(sentences, after_long)


def _with_neighbours(
    place: int, places: NDArray[np.int64], lengths: NDArray[np.int64], short: int, long: int
) -> tuple[int, int, int] | None:
    """A sentence, the nearest that makes a short text with it, and the nearest that makes a long one."""
    others = places[places != place]
    near = others[np.lexsort((others, np.abs(others - place)))]
    joined = lengths[near] + lengths[place]
    after_short, after_long = near[joined <= short], near[joined > long]
    return (place, int(after_short[0]), int(after_long[0])) if len(after_short) and len(after_long) else None


def _evenly(rows: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """At most `MOST` of the rows of a document, evenly spaced."""
    if len(rows) <= MOST:
        return rows
    return [rows[place] for place in np.linspace(0, len(rows) - 1, MOST).round().astype(int)]
