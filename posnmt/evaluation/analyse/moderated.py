"""The variance over seeds of a contrast between systems that share seeds: moderated, as Smyth (2004) does for genes.

The figure of a system and a seed is the sum of a mean of the system, an effect of the seed on all systems of the block,
and an interaction of both. In a contrast of two systems the effect of the seed cancels. With R seeds, the variance q of
the contrast's mean has only R - 1 degrees of freedom. All T systems of the block together show how large this variance
usually is: for a pair, m = 2 MS(system x seed) / R. The variance that is used weighs both, and is never less than q:

    W = max((4 m + (R - 1) q) / (R + 3), q), with R + 3 degrees of freedom

Any other contrast is a sum of figures of systems t on classes of sentences k with weights w_tk (those of a relative one
are its derivatives). Its figure of a seed is split into

    the seed's effect   sum_k (sum_t w_tk) mean_t(y_trk)                   whose variance has R - 1 degrees of freedom
    the interaction     sum_tk w_tk (y_trk - mean_t(y_trk))                whose variance is moderated

For a pair, and for a difference of differences of two systems, the first part is 0. For one system at two lengths the
effect of the seed does not cancel. Other systems say nothing new about it, since they have the same few seeds, so it
keeps its R - 1 degrees of freedom. With C the covariance of the interactions of the K classes, and
u_t = w_t - mean_t(w_t), the usual variance of the second part is m = sum_t u_t' C u_t / R. For a pair this is 2 MS / R.

Legend: ... studies or nothing, T systems, R seeds, K classes of sentences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PRIOR = 4
"""The degrees of freedom that the variance of the block has as a prior."""
FEWEST_SYSTEMS = 4
"""The least number of systems of a block whose variance over seeds is moderated."""
ROUNDING = 1e-12


@dataclass(frozen=True)
class Components:
    """Variances of the mean of a contrast over seeds.

    Attributes:
        shared: `[...]` of the seeds' effect on all systems.
        own: `[...]` of the interaction, by the contrast's own figures: q.
        usual: `[...]` of the interaction, by all systems of the block: m.
    """

    shared: np.ndarray
    own: np.ndarray
    usual: np.ndarray


def moderated(own: np.ndarray, usual: np.ndarray, seeds: int) -> np.ndarray:
    """`[...]` the variance W, which has `seeds` + 3 degrees of freedom.

    Args:
        own: `[...]` q.
        usual: `[...]` m.
        seeds: R.
    """
    return np.maximum((PRIOR * usual + (seeds - 1) * own) / (PRIOR + seeds - 1), own)


def suffices(systems: int, seeds: int, outputs: int) -> bool:
    """Whether a block has enough systems, and at least as many degrees of freedom as its variance counts for (`PRIOR`).

    Two seeds of four systems are too few: their intervals contained the true value in 93.5 % of simulated studies.
    """
    return seeds > 1 and systems >= FEWEST_SYSTEMS and outputs - systems - seeds + 1 >= PRIOR


def components(figures: np.ndarray, weights: np.ndarray, present: np.ndarray) -> Components:
    """The variances of a contrast in a block.

    Args:
        figures: `[..., T, R, K]`; those that are not present are ignored.
        weights: `[T, K]` of the contrast; 0 for systems that lack a seed.
        present: `[T, R]` which outputs there are.
    """
    seeds, whole = figures.shape[-2], present.all(axis=1)
    figures = np.where(present[..., None], figures, 0.0)
    centre = figures[..., whole, :, :].mean(axis=-3)  # [..., R, K]
    total = weights.sum(axis=0)
    total[np.abs(total) < ROUNDING * np.abs(weights).sum(axis=0)] = 0.0  # cancelled but for rounding
    shared = centre @ total
    own = np.einsum("...trk,tk->...r", figures, weights) - shared
    centred = weights[whole] - total / whole.sum()
    covariance = interaction(figures, present)
    usual = np.einsum("tk,...kl,tl->...", centred, covariance, centred) / seeds
    return Components(shared.var(axis=-1, ddof=1) / seeds, own.var(axis=-1, ddof=1) / seeds, usual)


def interaction(figures: np.ndarray, present: np.ndarray) -> np.ndarray:
    """`[..., K, K]` the covariance of the interactions of system and seed, with (T - 1) (R - 1) degrees of freedom.

    They are the residuals of the sum of an effect of each system and one of each seed, fitted by least squares. Where
    outputs are missing, the degrees of freedom are the number of outputs less T + R - 1.

    Args:
        figures, present: as in `components`.
    """
    systems, seeds = np.nonzero(present)
    design = np.hstack([np.eye(len(present))[systems], np.eye(present.shape[1])[seeds]])
    fitted = design @ np.linalg.pinv(design)
    of_outputs = figures[..., systems, seeds, :]  # [..., outputs, K]
    residuals = of_outputs - fitted @ of_outputs
    freedom = len(systems) - np.linalg.matrix_rank(design)
    return np.swapaxes(residuals, -1, -2) @ residuals / freedom
