"""Whether another program computes what posnmt computes: scores of drawn pairs, so that no text is needed."""

from __future__ import annotations

import random
from typing import Any

import torch

from posnmt.data.subword import SPECIALS
from posnmt.errors import UserError
from posnmt.model.base import TranslationModel
from posnmt.translate.engines.ctranslate2 import CTranslate2Engine
from posnmt.translate.translator import score_subwords

LENGTHS = ((1, 1), (2, 7), (7, 2), (25, 20), (40, 90), (120, 60))
"""Subwords of the source and the target of the pairs; shortened to the limits of a finite table."""

TOLERANCE = 1e-3
"""The largest mean difference of the log-probabilities of a target's subwords; rounding in float32 gives some 1e-5."""


def verify(model: TranslationModel, engine: CTranslate2Engine) -> dict[str, Any]:
    """Compare the log-probabilities of pairs of random subwords, of different lengths, by both programs in float32.

    Returns:
        The number of pairs, and the largest difference of a subword's log-probability.

    Raises:
        UserError: they differ by more than rounding.
    """
    draw = random.Random(1)
    sizes = (engine.text.source.size, engine.text.target.size)
    sources, targets = (
        [
            [draw.randrange(SPECIALS, size) for _ in range(min(lengths[side], (limit or lengths[side] + 1) - 1))]
            for lengths in LENGTHS
        ]
        for side, (size, limit) in enumerate(zip(sizes, engine.longest, strict=True))
    )
    ours = score_subwords([model], sources, targets, 4096, torch.device("cpu"))
    theirs = engine.score(sources, targets)
    differences = [
        abs(one - other) / (len(target) + 1) for one, other, target in zip(ours, theirs, targets, strict=True)
    ]
    largest = max(differences)
    if not largest <= TOLERANCE:
        raise UserError(
            f"CTranslate2 {version()} computes other probabilities than posnmt: a subword's differ by {largest:.1e}",
            None,
            "do not use it for this model, and report the fault with the run's config.yaml",
        )
    return {"pairs": len(ours), "largest_difference": float(f"{largest:.1e}"), "ctranslate2": version()}


def version() -> str:
    """The installed version of CTranslate2."""
    import ctranslate2

    return str(ctranslate2.__version__)
