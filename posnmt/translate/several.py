"""Lines of several sentences: how many a training text has, and whether a model has learned to translate them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from posnmt.config.schema import Decode
from posnmt.translate.sentences import sentences

if TYPE_CHECKING:
    from posnmt.data.batch import Pairs
    from posnmt.data.text import SideText, TextPipeline

LINES = 10_000
"""Training pairs that are looked at, evenly spaced."""

LEARNED = 0.1
"""Least share of training lines with several sentences from which a model is said to have learned them.

Of the texts that were counted, those of single sentences have 0 to 0.06 of such lines, and those of paragraphs 0.37 to
0.40 (docs/long.md).
"""


def share_of_several(pairs: Pairs, text: TextPipeline) -> dict[str, float]:
    """The share of training lines with several sentences by side, source and target, of up to `LINES` evenly spaced.

    Args:
        pairs: what is trained on, joined pairs included.
        text: their text pipeline.
    """
    total = len(pairs.source_lengths)
    numbers = np.linspace(0, total - 1, min(LINES, total)).round().astype(int)
    chosen = [pairs.pair(int(number)) for number in numbers]
    sides = {"source": (text.source, 0), "target": (text.target, 1)}
    return {name: _share([pair[place].tolist() for pair in chosen], side) for name, (side, place) in sides.items()}


def _share(rows: Sequence[Sequence[int]], side: SideText) -> float:
    """The share of some lines, given by their subwords, that have several sentences."""
    texts = side.decode(rows)
    return round(sum(len(sentences(text, side.words.language)) > 1 for text in texts) / max(1, len(texts)), 6)


def has_learned(share: float | None) -> bool:
    """Whether a model has learned lines of several sentences; `share`: of its training lines, None: not recorded."""
    return share is not None and share >= LEARNED


def as_trained(decode: Decode, share: float | None) -> Decode:
    """Settings of search without `as-trained`, which stands for what suits the training.

    Lines that are translated together (`decode.join`) stay whole, since one in parts would be alone; and nothing is
    mended where the user wants no line in parts.

    Args:
        share: of the training sources that have several sentences; None: not recorded.
    """
    learned = has_learned(share)
    suits = {
        "split": "huge" if learned or decode.join > 1 else "sentences",
        "complete": "warn" if learned or decode.split == "off" else "mend",
    }
    chosen = {name: value for name, value in suits.items() if getattr(decode, name) == "as-trained"}
    return decode.model_copy(update=chosen)


def why_in_sentences(share: float | None) -> str:
    """What is done with lines of several sentences where a model has not learned them, and why, after a subject."""
    what = "have several sentences and were translated a sentence at a time"
    if share is None:
        return f"{what}, as it is not recorded how many of the training lines had several"
    return f"{what}, as {100 * share:.2g} % of the training lines had several, which is less than {100 * LEARNED:g} %"
