"""Lines of several sentences: how many a training text has, and how many a model has learned to translate together.

Legend: a list of shares has, for k = 1, 2, …, the share of training lines with at least k sentences.
"""

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

LEARNED = 0.25
"""Least share of training lines with at least k sentences from which a model is said to have learned k of them.

A model with two or more in 0.17 of its lines does better with each sentence alone (benchmarks/notes/length.md). Of the
texts that were counted, those of single sentences have 0 to 0.06 of such lines, and those of paragraphs 0.37 to 0.40.
"""

MOST = 50
"""Sentences of a line that are counted, at most."""


def sentences_per_line(pairs: Pairs, text: TextPipeline) -> dict[str, list[float]]:
    """The shares of training lines by side, source and target, of up to `LINES` evenly spaced; those of 0 are left out.

    Args:
        pairs: what is trained on, joined pairs included.
        text: their text pipeline.
    """
    total = len(pairs.source_lengths)
    numbers = np.linspace(0, total - 1, min(LINES, total)).round().astype(int)
    chosen = [pairs.pair(int(number)) for number in numbers]
    sides = {"source": (text.source, 0), "target": (text.target, 1)}
    return {name: _shares([pair[place].tolist() for pair in chosen], side) for name, (side, place) in sides.items()}


def _shares(rows: Sequence[Sequence[int]], side: SideText) -> list[float]:
    """The shares of some lines, given by their subwords."""
    counts = np.array([len(sentences(text, side.words.language)) for text in side.decode(rows)])
    return [round(float((counts >= k).mean()), 6) for k in range(1, min(MOST, counts.max(initial=0)) + 1)]


def most_learned(shares: Sequence[float] | None) -> int:
    """The most sentences of a line that a model has learned to translate together; `shares` None: not recorded."""
    return max((k for k, share in enumerate(shares or (), start=1) if share >= LEARNED), default=1)


def most_together(decode: Decode, shares: Sequence[float] | None) -> int:
    """The most sentences of a line that are translated together, where its sentences are parts.

    Args:
        decode: settings of search, as they are before `as_trained`.
        shares: of the training sources; None: not recorded.
    """
    return most_learned(shares) if decode.split == "as-trained" else 1


def as_trained(decode: Decode) -> Decode:
    """Settings of search in which `as-trained` is replaced by what suits the training.

    Lines that are translated together (`decode.join`) stay whole, since a line in parts would be translated alone. If
    the user asks for whole lines, nothing is mended. `most_together` says how many sentences are a part.
    """
    suits = {
        "split": "huge" if decode.join > 1 else "sentences",
        "complete": "warn" if decode.split == "off" else "mend",
    }
    chosen = {name: value for name, value in suits.items() if getattr(decode, name) == "as-trained"}
    return decode.model_copy(update=chosen)


def why_in_parts(shares: Sequence[float] | None) -> str:
    """A predicate about lines of more sentences than a model has learned together: what was done with them, and why."""
    most = most_learned(shares)
    many, parts = (
        ("several", "a sentence at a time") if most == 1 else (f"more than {most}", f"at most {most} at a time")
    )
    what = f"contain {many} sentences and were translated {parts}"
    if shares is None:
        return f"{what}, as it is not recorded how many of the training lines had several"
    share = 100 * dict(enumerate(shares)).get(most, 0)
    had = "several" if most == 1 else "more"
    return f"{what}, as {share:.2g} % of the training lines had {had}, which is less than {100 * LEARNED:g} %"
