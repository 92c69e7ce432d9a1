"""D5: the loss of single subwords by zone, with what else tells late subwords from early ones held fixed.

    l_t = b_0 + b_sparse [sparse] + b_beyond [beyond] + b_f ln f(t) + b_last [last 10] + b_repeated [repeated] + error

f is the relative frequency of the subword in training, "last 10" the last 10 subwords of the reference, "repeated" a
subword that occurred before in the reference. The figure is b_beyond of each model, by ordinary least squares over the
sentences that have a subword in "beyond". Its replicates leave out one document each. Legend: T subwords, G documents,
M models, C coefficients.
"""

from __future__ import annotations

import numpy as np

from posnmt.evaluation.analyse.jackknife import Statistic
from posnmt.evaluation.analyse.losses import Losses
from posnmt.evaluation.analyse.zones import BEYOND, SPARSE, zones_of

LAST = 10
ZONE_COLUMN = 1
"""The column of "beyond"."""


def adjusted_contrast(losses: Losses) -> Statistic:
    """The coefficient of "beyond" of each model; NaN where it cannot be told from those of other columns."""
    zones = zones_of(losses.target_exposure, losses.position)
    having = np.zeros(len(losses.documents), dtype=bool)
    having[losses.sentence[zones == BEYOND]] = True
    count = len(losses.models)
    if not having.any():
        return Statistic(np.full(count, np.nan), np.empty((0, count)), np.empty(0, dtype=int), 0)
    chosen = having[losses.sentence]
    columns = _design(losses, zones)[chosen]
    varying = np.ptp(columns, axis=0) > 0
    varying[[0, ZONE_COLUMN]] = True
    columns, values = columns[:, varying], losses.losses[:, chosen].T
    names, document = np.unique(losses.documents[losses.sentence[chosen]], return_inverse=True)
    members = [document == number for number in range(len(names))]
    squares = np.array([columns[mask].T @ columns[mask] for mask in members])  # [G, C, C]
    products = np.array([columns[mask].T @ values[mask] for mask in members])  # [G, C, M]
    without = [
        _coefficient(squares.sum(axis=0) - square, products.sum(axis=0) - product)
        for square, product in zip(squares, products, strict=True)
    ]
    weights = np.bincount(document, zones[chosen] == BEYOND, minlength=len(names))
    whole = _coefficient(squares.sum(axis=0), products.sum(axis=0))
    return Statistic(whole, np.array(without), weights, int(having.sum()))


def _design(losses: Losses, zones: np.ndarray) -> np.ndarray:
    """The columns `[T, C]`; subwords that training lacks count as the rarest that it has."""
    frequencies = losses.unigrams[losses.subword]
    rarest = losses.unigrams[losses.unigrams > 0].min(initial=1)
    return np.stack(
        [
            np.ones(len(zones)),
            zones == BEYOND,
            zones == SPARSE,
            np.log(np.maximum(frequencies, rarest)),
            losses.target_lengths[losses.sentence] - losses.position <= LAST,
            _repeated(losses),
        ],
        axis=1,
    ).astype(float)


def _repeated(losses: Losses) -> np.ndarray:
    """`[T]` whether the subword occurred earlier in its reference."""
    order = np.lexsort((losses.position, losses.subword, losses.sentence))
    sentence, subword = losses.sentence[order], losses.subword[order]
    repeated = np.zeros(len(order), dtype=bool)
    repeated[order[1:]] = (sentence[1:] == sentence[:-1]) & (subword[1:] == subword[:-1])
    return repeated


def _coefficient(squares: np.ndarray, products: np.ndarray) -> np.ndarray:
    """The coefficient of "beyond" `[M]` from X'X and X'y."""
    scale = np.sqrt(np.diag(squares))
    if not scale.all():
        return np.full(products.shape[1], np.nan)
    scaled = squares / np.outer(scale, scale)
    if np.linalg.matrix_rank(scaled, hermitian=True) < len(scaled):
        return np.full(products.shape[1], np.nan)
    coefficients: np.ndarray = np.linalg.solve(scaled, products / scale[:, None])[ZONE_COLUMN] / scale[ZONE_COLUMN]
    return coefficients
