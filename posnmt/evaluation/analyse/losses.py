"""What trained models expect of the subwords of references, given a correct prefix.

Legend: M models, T content subwords of all references, N sentences, V target vocabulary entries, P lengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Scored:
    """A model that was scored: one training of a system with one seed."""

    name: str
    system: str
    seed: int


@dataclass(frozen=True)
class Losses:
    """Negative log-likelihoods of reference subwords given a correct prefix, in nats.

    Attributes:
        losses: float64 [M,T].
        ends: float64 [M,N], of the end symbol after the reference; in no bin.
        early_ends: float64 [M,N], mean probability of the end symbol before the end.
        sentence: [T] index of the sentence.
        position: [T] content subwords before it in its reference.
        subword: [T] id in the target vocabulary.
        source_lengths: [N] content subwords.
        target_lengths: [N] content subwords.
        characters: [N] of the reference in NFC.
        documents: [N] numbers from 0; blocks of 20 lines where there are no ids.
        models: M of them.
        source_exposure: float64 [P] share of training pairs whose source has more than p content subwords.
        target_exposure: float64 [P'] likewise of the targets.
        unigrams: float64 [V] relative frequencies of target subwords in training.
    """

    losses: NDArray[np.float64]
    ends: NDArray[np.float64]
    early_ends: NDArray[np.float64]
    sentence: NDArray[np.integer[Any]]
    position: NDArray[np.integer[Any]]
    subword: NDArray[np.integer[Any]]
    source_lengths: NDArray[np.integer[Any]]
    target_lengths: NDArray[np.integer[Any]]
    characters: NDArray[np.integer[Any]]
    documents: NDArray[np.integer[Any]]
    models: list[Scored]
    source_exposure: NDArray[np.float64]
    target_exposure: NDArray[np.float64]
    unigrams: NDArray[np.float64]
