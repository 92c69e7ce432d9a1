"""Recommend a system: the fastest of those that are not significantly worse than the best.

The system with the best mean score on the first analysis is compared with every other system on each analysis, by the
test of the verdicts. It and the systems that it does not significantly beat on any analysis are equally good; of these,
the one that decodes fastest is recommended. There is no recommendation if some system significantly beats the best one
on another analysis.

The same figures say which system is best, so any pair of systems may be the one that is tested. Intervals are therefore
corrected for all comparisons of all pairs (`posnmt.study.pairs`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from statistics import mean, median

import numpy as np

from posnmt.metrics.registry import metric
from posnmt.study.evidence import Evidence
from posnmt.study.measured import Recommendation
from posnmt.study.measures import LOSS
from posnmt.study.pairs import compared, corrected_rules, findings
from posnmt.study.recipe import Recipe, Recommend
from posnmt.study.verdict import Decision, Rules

NONE = "There is no recommendation"


def recommend(recipe: Recipe, section: Recommend, evidence: Mapping[str, Evidence], rules: Rules) -> Recommendation:
    """Recommend a system.

    Args:
        recipe: of the study.
        section: the section `recommend` of the recipe.
        evidence: analysis -> its outputs and their counts.
        rules: of the study's claims, with the number of seeds that the recipe asks for.
    """
    missing = [name for name in section.analyses if name not in evidence]
    if missing:
        return Recommendation(f"{NONE}.", [f"the analysis {name} was not made" for name in missing])
    first, training = evidence[section.analyses[0]], next(iter(recipe.trainings))
    systems = list(dict.fromkeys(output.system for output in first.outputs if output.training == training))
    if not systems:
        return Recommendation(f"{NONE}.", [f"no system was trained on {training}"])
    whole = [
        name for name in systems if _is_whole(name, training, [evidence[each] for each in section.analyses], rules)
    ]
    if not whole:
        return Recommendation(f"{NONE}: of every system a seed is missing.", [])
    return _recommended(recipe, section, systems, whole, evidence, rules)


def _recommended(
    recipe: Recipe,
    section: Recommend,
    systems: Sequence[str],
    whole: Sequence[str],
    evidence: Mapping[str, Evidence],
    rules: Rules,
) -> Recommendation:
    """The recommendation of one of the systems that have all seeds.

    Args:
        recipe, section, evidence, rules: as in `recommend`.
        systems: that were analysed.
        whole: those with all seeds.
    """
    first, training = evidence[section.analyses[0]], next(iter(recipe.trainings))
    label = {system: recipe.label((system, training)) for system in systems}
    scores = {system: mean(_scores(first, system, training, section.measure)) for system in whole}
    about = metric(section.measure)
    best = max(whole, key=lambda system: -scores[system] if about.higher is False else scores[system])
    others = [system for system in systems if system in whole and system != best]
    rules = corrected_rules(section, len(whole), rules)
    every = compared(section, [best, *others], evidence, rules)
    sentences = [f"{label[best]} has the best mean {about.title} ({about.show(scores[best])})."]
    sentences += [
        f"{label[system]} and {label[other]}, {name}: {each.sentence}"
        for (system, other), of_pair in every.items()
        for name, each in of_pair.items()
    ]
    if len({output.seed for output in first.outputs}) < 2:
        answer = Recommendation(f"{NONE}: one seed of each system says nothing of others.", sentences)
    else:
        of_best = {system: _of_quality(every[best, system]) for system in others}
        answer = _after_comparison(section, best, label, of_best, _speeds(training, rules), sentences)
    return replace(answer, findings=findings(every, rules))


def _of_quality(of_pair: Mapping[str, Decision]) -> dict[str, Decision]:
    """The decisions of a pair that a recommendation rests on: those of outputs, not those of losses."""
    return {name: each for name, each in of_pair.items() if each.comparison.measure != LOSS}


def _after_comparison(
    section: Recommend,
    best: str,
    label: Mapping[str, str],
    decisions: Mapping[str, Mapping[str, Decision]],
    speeds: Mapping[str, float],
    sentences: list[str],
) -> Recommendation:
    """The recommendation that follows from the decisions whether the best system beats each other one.

    Args:
        section: the section `recommend` of the recipe.
        best: the system with the best mean score.
        label: of each system that was analysed.
        decisions: system -> analysis -> decision.
        speeds: system -> source tokens a second in decoding, where they were measured.
        sentences: the evidence so far.
    """
    compared = _compared(decisions)
    if not compared:
        return Recommendation(f"{NONE}: no system could be compared with the best.", sentences)
    left_out = [name for system, name in label.items() if system != best and system not in compared]
    apart = f" {', '.join(left_out)} could not be compared." if left_out else ""
    if ahead := _ahead(compared, label):
        return Recommendation(
            f"{NONE} for all texts: {label[best]} is best on {section.analyses[0]}, and by more than chance worse than "
            f"{', '.join(ahead)}. Choose by what you translate.{apart}",
            sentences,
        )
    as_good = [best, *(system for system, words in compared.items() if "supported" not in words.values())]
    known = {label[system]: speeds[system] for system in as_good if system in speeds}
    fastest = max(known, key=known.__getitem__) if len(known) == len(as_good) else None
    if fastest is not None:
        shown = ", ".join(f"{name} {speed:,.0f}" for name, speed in known.items())
        sentences = [*sentences, f"Source tokens a second in decoding: {shown}."]
    return Recommendation(_advice([label[system] for system in as_good], len(compared), fastest) + apart, sentences)


def _compared(decisions: Mapping[str, Mapping[str, Decision]]) -> dict[str, dict[str, str]]:
    """System -> analysis -> the verdict as a word, for systems with an interval in every analysis."""
    return {
        system: {name: each.word for name, each in comparisons.items()}
        for system, comparisons in decisions.items()
        if all(each.low is not None for each in comparisons.values())
    }


def _ahead(compared: Mapping[str, Mapping[str, str]], label: Mapping[str, str]) -> list[str]:
    """The systems that beat the best one in another analysis, with that analysis."""
    return [
        f"{label[system]} ({name})"
        for system, words in compared.items()
        for name, word in words.items()
        if word == "contradicted"
    ]


def _advice(as_good: Sequence[str], others: int, fastest: str | None) -> str:
    """The recommendation in words.

    Args:
        as_good: the best system and those that it does not beat.
        others: number of systems that the best one was compared with.
        fastest: the one of `as_good` that decodes fastest; None if a speed is not known.
    """
    if len(as_good) == 1:
        return f"Use {as_good[0]}: it beats every other system by more than chance."
    if fastest is None:
        return (
            f"Undecided: the best does not beat {', '.join(as_good[1:])} by more than chance, and speeds were not "
            "measured yet."
        )
    if len(as_good) == 1 + others:
        return f"Undecided: the best system beats no other by more than chance. {fastest} decodes fastest."
    beside = ", ".join(system for system in as_good if system != fastest)
    return (
        f"Use {fastest}: it decodes fastest of those that the best does not beat by more than chance;"
        f" it is undecided whether it is better than {beside}."
    )


def _is_whole(system: str, training: str, analyses: Collection[Evidence], rules: Rules) -> bool:
    """Whether all seeds of a system are in all analyses."""
    seeds = range(1, 1 + rules.seeds((system, training))) if rules.seeds is not None else ()
    return all({*seeds} <= {*each.places((system, training), 0.0)} for each in analyses)


def _scores(evidence: Evidence, system: str, training: str, measure: str) -> list[float]:
    """The corpus scores of all seeds of a system."""
    places = list(evidence.places((system, training), 0.0).values())
    table = evidence.table(measure, np.arange(len(evidence.source_lengths)), places)
    return [float(score) for score in table.measure(table.rows.sum(axis=0))[measure]]


def _speeds(training: str, rules: Rules) -> dict[str, float]:
    """System -> the median of its decoding speeds in source tokens per second, where they were measured."""
    turns = {system: each for (system, trained), each in (rules.speeds or {}).items() if trained == training}
    return {system: median(each["decoding_speed"]) for system, each in turns.items()}
