"""The verdict on length: up to which source length a system is ahead, and from which length it is behind.

Everything that is said stands on the intervals of `length_bands`, which hold for all cuts at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from posnmt.config.writing import isolated
from posnmt.evaluation.analyse.additive import Additive
from posnmt.evaluation.analyse.intervals import LEVEL
from posnmt.evaluation.analyse.length_bands import (
    BIN,
    CHANGE,
    FEWEST,
    FEWEST_DOCUMENTS,
    LONGER,
    SHORTER,
    Bands,
    Cuts,
    Figure,
    bands,
)
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.metrics.measure import Measure
from posnmt.metrics.metric import Metric

CROSSOVER, EVERY, CHANGES, SIDE, NONE = "crossover", "every length", "change", "one side", "none"
"""What is found of a pair: ahead on one side and behind on the other; ahead in every bin; a lead that changes; ahead on
one side, without a change that is shown; nothing."""

NO_CHANGE = "that its lead changes with the length"
"""What is not shown of a lead without a change."""

MOST_SAID = 5
"""Pairs of systems with a sentence of their own."""


At = tuple[Figure, Figure, Figure]
"""What is found at a cut: on its shorter side, on its longer side, and the change."""


@dataclass(frozen=True)
class Finding:
    """What is found of a pair of systems.

    Attributes:
        system, other: the pair; differences are of `system` minus `other`.
        kind: of the finding.
        sign: 1 if `system` is ahead: on the shorter side of a crossover, on the side, or in every bin. Of a change 1 if
            `system` gains.
        at: the figures at the cut that shows it most clearly; None: the finding has no cut.
        held: the first and the last cut that show it.
        figures: all of the pair.
    """

    system: str
    other: str
    kind: str
    sign: int
    at: At | None
    held: tuple[int, int] | None
    figures: Sequence[Figure]

    @property
    def cut(self) -> int | None:
        """The first length of the longer side."""
        return self.at and self.at[0].part.cut

    def turned(self) -> Finding:
        """The same with the two systems exchanged."""
        at = self.at and (self.at[0].turned(), self.at[1].turned(), self.at[2].turned())
        figures = [each.turned() for each in self.figures]
        return Finding(self.other, self.system, self.kind, -self.sign, at, self.held, figures)

    @property
    def bins(self) -> list[Figure]:
        """The figures of the merged bins."""
        return _of_kind(self.figures, BIN)


def find(system: str, other: str, figures: Sequence[Figure]) -> Finding:
    """What the figures of a pair show: the first that applies of crossover, every length, change, one side."""
    cuts = list(zip(*(_of_kind(figures, kind) for kind in (SHORTER, LONGER, CHANGE)), strict=True))
    crossing = [each for each in cuts if each[0].sign * each[1].sign < 0]
    changing = [each for each in cuts if each[2].sign]
    sides = [each for each in cuts if _side(each)]
    if crossing:
        at = max(crossing, key=lambda each: min(each[0].surety, each[1].surety))
        return _found(
            system, other, figures, CROSSOVER, at[0].sign, at, [x for x in crossing if x[0].sign == at[0].sign]
        )
    change = max(changing, key=lambda each: each[2].surety, default=None)
    if everywhere := _everywhere(_of_kind(figures, BIN)):
        return _found(system, other, figures, EVERY, everywhere, change, changing)
    if change:
        return _found(system, other, figures, CHANGES, change[2].sign, change, changing)
    if sides:
        at = max(sides, key=lambda each: max(side.surety for side in each[:2] if side.sign))
        return _found(system, other, figures, SIDE, _side(at), at, [x for x in sides if _side(x) == _side(at)])
    return _found(system, other, figures, NONE, 0, None, [])


def _found(
    system: str, other: str, figures: Sequence[Figure], kind: str, sign: int, at: At | None, among: Sequence[At]
) -> Finding:
    """A finding that is held by some cuts."""
    held = (among[0][0].part.cut, among[-1][0].part.cut) if among else None
    return Finding(system, other, kind, sign, at, held, figures)


def _side(at: At) -> int:
    """The sign of a side of a cut that has one, or 0."""
    return at[0].sign or at[1].sign


def _of_kind(figures: Sequence[Figure], kind: str) -> list[Figure]:
    return [each for each in figures if each.part.kind == kind]


def _everywhere(bins: Sequence[Figure]) -> int:
    """The sign that all of several bins have, or 0."""
    signs = {each.sign for each in bins}
    return signs.pop() if len(bins) > 1 and len(signs) == 1 else 0


def length_verdict(
    additive: Additive, systems: dict[str, list[int]], best: str, cuts: Cuts, unit: str, resampling: Resampling,
    baseline: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The verdict on length as `results.json` has it, with its `sentence`.

    Args:
        additive: the outputs of N sentences; the first metric counts.
        systems: name → indices of its outputs.
        best: the system with the best score of all; it is compared with every other one, unless there is a baseline.
        cuts: of the lengths, in `unit`.
        baseline: a system that every other one is compared with.
    """
    metric = next(iter(additive.columns))
    if baseline is None:
        compared = [(best, other) for other in systems if other != best]
        pairs = compared + [
            pair for pair in combinations(systems, 2) if best not in pair
        ]  # the best is not known before
    else:
        compared = pairs = [(other, baseline) for other in systems if other != baseline]
    jointly = resampling.correction != "none"
    found = bands(additive, metric, systems, pairs, cuts, resampling.samples, resampling.seed, jointly)
    findings = [find(*pair, found.figures[pair]) for pair in compared]
    measure = additive.metric(metric)
    return {
        "sentence": sentence(findings, cuts, measure, unit),
        "metric": metric, "baseline": baseline, "fewest": FEWEST, "level": LEVEL, "samples": found.samples,
        "documents": None if cuts.documents is None else len(np.unique(cuts.documents)),
        "cuts": cuts.cuts, "pairs_corrected_for": len(pairs) if jointly else 1,
        "pairs": [_record(each, found) for each in findings],
    }  # fmt: skip


def _record(finding: Finding, found: Bands) -> dict[str, Any]:
    """A pair as `results.json` has it."""
    ahead = {1: finding.system, -1: finding.other, 0: None}[finding.sign]
    return {
        "system": finding.system, "other": finding.other, "kind": finding.kind, "ahead": ahead, "cut": finding.cut,
        "held": finding.held and list(finding.held),
        "critical": found.critical[finding.system, finding.other],
        "figures": [
            {**asdict(each.part), **{name: getattr(each, name) for name in ("difference", "low", "high", "sign", "p")}}
            for each in finding.figures
        ],
    }  # fmt: skip


def sentence(findings: Sequence[Finding], cuts: Cuts, metric: Metric, unit: str) -> str:
    """What is found of some pairs in words; pairs of which nothing is found share a sentence."""
    if not cuts.cuts:
        least = f"{FEWEST} sentences" + ("" if cuts.documents is None else f" and {FEWEST_DOCUMENTS} documents")
        return f"Lengths are not compared: no length parts the text into two sides of at least {least}."
    said = [each for each in findings if each.kind != NONE]
    silent = [each for each in findings if each.kind == NONE]
    sentences = [_sentence(each, replace(metric, signed=True), unit) for each in said[:MOST_SAID]]
    if more := len(said) - MOST_SAID:
        sentences += [f"Of {more} more systems there is a finding by length."] if more > 0 else []
    if silent:
        one, others = silent[0].system, [each.other for each in silent]
        if len(set(others)) < len(others):  # there is a baseline
            one, others = silent[0].other, [each.system for each in silent]
        each = "" if len(others) == 1 else "each of "
        sentences.append(
            f"No lead on shorter or longer sources is shown between {isolated(one)} and {each}{_listed(others)}."
        )
    return " ".join(sentences)


def _sentence(finding: Finding, measure: Measure, unit: str) -> str:
    """One finding in words. The differences are of the system that is named first."""
    of_both = finding.kind == CHANGES and finding.at and finding.at[0].sign * finding.at[1].sign > 0
    leads = finding.at[0].sign if finding.at and of_both else finding.sign
    if leads < 0 and (of_both or finding.kind in (EVERY, SIDE)):
        finding = finding.turned()
    if finding.kind == EVERY:
        return _every(finding, measure, unit)
    assert finding.at
    shorter, longer, change = finding.at
    below, above = f"up to {shorter.part.cut - 1:,} {unit}", f"from {shorter.part.cut:,}"
    at_below, at_above = (f"{_shown(shorter, measure)}", f"{_shown(longer, measure)}")
    if finding.kind == CROSSOVER:
        first, second = ("ahead of", "behind") if finding.sign > 0 else ("behind", "ahead")
        return f"{_of_pair(finding, f'is {first}')} {below} ({at_below}) and {second} {above} ({at_above})."
    if finding.kind == CHANGES:
        says = "gains on" if finding.sign > 0 else "loses ground to"
        if of_both:
            says = "is ahead of"
            place = f", by {'more' if finding.sign > 0 else 'less'} on longer sources"
        else:
            place = " on longer sources"
        return (
            f"{_of_pair(finding, says)}{place}: {at_below} {below}, and {at_above} {above};"
            f" the change is {_shown(change, measure)}."
        )
    return _of_sides(finding, measure, [(shorter, below), (longer, f"{above} {unit}")])


def _of_sides(finding: Finding, measure: Measure, sides: Sequence[tuple[Figure, str]]) -> str:
    """A lead on one or both sides of a cut, each with its place, and what is not shown."""
    where = " and ".join(f"{place} ({_shown(each, measure)})" for each, place in sides if each.sign)
    if any(each.sign < 0 for each in finding.figures if each.part.kind in (SHORTER, LONGER)):
        rest = "at another cut it is behind, and no one cut shows both"
    else:
        without = [f"no lead is shown {place}, nor " for each, place in sides if not each.sign]
        rest = f"{without[0]}{NO_CHANGE}" if without else f"{NO_CHANGE} is not shown"
    return f"{_of_pair(finding, 'is ahead of')} {where}; {rest}."


def _every(finding: Finding, measure: Measure, unit: str) -> str:
    """A lead in every bin in words, and whether it changes."""
    bins = finding.bins
    least, most = sorted((each.difference for each in bins), key=abs)[:: len(bins) - 1]
    text = (
        f"{_of_pair(finding, 'is ahead of')} at every length: by {_size(least, measure)} to {_size(most, measure)}"
        f" {measure.title} in {len(bins)} bins, the last of {bins[-1].part.first:,} {unit} and more"
    )
    if not finding.at:
        return f"{text}; {NO_CHANGE} is not shown."
    shorter, longer, change = finding.at
    larger = "larger" if change.sign > 0 else "smaller"
    sides = f"{_size(longer.difference, measure)} {measure.title}, against {_size(shorter.difference, measure)} below"
    return f"{text}; the lead is {larger} from {shorter.part.cut:,} {unit} on ({sides})."


def _of_pair(finding: Finding, says: str) -> str:
    """What is said of the two systems."""
    return f"{isolated(finding.system)} {says} {isolated(finding.other)}"


def _shown(figure: Figure, measure: Measure) -> str:
    """A difference with its interval, such as `−4.1 BLEU, −6.0 to −2.2`; no interval where nothing differs at all."""
    if figure.difference == figure.low == figure.high == 0:
        return f"the same {measure.title}"
    return f"{measure.show(figure.difference)} {measure.title}, {measure.between((figure.low, figure.high))}"


def _size(difference: float, measure: Measure) -> str:
    return replace(measure, signed=False).show(abs(difference))


def _listed(names: Sequence[str]) -> str:
    """Names as a list in words, or their number if there are many."""
    if len(names) > MOST_SAID:
        return f"{len(names)} other systems"
    shown = [isolated(name) for name in names]
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]
