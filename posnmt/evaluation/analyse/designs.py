"""The designs that tell what length does to the prediction of references (docs/likelihood.md).

Each function returns a figure of every model; differences between systems are taken afterwards. Legend: T subwords,
N sentences.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.jackknife import Statistic, Units, difference_of_ratios, joined, sentence_means, subwords
from posnmt.evaluation.analyse.losses import Losses
from posnmt.evaluation.analyse.zones import BEYOND, DENSE, zones_of

AFTER_BOUNDARY = 3
"""Subwords after the boundary of two sentences that the swap leaves out of its means; their losses are there."""


def zone_contrast(losses: Losses, zone: int = BEYOND, kept: np.ndarray | None = None, by: str = "token") -> Statistic:
    """D1: the mean loss in a zone minus that in "dense", both over the sentences that have a subword in the zone.

    Args:
        losses: of natural sentences.
        zone: index in `ZONES`.
        kept: `[N]` mask of the sentences; default: all.
        by: `token`, the corpus figure, or `sentence`, the means of the sentences' means.
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
    """D2: the mean loss after one long sentence of the document minus that after one short, on the same subwords.

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
        losses: without a shift, of at least the sentences of `shifted`.
        shifted: of the same lines.

    Raises:
        UserError: a subword of `shifted` is not in `losses`.
    """
    return difference_of_ratios(*joined(subwords(_of_subwords(losses, shifted)), subwords(shifted)), [-1, 1])


def source_contrast(units: Units, seen: np.ndarray, places: np.ndarray) -> Statistic:
    """D4: the mean loss under sources longer than training reaches minus that under others, at the same positions.

    Args:
        units: of subwords.
        seen: `[T]` whether training reaches the length of the source.
        places: `[T]` mask of the subwords at the positions.
    """
    return difference_of_ratios(units, np.where(places, np.where(seen, 0, 1), -1), [-1, 1])


def _of_subwords(losses: Losses, shifted: Losses) -> Losses:
    """The losses of the subwords of `shifted`."""
    longest = int(max(losses.position.max(initial=0), shifted.position.max(initial=0))) + 1
    keys, wanted = (each.sentence * longest + each.position for each in (losses, shifted))
    order = np.argsort(keys)
    places = order[np.searchsorted(keys, wanted, sorter=order).clip(max=len(order) - 1)]
    part = of_tokens(losses, places)
    _refuse_other(part, shifted, "the losses with and without shifted positions")
    return part


def of_tokens(losses: Losses, chosen: np.ndarray) -> Losses:
    """Some subwords, by a mask or by indices; what is known of sentences stays as it is."""
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
