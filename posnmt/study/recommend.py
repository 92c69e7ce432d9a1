"""Recommend a system: the fastest of those that are not significantly worse than the best.

The system with the best mean score is compared with every other one on each analysis, by the test of the verdicts. Of
it and the systems that it does not significantly beat on any analysis, the one that decodes fastest is recommended.

Which system is best is read off the same figures, so that any of the pairs may come to be tested: intervals have the
level that keeps all pairs and analyses together at 95 % (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean, median

from posnmt.study.claims import Claim, Comparison, Figures
from posnmt.study.evidence import Evidence, Variant
from posnmt.study.measured import Recommendation
from posnmt.study.recipe import Recipe, Recommend, Scale
from posnmt.study.speed import Speeds
from posnmt.study.verdict import LEVEL, Decision, Rules, decide


def recommend(
    recipe: Recipe,
    wanted: Recommend,
    evidence: Mapping[str, Evidence],
    scale: Scale,
    measured: Mapping[Variant, Speeds] | None = None,
) -> Recommendation:
    """Recommend a system.

    Args:
        recipe, wanted: of the study, and its section `recommend`.
        evidence: analysis -> its outputs and their counts.
        scale: of the study.
        measured: the speeds of the systems, in turn; None: those of each translation, in a study from before there were
            others.
    """
    missing = [name for name in wanted.analyses if name not in evidence]
    if missing:
        return Recommendation("There is no recommendation.", [f"the analysis {name} was not made" for name in missing])
    first = evidence[wanted.analyses[0]]
    training = next(iter(recipe.trainings))
    systems = list(dict.fromkeys(output.system for output in first.outputs if output.training == training))
    if not systems:
        return Recommendation("There is no recommendation.", [f"no system was trained on {training}"])
    scores = {system: mean(_scores(first, system, training, wanted.measure)) for system in systems}
    best = (min if wanted.measure == "ter" else max)(systems, key=scores.__getitem__)
    pairs = len(systems) * (len(systems) - 1) // 2 * len(wanted.analyses)
    level = 1 - (1 - LEVEL) / max(1, pairs)
    decisions = {
        system: [_beaten(recipe, wanted, name, best, system, evidence, scale, level) for name in wanted.analyses]
        for system in systems
        if system != best
    }
    sentences = [f"{recipe.label((best, training))} has the best mean {wanted.measure} ({scores[best]:.1f})."]
    for system, comparisons in decisions.items():
        label = recipe.label((system, training))
        sentences += [
            f"{label}, {name}: {each.sentence}" for name, each in zip(wanted.analyses, comparisons, strict=True)
        ]
    if len({output.seed for output in first.outputs}) < 2:
        return Recommendation("There is no recommendation: one seed of each system says nothing of others.", sentences)
    compared = {
        system: comparisons
        for system, comparisons in decisions.items()
        if all(each.low is not None for each in comparisons)
    }
    if decisions and not compared:
        return Recommendation("There is no recommendation: no system could be compared with the best.", sentences)
    as_good = [
        best,
        *(system for system, comparisons in compared.items() if all(each.word != "supported" for each in comparisons)),
    ]
    if measured is None:
        speeds = {system: _speed(first, system, training) for system in as_good}
    else:
        speeds = {system: median(measured[system, training]["decoding_speed"]) for system in as_good}
    chosen = max(as_good, key=speeds.__getitem__)
    sentences.append(
        "Source tokens a second in decoding: "
        + ", ".join(f"{recipe.label((system, training))} {speed:,.0f}" for system, speed in speeds.items())
        + "."
    )
    left_out = [recipe.label((system, training)) for system in decisions if system not in compared]
    apart = f" {', '.join(left_out)} could not be compared." if left_out else ""
    return Recommendation(
        _advice(chosen, as_good, len(compared), lambda system: recipe.label((system, training))) + apart, sentences
    )


def _advice(chosen: str, as_good: Sequence[str], others: int, label: Callable[[str], str]) -> str:
    """The recommendation in words.

    Args:
        chosen: the system that is recommended.
        as_good: the best system and those that it does not beat.
        others: number of systems that the best one was compared with.
    """
    if len(as_good) == 1:
        return f"Use {label(chosen)}: it beats every other system by more than chance."
    if len(as_good) == 1 + others:
        return f"Undecided: the best system beats no other by more than chance. {label(chosen)} decodes fastest."
    beside = ", ".join(label(system) for system in as_good if system != chosen)
    return (
        f"Use {label(chosen)}: it decodes fastest of those that the best does not beat by more than chance;"
        f" it is undecided whether it is better than {beside}."
    )


def _scores(evidence: Evidence, system: str, training: str, measure: str) -> list[float]:
    """The corpus scores of all seeds of a system."""
    import numpy as np

    places = list(evidence.places((system, training), 0.0).values())
    table = evidence.table(measure, np.arange(len(evidence.source_lengths)), places)
    return [float(score) for score in table.measure(table.rows.sum(axis=0))[measure]]


def _beaten(
    recipe: Recipe,
    wanted: Recommend,
    analysis: str,
    best: str,
    system: str,
    evidence: Mapping[str, Evidence],
    scale: Scale,
    level: float,
) -> Decision:
    """The decision whether the best system significantly beats another one."""
    comparison = Comparison.model_validate(
        {
            "analysis": analysis,
            "measure": wanted.measure,
            "of": Figures(system=best),
            "is": "lower" if wanted.measure == "ter" else "higher",
            "than": Figures(system=system),
        }
    )
    claim = Claim(claim="recommendation", says="the best beats another", holds_if=[comparison])
    rules = Rules(
        recipe.variant,
        scale,
        label=lambda text: recipe.label(recipe.variant(text)),
        seeds=lambda variant: recipe.seeds(variant, scale),
        level=level,
    )
    return decide(claim, evidence, rules).comparisons[0]


def _speed(evidence: Evidence, system: str, training: str) -> float:
    """The mean decoding speed over the seeds that were measured, in source tokens per second; 0 where none was."""
    own = evidence.places((system, training), 0.0).values()
    speeds = [evidence.outputs[place].decoding_speed for place in own]
    measured = [speed for speed in speeds if speed is not None]
    return mean(measured) if measured else 0.0
