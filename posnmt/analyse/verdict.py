"""What an analysis says in words: which system leads, at the lengths of training and beyond them.

All sentences beyond the trained lengths are one group, so that nobody picks the bin that suits him.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from posnmt.analyse.additive import Additive, better
from posnmt.analyse.bins import TrainedLengths
from posnmt.analyse.measure import Resampling
from posnmt.analyse.significance import approximate_randomisation, corrected

if TYPE_CHECKING:
    import numpy as np

CHANCE = 0.05
"""The p-value from which a difference may be chance."""

MOST_NAMED = 5
"""Other systems up to which each is named."""

_LABELS = {"bleu": "BLEU", "chrf": "chrF", "chrf++": "chrF++", "ter": "TER", "multi-bleu": "multi-bleu"}


def verdict(
    additive: Additive, names: Sequence[str], lengths: np.ndarray, trained: TrainedLengths, unit: str,
    resampling: Resampling,
) -> dict[str, Any]:  # fmt: skip
    """The verdict as `results.json` has it: a sentence, and the groups of sentences that it rests on.

    In each group, the best system by the first metric is compared with every other one by approximate randomisation,
    with Holm's correction over all pairs.

    Args:
        additive: N sentences of the systems, perhaps of more that come after them.
        names: of the M systems.
        lengths: `[N]` of the sources, in `unit`.
    """
    metric = next(iter(additive.columns))
    rows = additive.rows[:, : len(names)]
    groups = []
    for name, chosen in _groups(lengths, trained).items():
        part = Additive(rows[chosen], additive.columns, additive.lower)
        scores = part.score(metric, part.rows.sum(axis=0))
        best = int(better(metric, scores, additive.lower).argmax())
        p = None
        if len(names) > 1 and resampling.samples and resampling.significance:
            matrix = approximate_randomisation(part, resampling.samples, resampling.seed)[metric]
            p = {other: float(value) for other, value in zip(names, corrected(matrix, "holm")[best], strict=True)}
            del p[names[best]]
        groups.append({
            "name": name, "sentences": len(part.rows),
            "shortest": int(lengths[chosen].min()), "longest": int(lengths[chosen].max()),
            "scores": dict(zip(names, scores.tolist(), strict=True)), "best": names[best], "p": p,
        })  # fmt: skip
    return {"metric": metric, "groups": groups, "sentence": " ".join(_sentence(each, metric, unit) for each in groups)}


def _groups(lengths: np.ndarray, trained: TrainedLengths) -> dict[str, np.ndarray]:
    """Name → which sentences, `[N]` bool, of the groups that have some."""
    import numpy as np

    if trained == TrainedLengths():
        return {"all": np.ones(len(lengths), dtype=bool)}
    shorter = lengths < (trained.shortest or 0)
    longer = np.zeros(len(lengths), dtype=bool) if trained.longest is None else lengths > trained.longest
    groups = {"trained": ~shorter & ~longer, "longer": longer, "shorter": shorter}
    return {name: chosen for name, chosen in groups.items() if chosen.any()}


def _sentence(group: dict[str, Any], metric: str, unit: str) -> str:
    """One group in words."""
    what = "sentences" if group["sentences"] > 1 else "sentence"
    span = f"{group['shortest']:,} to {group['longest']:,} {unit}"
    place = {
        "all": f"On {group['sentences']:,} {what}",
        "trained": f"On {group['sentences']:,} {what} of trained length ({span})",
        "longer": f"On {group['sentences']:,} longer {what} ({span})",
        "shorter": f"On {group['sentences']:,} shorter {what} ({span})",
    }[group["name"]]
    best, scores, p = group["best"], group["scores"], group["p"]
    others = [name for name in scores if name != best]
    leads = f"{place}, {best} has {scores[best]:.1f} {_LABELS.get(metric, metric)}"
    if not others:
        return f"{leads}."
    if p is None:
        return f"{leads}, the best score of {len(scores)}; nothing was tested."
    behind = [f"{name} ({scores[name]:.1f})" for name in others if p[name] < CHANCE]
    level = [f"{name} ({scores[name]:.1f}, p = {p[name]:.2g})" for name in others if p[name] >= CHANCE]
    parts = [leads]
    if behind:
        parts.append(f"better than {_listed(behind)} by more than chance")
    if level:
        parts.append(f"{'and ' if behind else ''}not clearly better than {_listed(level)}")
    return ", ".join(parts) + "."


def _listed(items: list[str]) -> str:
    """Some items as a list in words; their number where there are many."""
    if len(items) > MOST_NAMED:
        return f"{len(items)} others"
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
