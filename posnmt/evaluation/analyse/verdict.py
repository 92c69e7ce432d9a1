"""The outcome of an analysis in words: which system leads at which length, on trained lengths and beyond them.

All sentences beyond the trained lengths form one group, so that nobody can pick a favourable bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np

from posnmt.config.writing import isolated
from posnmt.evaluation.analyse.additive import Additive
from posnmt.evaluation.analyse.bins import Bin, TrainedLengths, mark
from posnmt.evaluation.analyse.length_bands import Cuts
from posnmt.evaluation.analyse.length_verdict import length_verdict
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.significance import SAME, approximate_randomisation, corrected

CHANCE = 0.05
"""A difference with this p-value or a higher one may be due to chance."""

MOST_NAMED = 5
"""Up to this number of other systems, each is named."""


def verdict(
    additive: Additive, systems: dict[str, list[int]], lengths: np.ndarray, trained: TrainedLengths, unit: str,
    resampling: Resampling, bins: Sequence[Bin], baseline: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The verdict as `results.json` has it: sentences, and what they rest on.

    The first sentence says where along the source length a system is ahead and behind (`length_verdict`); each of the
    others is of a group of sentences.

    In each group, the best system by the first metric is compared with every other one by approximate randomisation,
    corrected for all pairs as the tables are. Systems with the same best score are best together, and the p of another
    system is the largest of those against each of them. A system with several seeds has their mean score, and differs
    from another if every output of one differs from every output of the other, all in the same direction.

    Args:
        additive: N sentences of the outputs, perhaps of more that come after them.
        systems: name → indices of its outputs, one for each seed.
        lengths: `[N]` of the sources, in `unit`.
        bins: of the lengths.
        baseline: the system that the others are compared with by length; None: the best one.
    """
    metric, names = next(iter(additive.columns)), list(systems)
    additive = additive.of_outputs(sum(map(len, systems.values())))
    groups = []
    for name, chosen in _groups(lengths, trained).items():
        part = additive.of_sentences(chosen, metric)
        of_outputs = part.score(metric, part.rows.sum(axis=0))
        scores = {system: float(of_outputs[outputs].mean()) for system, outputs in systems.items()}
        ahead = part.metric(metric).ahead(np.array(list(scores.values())))
        leads = ahead >= ahead.max() - SAME
        p = None
        if len(names) > 1 and resampling.samples and resampling.significance:
            of_pairs = approximate_randomisation(part, resampling.samples, resampling.seed)[metric]
            matrix = corrected(_of_systems(of_pairs, of_outputs, list(systems.values())), resampling.correction)
            largest = matrix[leads].max(axis=0)
            p = {name: float(largest[row]) for row, name in enumerate(names) if not leads[row]}
        groups.append({
            "name": name, "sentences": len(part.rows),
            "shortest": int(lengths[chosen].min()), "longest": int(lengths[chosen].max()),
            "scores": scores, "best": [name for name, lead in zip(names, leads, strict=True) if lead], "p": p,
        })  # fmt: skip
    several = max(map(len, systems.values())) > 1
    of_groups = " ".join(_sentence(each, additive.metric(metric).title, unit, several) for each in groups)
    by_length = None
    if len(names) > 1 and resampling.samples and resampling.significance:
        cuts = Cuts.of(lengths, bins, additive.documents)
        best = _best(additive, metric, systems)
        by_length = length_verdict(additive, systems, best, cuts, unit, resampling, baseline)
    return {
        "metric": metric, "title": additive.metric(metric).title, "by_length": by_length, "groups": groups,
        "of_groups": of_groups, "sentence": f"{by_length['sentence']} {of_groups}" if by_length else of_groups,
    }  # fmt: skip


def _best(additive: Additive, metric: str, systems: dict[str, list[int]]) -> str:
    """The system with the best score on all sentences; of several, the first by name."""
    scores = additive.score(metric, additive.rows.sum(axis=0))
    ahead = {name: float(additive.metric(metric).ahead(scores[outputs].mean())) for name, outputs in systems.items()}
    return min(name for name, each in ahead.items() if each >= max(ahead.values()) - SAME)


def _of_systems(p: np.ndarray, scores: np.ndarray, systems: Sequence[list[int]]) -> np.ndarray:
    """The largest p of any pair of outputs of two systems, as a matrix of systems with a NaN diagonal.

    It is 1 where not all outputs of one are ahead of all of the other: seeds then contradict each other.
    """
    matrix = np.full((len(systems), len(systems)), np.nan)
    for row, column in permutations(range(len(systems)), 2):
        ahead = np.sign(scores[systems[row], None] - scores[None, systems[column]])
        agree = ahead.min() == ahead.max()
        matrix[row, column] = p[np.ix_(systems[row], systems[column])].max() if agree else 1.0
    return matrix


def _groups(lengths: np.ndarray, trained: TrainedLengths) -> dict[str, np.ndarray]:
    """Name → which sentences, `[N]` bool, of the groups that have some."""
    if trained == TrainedLengths():
        return {"all": np.ones(len(lengths), dtype=bool)}
    distinct, places = np.unique(lengths, return_inverse=True)
    marks = np.array([mark(Bin(length, length), trained) for length in distinct.tolist()])[places]
    unseen = marks == "unseen"
    longer = unseen & (lengths > (np.inf if trained.longest is None else trained.longest))
    shorter = unseen & ~longer & (lengths < (trained.shortest or 0))
    seen = marks == "seen"
    groups = {"trained": seen, "partly": ~seen & ~longer & ~shorter, "longer": longer, "shorter": shorter}
    return {name: chosen for name, chosen in groups.items() if chosen.any()}


def _sentence(group: dict[str, Any], title: str, unit: str, several: bool) -> str:
    """One group in words; `several`: some systems have several seeds."""
    what = "sentences" if group["sentences"] > 1 else "sentence"
    span = f"{group['shortest']:,} to {group['longest']:,} {unit}"
    place = {
        "all": f"On {group['sentences']:,} {what}",
        "trained": f"On {group['sentences']:,} {what} of trained length ({span})",
        "partly": f"On {group['sentences']:,} {what} of lengths that not all trainings had ({span})",
        "longer": f"On {group['sentences']:,} longer {what} ({span})",
        "shorter": f"On {group['sentences']:,} shorter {what} ({span})",
    }[group["name"]]
    best, scores, p = group["best"], group["scores"], group["p"]
    others = [name for name in scores if name not in best]
    worse = [name for name in others if p is not None and p[name] < CHANCE]
    shown = _apart(best[0], worse, scores)
    who = f"{_listed([isolated(name) for name in best], 'systems')} {'has' if len(best) == 1 else 'each have'}"
    leads = f"{place}, {who} {shown[best[0]]} {title}"
    leads += " (means of seeds)" if several else ""
    if not others:
        return f"{leads}."
    if p is None:
        return f"{leads}, the best score of {len(scores)}; nothing was tested."
    behind = [f"{isolated(name)} ({shown[name]})" for name in worse]
    level = [f"{isolated(name)} ({shown[name]}, p = {p[name]:.2g})" for name in others if name not in worse]
    parts = [leads]
    if behind:
        parts.append(f"better than {_listed(behind)} by more than chance{' in every pair of seeds' if several else ''}")
    if level:
        parts.append(f"{'and ' if behind else ''}not clearly better than {_listed(level)}")
    return ", ".join(parts) + "."


def _apart(best: str, worse: list[str], scores: dict[str, float]) -> dict[str, str]:
    """All scores, with one to three decimals: as many as distinguish the clearly worse ones from the best."""
    for decimals in (1, 2, 3):
        shown = {name: f"{score:.{decimals}f}" for name, score in scores.items()}
        if all(shown[name] != shown[best] for name in worse):
            break
    return shown


def _listed(items: list[str], many: str = "others") -> str:
    """Some items as a list in words; if there are too many, their number and the word `many`."""
    if len(items) > MOST_NAMED:
        return f"{len(items)} {many}"
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
