"""Measures by the place of a sentence in its paragraph, after paragraphs were cut into sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from posnmt.evaluation.analyse.additive import Additive, plain
from posnmt.evaluation.analyse.intervals import percentile_interval, resampled_measures

LAST_PLACE = 10
"""Sentences with this number in their paragraph, or a higher one, count as one place."""


def by_place(
    additive: Additive, numbers: Sequence[int], names: Sequence[str], samples: int, seed: int
) -> dict[str, Any]:
    """Every measure at every place.

    Args:
        additive: N sentences of M outputs.
        numbers: `[N]` of the sentences in their paragraphs, from 0.
        names: of the first outputs, which are shown.
        samples, seed: of the bootstrap over sentences; 0 samples: no intervals.

    Returns:
        `labels` of P places (`1`, `2` … `10-`), `n` sentences of each, and for each of the `systems` its `name`, every
        measure at each place, and `intervals`: measure → [lower, upper] at each place, or None.
    """
    places = np.array(numbers).clip(max=LAST_PLACE - 1)
    count = int(places.max()) + 1
    sums = np.stack([additive.rows[places == place].sum(axis=0) for place in range(count)])
    values = {name: plain(scores) for name, scores in additive.measure(sums).items()}
    ends: dict[str, list[Any]] = {}
    if samples:
        resampled = resampled_measures(additive, places, count, samples, seed)
        ends = {name: plain(np.stack(percentile_interval(each[:, 1:]), axis=-1)) for name, each in resampled.items()}
    return {
        "labels": [f"{place + 1}{'-' if place + 1 == LAST_PLACE else ''}" for place in range(count)],
        "n": np.bincount(places, minlength=count).tolist(),
        "systems": [
            {
                "name": name,
                **{measure: [row[column] for row in each] for measure, each in values.items()},
                "intervals": {measure: [row[column] for row in each] for measure, each in ends.items()} or None,
            }
            for column, name in enumerate(names)
        ],
    }
