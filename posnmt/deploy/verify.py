"""Whether another program computes what posnmt computes: scores of drawn pairs, so that no text is needed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from posnmt.data.subword import SPECIALS
from posnmt.data.text import TextPipeline
from posnmt.errors import UserError
from posnmt.model.base import TranslationModel
from posnmt.translate.subwords import score_subwords

LENGTHS = ((1, 1), (2, 7), (7, 2), (25, 20), (40, 90), (120, 60))
"""Subwords of the source and the target of the pairs; shortened to the limits of a finite table."""

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


def verify(
    model: TranslationModel, text: TextPipeline, longest: Sequence[int | None], scorer: Scorer
) -> dict[str, Any]:
    """Compare the log-probabilities of pairs of random subwords, of different lengths, by both programs in float32.

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
    ours = score_subwords([model], sources, targets, 4096, torch.device("cpu"))
    theirs = scorer.score(sources, targets)
    largest = max(
        abs(one - other) / (len(target) + 1) for one, other, target in zip(ours, theirs, targets, strict=True)
    )
    if not largest <= TOLERANCE:
        raise UserError(
            f"{scorer.name} computes other probabilities than posnmt: a subword's differ by {largest:.1e}",
            None,
            "do not use it for this model, and report the fault with the run's config.yaml",
        )
    return {"pairs": len(ours), "largest_difference": float(f"{largest:.1e}"), "program": scorer.name}
