"""Whether another program computes what posnmt computes, for drawn sources and targets, so that no text is needed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch

from posnmt.base.errors import UserError
from posnmt.data.subword import SPECIALS
from posnmt.data.text import TextPipeline
from posnmt.model.base import TranslationModel
from posnmt.translate.subwords import score_subwords

LENGTHS = ((1, 1), (2, 7), (7, 2), (25, 20), (40, 90), (120, 60))
"""Subwords of the source and the target of the pairs; shortened to the limits of a finite table."""

SEARCHED = 8
"""Subwords of each output of a search; shortened as well."""

TOLERANCE = 1e-3
"""The largest mean difference of the log-probabilities of a target's subwords; rounding in float32 gives some 1e-5."""


class Scorer(Protocol):
    """A written model in the program that is to read it.

    Attributes:
        name: of the program, with its version.
    """

    name: str

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[float]:
        """Log-probability (natural, eos included) of each target given its source, both as subwords."""
        ...


@runtime_checkable
class Searcher(Scorer, Protocol):
    """A scorer whose program steps through the model by a way of its own when it searches."""

    def search(self, sources: Sequence[Sequence[int]], length: int) -> tuple[list[list[int]], list[float]]:
        """An output of `length` subwords for each source, and its log-probability by the steps of the search."""
        ...


def verify(
    model: TranslationModel, text: TextPipeline, longest: Sequence[int | None], scorer: Scorer
) -> dict[str, Any]:
    """Compare the log-probabilities of pairs of random subwords, of different lengths, by both programs in float32.

    If the other program searches, also those of what it finds for the sources.

    Args:
        longest: the longest source with its end symbol and the longest target with its begin symbol; None: no limit.

    Returns:
        The number of pairs, and the largest difference of a subword's log-probability.

    Raises:
        UserError: they differ by more than rounding.
    """
    draw = random.Random(1)
    sources, targets = (
        [
            [
                draw.randrange(SPECIALS, size)
                for _ in range(lengths[side] if limit is None else min(lengths[side], limit - 1))
            ]
            for lengths in LENGTHS
        ]
        for side, (size, limit) in enumerate(zip((text.source.size, text.target.size), longest, strict=True))
    )
    scored = [("computes", targets, scorer.score(sources, targets))]
    if isinstance(scorer, Searcher):
        length = SEARCHED if longest[1] is None else min(SEARCHED, longest[1] - 1)
        scored.append(("searches with", *scorer.search(sources, length)))
    largest = 0.0
    for what, outputs, theirs in scored:
        ours = score_subwords([model], sources, outputs, 4096, torch.device("cpu"))
        difference = max(
            abs(one - other) / (len(output) + 1) for one, other, output in zip(ours, theirs, outputs, strict=True)
        )
        if not difference <= TOLERANCE:
            raise UserError(
                f"{scorer.name} {what} other probabilities than posnmt: a subword's differ by {difference:.1e}",
                None,
                "use another version of it for this model, and report the fault with the run's config.yaml",
            )
        largest = max(largest, difference)
    return {"pairs": len(sources), "largest_difference": float(f"{largest:.1e}"), "program": scorer.name}
