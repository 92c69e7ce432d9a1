"""Every two systems of a study compared, and in two sentences with lists what was found and what was not.

Intervals are corrected for the number of comparisons (Bonferroni), so that together they have a level of 95 %; with two
or three seeds and many systems they have less (docs/verdicts.md, "Pairs with few seeds").
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from posnmt.study.claims import Claim, Comparison
from posnmt.study.evidence import Evidence
from posnmt.study.measured import Finding
from posnmt.study.measures import words
from posnmt.study.recipe import Recommend
from posnmt.study.verdict import LEVEL, Decision, Rules, decide
from posnmt.study.wording import asked, in_figures

MOST = 6
"""Comparisons that a list has; the report has all of them."""
Pair = tuple[str, str]
Decisions = dict[Pair, dict[str, Decision]]
"""Two systems -> name of a comparison -> the decision whether the first is better."""


def corrected_level(section: Recommend, systems: int) -> float:
    """The level of intervals that all comparisons of so many systems need."""
    count = math.comb(systems, 2) * len(section.comparisons("", ""))
    return 1 - (1 - LEVEL) / max(1, count)


def corrected_rules(section: Recommend, systems: int, rules: Rules) -> Rules:
    """Rules with the level of `corrected_level`."""
    return replace(rules, level=corrected_level(section, systems))


def compared(section: Recommend, systems: Sequence[str], evidence: Mapping[str, Evidence], rules: Rules) -> Decisions:
    """Every two systems, compared in everything that a section names.

    Args:
        section: of the recipe.
        systems: of each pair, the one that stands here first is first in the result.
        evidence: analysis -> its outputs and their counts.
        rules: with the level of `corrected_rules`.
    """
    return {
        pair: {
            name: decide(Claim(claim="pair", says="one is better", test=comparison), evidence, rules).primary
            for name, comparison in section.comparisons(*pair).items()
        }
        for pair in itertools.combinations(systems, 2)
    }


def findings(decisions: Decisions, rules: Rules) -> list[Finding]:
    """What was found, and what was not and what it would take; empty if there is no pair.

    Args:
        decisions: of all pairs.
        rules: that they were made by.
    """
    every = [decision for of_pair in decisions.values() for decision in of_pair.values()]
    if not every:
        return []
    left = [decision for decision in every if decision.word == "undecided"]
    found = [_found(decision, rules) for decision in every if decision.word != "undecided"]
    shown = any(decision.low is not None for decision in every)
    corrected = f" The intervals are corrected for {len(every)} comparisons." if len(every) > 1 and shown else ""
    return [
        Finding(
            f"Found: {_shown(len(found), len(every))} a difference that is more than chance.{corrected}", _listed(found)
        ),
        Finding(f"Not decided: {_counted(len(left), len(every))}.", _listed(_left(left, rules))),
    ]


def _shown(found: int, every: int) -> str:
    """How many of all comparisons show a difference."""
    if every == 1:
        return "the one comparison shows" if found else "nothing; the one comparison does not show"
    return (
        f"{found} of {every} comparisons {'shows' if found == 1 else 'show'}"
        if found
        else f"nothing; none of {every} comparisons shows"
    )


def _counted(left: int, every: int) -> str:
    """How many of all comparisons are not decided."""
    return "nothing" if not left else "the one comparison" if every == 1 else f"{left} of {every} comparisons"


def _found(decision: Decision, rules: Rules) -> str:
    """A decided comparison, with the better system first."""
    comparison, is_first = decision.comparison, decision.word == "supported"
    if not is_first:
        comparison = comparison.model_copy(update={"of": comparison.than, "than": comparison.of})
    return f"{_asked(comparison, rules)} ({_figures(decision, rules, 1 if is_first else -1)})"


def _left(decisions: Sequence[Decision], rules: Rules) -> list[str]:
    """Undecided comparisons, with what it would take; those without an interval stand together by their reason."""
    of_reason: dict[str, list[Decision]] = {}
    for decision in decisions:
        reason = f"{_figures(decision, rules)}; {decision.takes}" if decision.takes else decision.why
        of_reason.setdefault(reason, []).append(decision)
    return [f"{_whether(same, rules)} ({reason})" for reason, same in of_reason.items()]


def _whether(decisions: Sequence[Decision], rules: Rules) -> str:
    """What some decisions with one reason leave open."""
    if len(decisions) == 1:
        return f"whether {decisions[0].asked}"
    pairs = dict.fromkeys(
        " and ".join(rules.label(side.system) for side in decision.comparison.sides) for decision in decisions
    )
    measures = dict.fromkeys(words(decision.comparison.measure) for decision in decisions)
    return f"whether {', or '.join(pairs)} differ in {' and '.join(measures)}"


def _figures(decision: Decision, rules: Rules, sign: int = 1) -> str:
    """The value of a decision with its interval; with -1 as the sign, of the second system minus the first."""
    value, low, high = (sign * (end or 0.0) for end in (decision.value, decision.low, decision.high))
    return in_figures(decision.comparison, value, {rules.level: (min(low, high), max(low, high))})


def _asked(comparison: Comparison, rules: Rules) -> str:
    return asked(comparison, rules.scale, rules.label, comparison.analysis in rules.joined)


def _listed(items: Sequence[str]) -> list[str]:
    """The first items, and how many more there are."""
    more = len(items) - MOST
    return [*items[:MOST], *([f"and {more} more, which the report lists"] if more > 0 else [])]
