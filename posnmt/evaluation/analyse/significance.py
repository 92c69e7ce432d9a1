"""Three significance tests of every pair of systems, for every metric.

All p-values are two-sided. A test gives a symmetric matrix `[M, M]` of them, with NaN on the diagonal. `marks` formats
a matrix as the papers do.

Legend: M systems, N sentences, S samples, K statistics of all measures, P pairs of systems.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations, permutations
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from posnmt.base.errors import UserError
from posnmt.base.progress import Work
from posnmt.evaluation.analyse.additive import Additive, plain
from posnmt.evaluation.analyse.resample import half_sums
from posnmt.metrics.metric import Metric

# The p-values below which a difference has a double and a single mark (Neishi and Yoshinaga 2019, Table 4).
LEVELS = (0.01, 0.05)
CORRECTIONS = ("none", "holm", "bonferroni")
# Scores closer than this are equal up to rounding.
SAME = 1e-10


def paired_bootstrap(scores: np.ndarray, metric: Metric, sentences: int) -> tuple[np.ndarray, np.ndarray]:
    """Koehn's (2004) paired bootstrap resampling.

    Koehn reports in how many samples one system beats the other. Here, p is twice the share of samples in which the
    system that wins more often does not win. One sample is added, so that p is never 0. The factor 2 makes the test
    two-sided, since the same samples decide which system is the better one.

    Args:
        scores: `[S, M]` each system's score in each sample; all systems share the samples.
        metric: of the scores.
        sentences: N; with a single sentence, all samples are the same, so p is 1.

    Returns:
        p `[M, M]`, and the share of samples in which the system of the row beats that of the column, `[M, M]`.
    """
    samples, systems = scores.shape
    wins = np.zeros((systems, systems))
    p = np.full((systems, systems), np.nan)
    for a, b in combinations(range(systems), 2):
        difference = metric.ahead(scores[:, a] - scores[:, b])
        wins[a, b], wins[b, a] = (difference > SAME).mean(), (difference < -SAME).mean()
        fewest = min((difference <= SAME).sum(), (difference >= -SAME).sum())
        p[a, b] = p[b, a] = 1.0 if sentences == 1 else min(1.0, 2 * (1 + fewest) / (1 + samples))
    return p, wins


@threadpool_limits.wrap(limits=1, user_api="blas")  # see posnmt.evaluation.analyse.resample
def approximate_randomisation(additive: Additive, samples: int, seed: int) -> dict[str, np.ndarray]:
    """Approximate randomisation (Riezler and Maxwell 2005).

    In each sample, the two systems of a pair exchange their outputs of each sentence (of each document, where documents
    are known) with probability 1/2. p is the
    share of samples in which the scores differ at least as much as the observed ones do; the observation counts as a
    sample. All pairs exchange the same sentences.

    Args:
        additive: N sentences of M systems.
        samples: S.
        seed: determines the samples.

    Returns:
        Metric → p `[M, M]`.
    """
    systems = additive.rows.shape[1]
    first, second = np.array(list(combinations(range(systems), 2)), dtype=int).reshape(-1, 2).T
    totals = additive.rows.sum(axis=0)
    observed = {metric: additive.score(metric, totals) for metric in additive.columns}
    reached = {metric: np.ones(len(first)) for metric in additive.columns}
    beside = len(first) * additive.rows.shape[2]
    with Work("testing", "samples", samples) as work:
        for taken in half_sums(additive.rows, samples, seed, beside=beside, documents=additive.documents):
            exchanged = taken[:, second] - taken[:, first]  # [c, P, K]
            one, other = totals[first] + exchanged, totals[second] - exchanged
            for metric, scores in observed.items():
                differences = np.abs(additive.score(metric, one) - additive.score(metric, other))
                reached[metric] += (differences >= np.abs(scores[first] - scores[second]) - SAME).sum(axis=0)
            work.add(len(taken))
    return {metric: _symmetric(count / (1 + samples), systems) for metric, count in reached.items()}


def sign_test(additive: Additive, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """The sign test of Collins, Koehn and Kučerová (2005), whose signs are those of changes of a corpus score.

    One of two systems is the baseline, and its output of one sentence is replaced by that of the other system. The
    sentence favours the other system if this improves the corpus score, and the baseline if it worsens the score. Other
    sentences are ties, which are ignored. p is that of a binomial test. It depends on which system is the baseline: see
    `weaker`.

    Returns:
        p `[M, M]`, with the system of the row as the baseline; and the numbers of sentences that then favour the system
        of the row and that of the column, `[M, M, 2]`.
    """
    systems = additive.rows.shape[1]
    rows = additive.rows[..., additive.columns[metric]]
    totals = rows.sum(axis=0)
    favour = np.zeros((systems, systems, 2), dtype=int)
    p = np.full((systems, systems), np.nan)
    for a, b in permutations(range(systems), 2):
        sums = np.concatenate(
            [totals[None, a], totals[a] - rows[:, a] + rows[:, b]]
        )  # unchanged, then one sentence each
        scores = additive.metric(metric).score(sums)
        effects = additive.metric(metric).ahead(scores[1:] - scores[0])
        favour[a, b] = (effects < -SAME).sum(), (effects > SAME).sum()
        p[a, b] = sign_p(*favour[a, b].tolist())
    return p, favour


def weaker(p: np.ndarray, favour: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weaker outcome of the sign test over both choices of the baseline, which depends on no choice.

    Args:
        p, favour: from `sign_test`.

    Returns:
        For each pair the larger p, and which system both baselines favour: 1 that of the row, -1 that of the column. If
        each baseline favours another system, p is 1, and neither is favoured (0).
    """
    ahead = np.sign(favour[..., 0] - favour[..., 1])
    agree = ahead == -ahead.T
    larger = np.where(agree, np.maximum(p, p.T), 1.0)
    np.fill_diagonal(larger, np.nan)
    return larger, np.where(agree, ahead, 0)


def sign_p(ones: int, others: int) -> float:
    """The two-sided p of the sign test: twice the tail of the binomial distribution, at most 1."""
    fewest, total = min(ones, others), ones + others
    places = np.arange(1, fewest + 1)
    # Logarithms of the binomial coefficients 0 to `fewest`, which overflow a float from about 1,000 sentences on.
    logs = np.concatenate([[0.0], np.cumsum(np.log(total - places + 1) - np.log(places))]) - total * math.log(2)
    return min(1.0, 2 * float(np.exp(logs).sum()))


def corrected(p: np.ndarray, correction: str) -> np.ndarray:
    """p-values `[M, M]` corrected for the number of pairs, as one family.

    Args:
        p: symmetric; NaN for pairs that are not tested.
        correction: `none`, `bonferroni`, or `holm` (1979), a step-down method with at least as much power at the same
            error rate.

    Raises:
        UserError: the correction is unknown.
    """
    if correction not in CORRECTIONS:
        raise UserError(
            f"no correction is called {correction!r}", "--correction", f"choose from {', '.join(CORRECTIONS)}"
        )
    upper = np.triu_indices(len(p), 1)
    values = p[upper]
    known = np.flatnonzero(~np.isnan(values))
    if correction == "bonferroni":
        values = np.minimum(1.0, values * len(known))
    elif correction == "holm":
        order = known[np.argsort(values[known], kind="stable")]
        values[order] = np.minimum(1.0, np.maximum.accumulate(values[order] * (len(order) - np.arange(len(order)))))
    return _symmetric(values, len(p))


def marks(p: np.ndarray, ahead: np.ndarray) -> list[list[str]]:
    """The matrix of marks of the system of the row against that of the column (Neishi and Yoshinaga 2019, Table 4).

    Args:
        p: `[M, M]`, corrected or not; NaN gives an empty cell.
        ahead: `[M, M]`, positive where the system of the row is better.

    Returns:
        `>>` and `<<` where p < 0.01, `>` and `<` where p < 0.05, else `~`.
    """
    strong, weak = LEVELS
    rows = []
    for row, leads in zip(p.tolist(), ahead.tolist(), strict=True):
        signs = [">" if lead > 0 else "<" for lead in leads]
        rows.append(
            [
                "" if math.isnan(value) else sign * 2 if value < strong else sign if value < weak else "~"
                for value, sign in zip(row, signs, strict=True)
            ]
        )
    return rows


def significance(
    additive: Additive, resampled: dict[str, np.ndarray], samples: int, seed: int, correction: str
) -> dict[str, Any]:
    """All three tests of every metric, as `results.json` holds them (docs/files.md names the fields).

    Args:
        additive: N sentences of M systems.
        resampled: from `resampled_measures`; its first M systems are those of `additive`.
        samples, seed: of `resampled`, and of the randomisation.
        correction: one of `CORRECTIONS`, over the pairs within one metric and one test.
    """
    randomisation = approximate_randomisation(additive, samples, seed)
    totals = additive.rows.sum(axis=0)
    metrics = {}
    for metric in additive.columns:
        scores = additive.score(metric, totals)
        differences = scores[:, None] - scores
        ahead = additive.metric(metric).ahead(differences)
        sampled = resampled[metric][:, 0, : len(totals)]
        bootstrap, wins = paired_bootstrap(sampled, additive.metric(metric), len(additive.rows))
        of_baselines, favour = sign_test(additive, metric)
        sign, favoured = weaker(of_baselines, favour)
        metrics[metric] = {
            "differences": differences.tolist(),
            "tests": {
                "paired_bootstrap": {**tested(bootstrap, ahead, correction), "wins": wins.tolist()},
                "sign_test": {
                    **tested(sign, favoured, correction),
                    "baseline_p": plain(of_baselines),
                    "sentences": favour.tolist(),
                },
                "approximate_randomisation": tested(randomisation[metric], ahead, correction),
            },
        }
    return {"levels": list(LEVELS), "metrics": metrics}


def tested(p: np.ndarray, ahead: np.ndarray, correction: str) -> dict[str, Any]:
    """The p-values of a test, the corrected ones, and their marks; null where nothing is tested."""
    adjusted = corrected(p, correction)
    return {"p": plain(p), "corrected": plain(adjusted), "marks": marks(adjusted, ahead)}


def _symmetric(values: Iterable[float], systems: int) -> np.ndarray:
    """The symmetric matrix `[M, M]` of the values of all pairs, in the order of `combinations`, with a NaN diagonal."""
    matrix = np.full((systems, systems), np.nan)
    for (a, b), value in zip(combinations(range(systems), 2), values, strict=True):
        matrix[a, b] = matrix[b, a] = value
    return matrix
