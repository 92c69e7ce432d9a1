"""The designs that measure how length affects the prediction of references (docs/metrics.md).

Each function returns a figure of every model; differences between systems are computed later.

D5 is the loss of single subwords by zone, controlled for other differences between late and early subwords:

    l_t = b_0 + b_sparse [sparse] + b_beyond [beyond] + b_f ln f(t) + b_last [last 10] + b_repeated [repeated] + error

f is the relative frequency of the subword in training; "last 10" are the last 10 subwords of the reference; "repeated"
are subwords that occurred earlier in the reference. The figure of a model is b_beyond, by ordinary least squares over
the sentences with a subword in "beyond". Each replicate leaves out one document.

Legend: T subwords, N sentences, G documents, M models, C coefficients.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.jackknife import Statistic, Units, difference_of_ratios, joined, sentence_means, subwords
from posnmt.evaluation.analyse.losses import Losses
from posnmt.evaluation.analyse.zones import BEYOND, DENSE, SPARSE, zones_of

AFTER_BOUNDARY = 3
"""Number of subwords after the boundary of two sentences that the means of D2 leave out, though they have losses."""
LAST = 10
"""Number of subwords at the end of a reference that D5 counts as its last ones."""
ZONE_COLUMN = 1
"""The column of "beyond" in D5."""


def zone_contrast(losses: Losses, zone: int = BEYOND, kept: np.ndarray | None = None, by: str = "token") -> Statistic:
    """D1: the mean loss in a zone minus the mean loss in "dense", both over the sentences with a subword in the zone.

    Args:
        losses: of natural sentences.
        zone: index in `ZONES`.
        kept: `[N]` mask of the sentences; default: all.
        by: `token` for means over subwords, or `sentence` for means over the means of sentences.
    """
    zones = zones_of(losses.target_exposure, losses.position)
    having = np.zeros(len(losses.documents), dtype=bool)
    having[losses.sentence[zones == zone]] = True
    chosen = having if kept is None else having & kept
    cells = np.select([zones == zone, zones == DENSE], [1, 0], -1)
    cells = np.where(chosen[losses.sentence], cells, -1)
    units = subwords(losses)
    if by == "sentence":
        units, cells = sentence_means(units, cells)
    return difference_of_ratios(units, cells, [-1, 1])


def swap(after_short: Losses, after_long: Losses) -> Statistic:
    """D2: the mean loss after a long sentence of the document minus that after a short one, on the same subwords.

    The first `AFTER_BOUNDARY` subwords of each reference are left out.

    Raises:
        UserError: they are not of the same subwords and models.
    """
    _refuse_other(after_short, after_long, "the losses after a long and after a short sentence")
    both = [subwords(each).chosen(each.position >= AFTER_BOUNDARY) for each in (after_short, after_long)]
    return difference_of_ratios(*joined(*both), [-1, 1])


def index_shift(losses: Losses, shifted: Losses) -> Statistic:
    """D3: the mean loss with shifted positions minus that without, on the subwords of `shifted`.

    Args:
        losses: without a shift, of all the sentences of `shifted` and perhaps of more.
        shifted: of the same text.

    Raises:
        UserError: a subword of `shifted` is not in `losses`.
    """
    return difference_of_ratios(*joined(subwords(_of_subwords(losses, shifted)), subwords(shifted)), [-1, 1])


def source_contrast(units: Units, seen: np.ndarray, places: np.ndarray) -> Statistic:
    """D4: the mean loss for sources longer than training reaches minus that for other sources, at the same positions.

    Args:
        units: of subwords.
        seen: `[T]` whether training reaches the length of the source.
        places: `[T]` mask of the subwords at the positions.
    """
    return difference_of_ratios(units, np.where(places, np.where(seen, 0, 1), -1), [-1, 1])


def _of_subwords(losses: Losses, shifted: Losses) -> Losses:
    """The losses of the subwords of `shifted`."""
    longest = int(max(losses.position.max(initial=0), shifted.position.max(initial=0))) + 1
    keys, of_shifted = (each.sentence * longest + each.position for each in (losses, shifted))
    order = np.argsort(keys)
    places = order[np.searchsorted(keys, of_shifted, sorter=order).clip(max=len(order) - 1)]
    part = of_tokens(losses, places)
    _refuse_other(part, shifted, "the losses with and without shifted positions")
    return part


def of_tokens(losses: Losses, chosen: np.ndarray) -> Losses:
    """The losses of some subwords, by a mask or by indices; facts about sentences are kept."""
    return replace(
        losses,
        losses=losses.losses[:, chosen],
        sentence=losses.sentence[chosen],
        position=losses.position[chosen],
        subword=losses.subword[chosen],
    )


def _refuse_other(one: Losses, other: Losses, what: str) -> None:
    """Raise if two losses are not of the same subwords and models."""
    same = one.models == other.models and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("sentence", "position", "subword")
    )
    if not same or not np.array_equal(one.documents, other.documents):
        raise UserError(f"{what} are not of the same references and models", "the losses", "compute both anew")


def adjusted_contrast(losses: Losses) -> Statistic:
    """D5: the coefficient of "beyond" for each model; NaN if it cannot be separated from those of other columns."""
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
    """The columns `[T, C]`; subwords that do not occur in training have the frequency of the rarest ones that do."""
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
    return np.asarray(np.linalg.solve(scaled, products / scale[:, None])[ZONE_COLUMN] / scale[ZONE_COLUMN])
