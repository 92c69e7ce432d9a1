"""All metrics by name: those that posnmt counts, neural ones, and those of other packages (CONTRIBUTING.md)."""

from __future__ import annotations

from typing import Any

from posnmt.base import plugins
from posnmt.base.errors import quoted, refuse_unknown
from posnmt.metrics.bleu import BLEU, MULTI_BLEU
from posnmt.metrics.chrf import CHRF, CHRF_PLUS
from posnmt.metrics.edit_rate import TER
from posnmt.metrics.metric import Metric
from posnmt.metrics.neural.metric import NEURAL, NeuralMetric

METRICS: dict[str, Metric] = {
    "bleu": BLEU, "chrf": CHRF, "chrf++": CHRF_PLUS, "ter": TER, "multi-bleu": MULTI_BLEU,
}  # fmt: skip
OWN: dict[str, Metric] = {**METRICS, **NEURAL}
# multi-bleu is for tokenised text, so it is not a default.
DEFAULT_METRICS = ("bleu", "chrf", "ter")


def metric(name: str) -> Metric:
    """A metric by its name: posnmt's own, that of an installed package, or an object by `module:object`.

    Raises:
        UserError: there is no such metric; or it cannot be imported, or is not allowed (`posnmt.base.plugins`).
    """
    if name in OWN:
        return OWN[name]
    if not plugins.is_class(name):
        refuse_unknown(name, [*OWN, *plugins.names("metric")], "metric", "--metrics")
    return plugins.load("metric", name, _as_metric)


def _as_metric(offered: Any) -> Metric:
    """The object that a package offers as a metric, checked.

    Raises:
        TypeError: it is not a metric.
    """
    if not isinstance(offered, Metric):
        raise TypeError(f"{quoted(offered)} is no object of a subclass of posnmt.metrics.metric.Metric")
    if isinstance(offered, NeuralMetric):
        return offered
    if type(offered).counter is Metric.counter and type(offered).count is Metric.count:
        raise TypeError(f"{type(offered).__name__} has no counter")
    return offered
