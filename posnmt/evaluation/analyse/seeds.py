"""Systems trained with several seeds: mean and spread over seeds, and a significance test between systems.

Outputs called NAME:SEED belong to the system NAME. The tests of `significance` ask whether two outputs would also
differ on other sentences. The test here takes the test set as fixed, and asks whether two systems would also differ
with other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from statistics import NormalDist
from typing import Any

import numpy as np

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.significance import tested
from posnmt.metrics.metric import Metric

# With more degrees of freedom, Student's t distribution is replaced by the normal distribution.
NORMAL = 10_000


def seed_groups(names: Sequence[str]) -> dict[str, list[str]]:
    """System → the names of its outputs, for every system with at least two seeds: `a` → `a:1`, `a:2`.

    The seed follows the last colon. If there is only one such output, `a:1` is the name of a system.

    Raises:
        UserError: an output has the same name as a system with seeds.
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        system, colon, seed = name.rpartition(":")
        if colon and system and seed:
            groups.setdefault(system, []).append(name)
    groups = {system: outputs for system, outputs in groups.items() if len(outputs) > 1}
    for system, outputs in groups.items():
        if system in names:
            raise UserError(
                f"{', '.join(outputs)} are seeds of {system!r}, and another output is called {system!r} itself",
                "--output",
                f"call it {system}:SEED if it is one of them, else by another name",
            )
    return groups


def systems_of(names: Sequence[str], groups: dict[str, list[str]]) -> dict[str, list[int]]:
    """System → the indices of its outputs, in the order of the outputs: one, or one for each seed.

    Args:
        names: of the outputs.
        groups: from `seed_groups`.
    """
    owners = {output: system for system, outputs in groups.items() for output in outputs}
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(owners.get(name, name), []).append(row)
    return rows


def spread(values: Sequence[float | None]) -> dict[str, float | None]:
    """`mean`, `deviation` (standard deviation, n - 1), `lowest` and `highest`; all None if a value is missing."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return dict.fromkeys(("mean", "deviation", "lowest", "highest"))
    mean, variance = _moments(known)
    return {"mean": mean, "deviation": math.sqrt(variance), "lowest": min(known), "highest": max(known)}


def welch(ones: Sequence[float], others: Sequence[float]) -> float | None:
    """The two-sided p of Welch's (1947) t-test, which does not assume equal variances.

    A permutation test has too little power: with three seeds per system, its smallest p is 2 / 20.

    Args:
        ones, others: each at least two values.

    Returns:
        p; None if both variances are 0.
    """
    (mean, variance), (other_mean, other_variance) = _moments(ones), _moments(others)
    error, other_error = variance / len(ones), other_variance / len(others)
    if error + other_error == 0:
        return None
    t = (mean - other_mean) / math.sqrt(error + other_error)
    freedom = (error + other_error) ** 2 / (error**2 / (len(ones) - 1) + other_error**2 / (len(others) - 1))
    return t_tails(t, freedom)


def t_tails(t: float, freedom: float) -> float:
    """The two-tailed probability of Student's t with `freedom` >= 1/4 degrees of freedom beyond |t|.

    With t = sqrt(freedom) cot(angle), it is an integral of sin(angle)^(freedom - 1) up to a factor. The substitution
    angle = s^4 makes the integrand smooth at 0, so that Gauss-Legendre quadrature is accurate to about 12 digits.
    """
    end = math.atan2(math.sqrt(freedom), abs(t)) ** 0.25
    nodes, weights = _quadrature()
    s = (nodes + 1) * end / 2
    area = float((weights * end / 2 * 4 * s**3 * np.sin(s**4) ** (freedom - 1)).sum())
    log_total = math.log(math.pi) / 2 + math.lgamma(freedom / 2) - math.lgamma((freedom + 1) / 2)
    return min(1.0, 2 * area / math.exp(log_total))


@cache
def t_quantile(share: float, freedom: float) -> float:
    """The quantile of Student's t distribution at `share` >= 0.5, with `freedom` degrees of freedom."""
    if freedom > NORMAL:
        return NormalDist().inv_cdf(share)
    low, high = 0.0, 1.0
    while t_tails(high, freedom) > 2 * (1 - share):
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if t_tails(middle, freedom) > 2 * (1 - share) else (low, middle)
    return high


@cache
def _quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights, cached because they take longer to compute than a quantile."""
    return np.polynomial.legendre.leggauss(200)


def seed_results(
    groups: dict[str, list[str]],
    systems: list[dict[str, Any]],
    metrics: Mapping[str, Metric],
    correction: str,
) -> dict[str, Any] | None:
    """Mean and spread of every system with several seeds, and Welch's test of every pair; None without such systems.

    Args:
        groups: from `seed_groups`.
        systems: the results of every output: `name`, `overall` and `bins` as in `results.json`.
        metrics: those to test.
        correction: as in `posnmt.evaluation.analyse.significance.corrected`, over the pairs within one metric.
    """
    if not groups:
        return None
    by_name = {system["name"]: system for system in systems}
    members = {system: [by_name[name] for name in outputs] for system, outputs in groups.items()}
    tests = {}
    for name, metric in metrics.items():
        values = [[each["overall"][name] for each in outputs] for outputs in members.values()]
        means = np.array([math.fsum(of_system) / len(of_system) for of_system in values])
        p = np.full((len(values), len(values)), np.nan)
        for a, b in combinations(range(len(values)), 2):
            p_value = welch(values[a], values[b])
            p[a, b] = p[b, a] = np.nan if p_value is None else p_value
        differences = means[:, None] - means
        tests[name] = {"differences": differences.tolist(), **tested(p, metric.ahead(differences), correction)}
    return {
        "systems": [
            {
                "name": system,
                "outputs": groups[system],
                "overall": _spreads([each["overall"] for each in outputs]),
                "bins": [_spreads(of_bin) for of_bin in zip(*(each["bins"] for each in outputs), strict=True)],
            }
            for system, outputs in members.items()
        ],
        "welch": tests,
    }


def _spreads(scores: Sequence[dict[str, float | None]]) -> dict[str, dict[str, float | None]]:
    """The spread of every measure over the outputs of one system."""
    return {measure: spread([each[measure] for each in scores]) for measure in scores[0] if measure != "n"}


def _moments(values: Sequence[float]) -> tuple[float, float]:
    """Mean and variance (n - 1); equal values have exactly 0, although their mean may be rounded."""
    if min(values) == max(values):
        return values[0], 0.0
    mean = math.fsum(values) / len(values)
    return mean, math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
