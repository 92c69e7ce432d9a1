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
    """The lengths of training by stack, in tokens: a source ends with `</s>`, and a decoder begins with `<s>`."""
    spreads, lengths = run.training_lengths, _lengths(run)
    return {
        stack: TrainedTokens(spreads[side]["shortest"] + 1, spreads[side]["longest"] + 1, lengths.get(side))
        for stack, side in SIDES.items()
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
        side: np.concatenate([getattr(split, f"{side}_lengths") for split in splits]).astype(np.int64) + 1
        for side in SIDES.values()
    }
