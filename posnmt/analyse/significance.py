"""Which systems differ by more than chance: three tests of every pair of systems, for every metric.

All p-values are two-sided. A test gives a matrix `[M, M]` of them, the same above and below the diagonal, NaN on it.
`marks` writes a matrix as the papers do.

Legend: M systems, N sentences, S samples, K statistics of all measures, P pairs of systems.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations
from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits

from posnmt.analyse.additive import Additive, better, plain
from posnmt.analyse.resample import half_sums
from posnmt.errors import UserError
from posnmt.metrics.scores import corpus_scores

if TYPE_CHECKING:
    import numpy as np

# Below which p a difference is marked twice, and once (Neishi and Yoshinaga 2019, Table 4).
LEVELS = (0.01, 0.05)
CORRECTIONS = ("none", "holm", "bonferroni")
# Scores nearer than this are the same: the same counts, added and divided in another order.
SAME = 1e-10


def paired_bootstrap(scores: np.ndarray, metric: str, sentences: int) -> tuple[np.ndarray, np.ndarray]:
    """Koehn's (2004) paired bootstrap resampling.

    Koehn's own figure is how often one system beats the other over the samples. p is twice the share of samples in
    which the system that wins more often does not win (one sample more is counted, so that p is never 0): twice, since
    which of the two is better is read off the same samples.

    Args:
        scores: `[S, M]` each system's score in each sample, the same samples for all.
        metric: whose scores they are.
        sentences: N; a single sentence gives every sample the same scores and shows nothing, so that p is 1.

    Returns:
        p `[M, M]`, and the share of samples in which the system of the row beats the one of the column `[M, M]`.
    """
    import numpy as np

    samples, systems = scores.shape
    wins = np.zeros((systems, systems))
    p = np.full((systems, systems), np.nan)
    for a, b in combinations(range(systems), 2):
        difference = better(metric, scores[:, a] - scores[:, b])
        wins[a, b], wins[b, a] = (difference > SAME).mean(), (difference < -SAME).mean()
        fewest = min((difference <= SAME).sum(), (difference >= -SAME).sum())
        p[a, b] = p[b, a] = 1.0 if sentences == 1 else min(1.0, 2 * (1 + fewest) / (1 + samples))
    return p, wins


@threadpool_limits.wrap(limits=1, user_api="blas")  # see posnmt.analyse.resample
def approximate_randomisation(additive: Additive, samples: int, seed: int) -> dict[str, np.ndarray]:
    """Approximate randomisation (Riezler and Maxwell 2005): would any split of the outputs differ as much?

    Each sample tosses a coin for every sentence and, on heads, lets the two systems of a pair change outputs. p is the
    share of samples whose difference of scores is at least the observed one in size (the observed one counted as well).
    All pairs share the coins.

    Args:
        additive: N sentences of M systems.
        samples: S.
        seed: one seed, the same coins.

    Returns:
        Metric → p `[M, M]`.
    """
    import numpy as np

    systems = additive.rows.shape[1]
    first, second = np.array(list(combinations(range(systems), 2)), dtype=int).reshape(-1, 2).T
    totals = additive.rows.sum(axis=0)
    observed = {metric: additive.score(metric, totals) for metric in additive.columns}
    reached = {metric: np.ones(len(first)) for metric in additive.columns}
    for taken in half_sums(additive.rows, samples, seed):
        exchanged = taken[:, second] - taken[:, first]  # [c, P, K]
        one, other = totals[first] + exchanged, totals[second] - exchanged
        for metric, scores in observed.items():
            differences = np.abs(additive.score(metric, one) - additive.score(metric, other))
            reached[metric] += (differences >= np.abs(scores[first] - scores[second]) - SAME).sum(axis=0)
    return {metric: _symmetric(count / (1 + samples), systems) for metric, count in reached.items()}


def sign_test(additive: Additive, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """The sign test of Collins, Koehn and Kučerová (2005), which gives each sentence a sign by the corpus score.

    Of two systems the earlier is the baseline. A sentence speaks for the other system if the baseline's corpus score
    rises when the other's output of that one sentence is put in, and for the baseline if it falls; sentences that leave
    it as it is have no sign. p is that of so uneven a split, or more, of fair coins.

    Returns:
        p `[M, M]`, and the number of sentences that speak for the system of the row against the column's `[M, M]`.
    """
    import numpy as np

    systems = additive.rows.shape[1]
    rows = additive.rows[..., additive.columns[metric]]
    totals = rows.sum(axis=0)
    favour = np.zeros((systems, systems), dtype=int)
    p = np.full((systems, systems), np.nan)
    for a, b in combinations(range(systems), 2):
        sums = np.concatenate(
            [totals[None, a], totals[a] - rows[:, a] + rows[:, b]]
        )  # unchanged, then one sentence each
        scores = corpus_scores(metric, sums)
        effects = better(metric, scores[1:] - scores[0])
        favour[a, b], favour[b, a] = (effects < -SAME).sum(), (effects > SAME).sum()
        p[a, b] = p[b, a] = sign_p(int(favour[a, b]), int(favour[b, a]))
    return p, favour


def sign_p(ones: int, others: int) -> float:
    """The two-sided p of the sign test: twice the chance that fair coins split so unevenly or more, at most 1."""
    import numpy as np

    fewest, total = min(ones, others), ones + others
    places = np.arange(1, fewest + 1)
    # Logarithms of the binomial coefficients 0 to `fewest`: they outgrow a float from about 1,000 sentences on.
    logs = np.concatenate([[0.0], np.cumsum(np.log(total - places + 1) - np.log(places))]) - total * math.log(2)
    return min(1.0, 2 * float(np.exp(logs).sum()))


def corrected(p: np.ndarray, correction: str) -> np.ndarray:
    """p-values `[M, M]` corrected for the number of pairs, as one family.

    Args:
        p: symmetric, NaN for what is not tested.
        correction: `none`; `bonferroni`, times the number of pairs; or `holm` (1979), which steps down from the
            smallest and finds at least as much at the same risk.

    Raises:
        UserError: an unknown correction.
    """
    import numpy as np

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
    """The matrix as N19's Table 4 has it: how the system of the row stands to the one of the column.

    Args:
        p: `[M, M]`, corrected or not; NaN gives an empty cell.
        ahead: `[M, M]`, above 0 where the system of the row is the better one.

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
    """All three tests of every metric, as `results.json` holds them (docs/analyse.md names the fields).

    Args:
        additive: N sentences of M systems.
        resampled: from `resampled_measures`, of these systems or of more that come after them.
        samples, seed: of the randomisation, which are those of `resampled` too.
        correction: one of `CORRECTIONS`, over the pairs within one metric and one test.
    """
    randomisation = approximate_randomisation(additive, samples, seed)
    totals = additive.rows.sum(axis=0)
    metrics = {}
    for metric in additive.columns:
        scores = additive.score(metric, totals)
        differences = scores[:, None] - scores
        ahead = better(metric, differences)
        bootstrap, wins = paired_bootstrap(resampled[metric][:, 0, : len(totals)], metric, len(additive.rows))
        sign, favour = sign_test(additive, metric)
        metrics[metric] = {
            "differences": differences.tolist(),
            "tests": {
                "paired_bootstrap": {**tested(bootstrap, ahead, correction), "wins": wins.tolist()},
                "sign_test": {**tested(sign, favour - favour.T, correction), "sentences": favour.tolist()},
                "approximate_randomisation": tested(randomisation[metric], ahead, correction),
            },
        }
    return {"levels": list(LEVELS), "metrics": metrics}


def tested(p: np.ndarray, ahead: np.ndarray, correction: str) -> dict[str, Any]:
    """A test's p-values, the same corrected, and the marks of these; null where there is nothing to test."""
    adjusted = corrected(p, correction)
    return {"p": plain(p), "corrected": plain(adjusted), "marks": marks(adjusted, ahead)}


def _symmetric(values: Iterable[float], systems: int) -> np.ndarray:
    """The matrix `[M, M]` of the values of all pairs, in the order of `combinations`; NaN on the diagonal."""
    import numpy as np

    matrix = np.full((systems, systems), np.nan)
    for (a, b), value in zip(combinations(range(systems), 2), values, strict=True):
        matrix[a, b] = matrix[b, a] = value
    return matrix
