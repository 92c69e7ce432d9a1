"""What engines need to know of a run: its model, its training sentences, and a hash that identifies the model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from posnmt.base.files import sha256_of
from posnmt.config.schema import Positions
from posnmt.model.at_inference import change_positions

if TYPE_CHECKING:
    from posnmt.model.base import TranslationModel
    from posnmt.run.run import Run

DIGITS = 16
"""Of each digest in the record of a translation."""


def trained_model(run: Run, checkpoint: str, positions: Positions) -> TranslationModel:
    """The model of a run, with changes of its positions.

    Raises:
        UserError: a change that does not apply to the model's positions.
    """
    model, lengths = run.model(checkpoint), run.training_lengths
    of_source = len(model.source_tokens([]))  # symbols beside the subwords
    trained = (lengths["source"]["longest"] + of_source, lengths["target"]["longest"] + 1) if lengths else None
    change_positions(model, positions, trained, run.folder)
    return model


def longest_trained(runs: Sequence[Run], positions: Positions | None = None) -> int | None:
    """Subwords of the longest source sentence that all runs were trained for; None: not recorded.

    Args:
        positions: changes of positions at inference; a factor that divides positions multiplies the length.
    """
    recorded = [run.training_lengths for run in runs if (run.folder / "record.json").exists()]
    longest = [lengths["source"]["longest"] for lengths in recorded if "source" in lengths]
    factor = (positions and (positions.interpolate or positions.ntk or positions.yarn)) or 1.0
    return int(min(longest) * max(1.0, factor)) if longest else None


def least_several(runs: Sequence[Run]) -> list[float] | None:
    """The shares of training sources with at least 1, 2, … sentences, the least of all runs; None: not recorded."""
    shares = [run.sentences_per_line.get("source") if (run.folder / "record.json").exists() else None for run in runs]
    known = [each for each in shares if each is not None]
    return [min(each) for each in zip(*known, strict=False)] if known and len(known) == len(shares) else None


def fingerprint(run: Run, checkpoint: str) -> str:
    """A hash of everything that translations depend on: the weights, the model's configuration, the text pipeline."""
    model = json.dumps(run.config.model.model_dump(mode="json"), sort_keys=True)
    parts = (sha256_of(run.trained_weights(checkpoint)), model, run.text_hash())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]
