"""How often 95 % intervals of D1 hold the truth, by simulation: seeds and documents crossed, and simpler intervals.

python benchmarks/likelihood_intervals.py [--studies N]

Each study has G documents with fixed numbers of subwords in "beyond" and in "dense". The difference of two systems in
"beyond" is the truth, plus an effect of the seed, of the document, and of both; all are normal. The intervals are those
of `posnmt.evaluation.analyse.crossed`. It prints the table of benchmarks/notes/length.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np

from posnmt.evaluation.analyse.crossed import Estimate, crossed
from posnmt.evaluation.analyse.jackknife import Statistic, Units, difference_of_ratios
from posnmt.evaluation.analyse.seeds import t_tails
from posnmt.evaluation.analyse.zones import effective_number

TRUTH = -0.1
SUBWORDS = 134  # of a document in "beyond", on average, as in the pilot
DENSE = 3  # times as many in "dense"
DOCUMENTS_ERROR = 0.027  # standard error over documents of one seed, as in the pilot
WITHIN = 0.35  # standard deviation of the difference at single subwords, beyond what their document does
COMMON = 0.75  # share of the documents' variance that all seeds have
METHODS = ("crossed", "documents alone", "documents, CR1, G - 1", "seeds alone")


def sizes(documents: int, effective: float) -> np.ndarray:
    """Numbers of subwords with an effective number of documents: quantiles of a log-normal distribution."""
    normal = np.array([NormalDist().inv_cdf((place + 0.5) / documents) for place in range(documents)])
    low, high = 0.0, 3.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if effective_number(np.exp(middle * normal)) > effective else (low, middle)
    weights = np.exp(low * normal)
    return np.maximum(1, np.round(weights * SUBWORDS * documents / weights.sum())).astype(int)


def study(beyond: np.ndarray, seeds: int, over_seeds: float, generator: np.random.Generator) -> tuple[Units, Statistic]:
    """One study: the sums of both zones in every document, and D1 of every seed."""
    documents = len(beyond)
    dense = DENSE * beyond
    spread = DOCUMENTS_ERROR * np.sqrt(effective_number(beyond))
    effect = (
        TRUTH
        + over_seeds * generator.normal(size=(seeds, 1))
        + spread * np.sqrt(COMMON) * generator.normal(size=documents)
        + spread * np.sqrt(1 - COMMON) * generator.normal(size=(seeds, documents))
    )
    noise = WITHIN * generator.normal(size=(seeds, 2 * documents))
    counts = np.concatenate([dense, beyond])
    values = np.concatenate([np.zeros_like(effect), effect], axis=1) * counts + noise * np.sqrt(counts)
    number = np.tile(np.arange(documents), 2)
    units = Units(values, counts, number, number)
    return units, difference_of_ratios(units, np.repeat([0, 1], documents), [-1, 1])


def linear(units: Units, documents: int) -> float:
    """CR1: the sum of squares of the documents' linearised contributions, averaged over seeds, times G / (G - 1)."""
    value, size = units.values.mean(axis=0).reshape(2, documents), units.sizes.reshape(2, documents)
    total = size.sum(axis=1, keepdims=True)
    residual = (value - size * value.sum(axis=1, keepdims=True) / total) / total
    return float(documents / (documents - 1) * ((residual[1] - residual[0]) ** 2).sum())


def p_values(units: Units, statistic: Statistic) -> Iterator[float]:
    """The two-sided p of the truth, by each of `METHODS`."""
    estimate = crossed(statistic.whole, statistic.without, statistic.support)
    documents, seeds, _ = estimate.parts
    freedom = statistic.support.effective - 1
    count = len(statistic.weights)
    yield away(estimate, estimate.variance, estimate.freedom)
    yield away(estimate, documents, freedom)
    yield away(estimate, linear(units, count), count - 1)
    yield away(estimate, seeds, estimate.seeds - 1) if estimate.seeds > 1 else np.nan


def away(estimate: Estimate, variance: float, freedom: float) -> float:
    return t_tails((estimate.value - TRUTH) / variance**0.5, freedom)


def coverage(beyond: np.ndarray, seeds: int, over_seeds: float, studies: int, seed: int = 1) -> list[float]:
    """The share of studies whose 95 % interval holds the truth, by each of `METHODS`; NaN without one."""
    generator = np.random.default_rng([seed, seeds, round(1000 * over_seeds), len(beyond)])
    p = np.array([list(p_values(*study(beyond, seeds, over_seeds, generator))) for _ in range(studies)])
    return np.where(np.isnan(p).any(axis=0), np.nan, (p >= 0.05).mean(axis=0)).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=10_000)
    studies = parser.parse_args().studies
    print(f"| G, G* | sd of D over seeds | R | {' | '.join(METHODS)} |")
    print("|---" * (3 + len(METHODS)) + "|")
    for documents, effective in [(35, 13), (13, 13), (60, 40)]:
        beyond = sizes(documents, effective)
        for over_seeds in (0.01, 0.03, 0.06):
            for seeds in (1, 2, 3, 5):
                shares = coverage(beyond, seeds, over_seeds, studies)
                shown = " | ".join("" if np.isnan(share) else f"{100 * share:.1f}" for share in shares)
                print(f"| {documents}, {effective_number(beyond):.0f} | {over_seeds} | {seeds} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
