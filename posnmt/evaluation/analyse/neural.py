"""Neural metrics in an analysis: their sentence scores as statistics of sentences, like those of any other metric.

Legend: N sentences, M outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.inputs import Text
from posnmt.evaluation.analyse.sentence_scores import label, mean_statistics
from posnmt.metrics.metric import References
from posnmt.metrics.neural.install import Installed, installed
from posnmt.metrics.neural.metric import NeuralMetric
from posnmt.metrics.neural.scores import scores
from posnmt.metrics.registry import metric


@dataclass(frozen=True)
class NeuralScores:
    """The scores of all neural metrics.

    Attributes:
        statistics: metric → for each of M outputs `[N, 2]`: the score, and 1.
        signatures: metric → its model, revision and versions.
        warnings: sentences about text that a metric did not read.
    """

    statistics: dict[str, list[np.ndarray]] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def neural(names: Sequence[str]) -> dict[str, NeuralMetric]:
    """The neural ones of some metrics, by name.

    Raises:
        UserError: there is no such metric, or it cannot be imported.
    """
    return {name: known for name in names if isinstance(known := metric(name), NeuralMetric)}


def faults_of(names: Sequence[str]) -> list[UserError]:
    """Why metrics cannot be used: one is unknown, not installed, or no longer what was installed."""
    faults = []
    for name in names:
        try:
            _installed([name])
        except UserError as fault:
            faults.append(fault)
    return faults


def _installed(names: Sequence[str]) -> list[Installed]:
    """The neural ones of some metrics, as they are installed."""
    return [installed(name, known) for name, known in neural(names).items()]


def neural_scores(
    texts: Sequence[Text],
    references: References,
    names: Sequence[str],
    batch: int,
    say: Callable[[str], None],
) -> NeuralScores:
    """Score all outputs by the neural ones of some metrics.

    Args:
        texts: source, first reference of each line, and the M outputs.
        references: of each line; metrics read the first one.
        names: of metrics.
        batch: number of sentences that are scored together.
        say: called with progress lines.

    Raises:
        UserError: a metric is not installed, or its program fails.
    """
    found = NeuralScores()
    (source, reference), outputs = (text.lines for text in texts[:2]), texts[2:]
    for each in _installed(names):
        reads = each.metric.reads_reference
        read = reference if reads else [""] * len(source)
        rows = [row for text in outputs for row in zip(source, text.lines, read, strict=True)]
        scored = scores(each, rows, batch, say)
        values, cut = (np.array(column).reshape(len(outputs), -1) for column in zip(*scored, strict=True))
        found.statistics[each.name] = [mean_statistics(of_output) for of_output in values]
        found.signatures[each.name] = each.signature
        for text, count in zip(outputs, cut.sum(axis=1).tolist(), strict=True):
            if count:
                what = f"{each.name} read only the beginning of {count:,} sentences: they are too long for it."
                found.warnings.append(f"{label(text)}: {what}")
        if reads and any(len(of_line) > 1 for of_line in references):
            found.warnings.append(f"{each.name} reads one reference: the first one of each line.")
    return found
