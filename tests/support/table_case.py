"""Tables of statistics of several systems."""

from __future__ import annotations

import numpy as np

from posnmt.evaluation.analyse.additive import Additive
from posnmt.metrics.registry import DEFAULT_METRICS
from tests.support.metrics_case import Scorer


def table(references, systems, metrics=DEFAULT_METRICS):
    scorers = {metric: Scorer(metric, references) for metric in metrics}
    lengths = [np.array([len(line.split()) for line in lines]) for lines in (*systems, references)]
    return Additive.of(
        {metric: [scorer.statistics(lines) for lines in systems] for metric, scorer in scorers.items()},
        lengths[:-1],
        lengths[-1],
    )
