"""The lengths of a run's training sentences, from its store if that is here, and otherwise from its record."""

from __future__ import annotations

import numpy as np

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.seen import training_store
from posnmt.run.run import Run
from posnmt.translate.values import TrainedTokens

SIDES = {"encoder": "source", "decoder": "target"}
"""Stack -> side of the text."""


def trained_tokens(run: Run) -> dict[str, TrainedTokens]:
    """The lengths of training by stack, in tokens: a source ends with `</s>`, and a decoder begins with `<s>`.

    With `model.source_begin` a source begins with `<s>` as well.
    """
    spreads, lengths, begins = run.training_lengths, _lengths(run), run.config.model.source_begin
    return {
        stack: TrainedTokens(spreads[side]["shortest"] + more, spreads[side]["longest"] + more, lengths.get(side))
        for (stack, side), more in zip(SIDES.items(), (1 + begins, 1), strict=True)
        if side in spreads
    }


def _lengths(run: Run) -> dict[str, np.ndarray]:
    """The number of tokens of each training sentence by side; empty if the store is not here or cannot be read."""
    try:
        from posnmt.data.store import Store

        folder = training_store(run)
    except ModuleNotFoundError:  # the extra `train`, which translating does not need
        return {}
    if folder is None:
        return {}
    try:
        splits = Store.open(folder).trained()
    except UserError:
        return {}
    return {
        side: np.concatenate([getattr(split, f"{side}_lengths") for split in splits]).astype(np.int64) + more
        for side, more in zip(SIDES.values(), (1 + run.config.model.source_begin, 1), strict=True)
    }
