"""Check that another program computes what posnmt computes. Sources and targets are random, so no text is needed."""

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
"""Numbers of source and target subwords of each pair. They are shortened to the limits of a finite table."""

SEARCHED = 8
"""Number of subwords of each output of a search; also shortened."""

TOLERANCE = 1e-3
"""Largest difference of a target's mean log-probability per subword. Rounding in float32 gives about 1e-5."""


class Scorer(Protocol):
    """An exported model, loaded in the program that reads it.

    Attributes:
        name: the program's name and version.
    """

    name: str

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[float]:
        """The natural log-probability of each target given its source, including eos; both are subword ids."""
        ...


@runtime_checkable
class Searcher(Scorer, Protocol):
    """A scorer whose program has its own step-by-step computation for search, which must be checked too."""

    def search(self, sources: Sequence[Sequence[int]], length: int) -> tuple[list[list[int]], list[float]]:
        """Find an output of `length` subwords for each source; return them and the log-probabilities of the search."""
        ...


def verify(
    model: TranslationModel, text: TextPipeline, longest: Sequence[int | None], scorer: Scorer
) -> dict[str, Any]:
    """Compare log-probabilities of random pairs of different lengths, computed by both programs in float32.

    If the other program can search, its outputs are compared as well.

    Args:
        model: the model.
        text: its text pipeline.
        longest: the longest source with its end symbol and the longest target with its begin symbol; None: no limit.
        scorer: the exported model in the other program.

    Returns:
        The number of pairs, the largest difference of a subword's log-probability, and the program.

    Raises:
        UserError: log-probabilities differ by more than rounding.
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
                f"{scorer.name} {what} other probabilities than posnmt: they differ by {difference:.1e} per subword",
                None,
                "try another version of the program, and report the fault with the run's config.yaml",
            )
        largest = max(largest, difference)
    return {"pairs": len(sources), "largest_difference": float(f"{largest:.1e}"), "program": scorer.name}
