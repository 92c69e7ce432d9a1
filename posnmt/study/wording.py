"""Comparisons and their results in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from posnmt.study.claims import ZONES, Comparison, Figures, Scale
from posnmt.study.estimate import Estimate
from posnmt.study.measures import LOSS, NEAR_LONGEST, unit, words

LINE = {False: "sentence", True: "joined line"}
"""The word for a line of a test; True: its lines are several sentences that were joined."""
CHOSEN = {
    False: {"longer": " longer than any in its training", "shorter": " shorter than any in its training"},
    True: {
        "longer": " of more subwords than any source in its training",
        "shorter": " of fewer subwords than any source in its training",
    },
}
"""How lines that are chosen by their lengths are described."""
CLASSES = {
    "dense": "at target positions that 1 in 10 training pairs or more reach",
    "sparse": "at target positions that fewer than 1 in 10 training pairs reach, and 1 in 1,000 or more",
    "beyond": "at target positions that fewer than 1 in 1,000 training pairs reach",
    "D2": "from one short to one long sentence before (D2)",
    "D3 source": "where positions of the source begin later (D3)",
    "D3 target": "where positions of the target begin later (D3)",
    "D3 both": "where positions of both sides begin later (D3)",
}
"""Where the subwords of a class stand, or what a design compares; the words for D1 are those of its report."""
PREDICTS = {
    "higher": "predicts the reference worse than", "lower": "predicts the reference better than",
    "equal": "predicts the reference as well as",
}  # fmt: skip
LOSES = {"higher": "loses more than", "lower": "loses less than", "equal": "loses as much as"}
LOSES_ALONE = {"higher": "loses", "lower": "gains", "equal": "neither loses nor gains"}
LONGER_REFERENCE = "with a reference longer than any in training"
"""The sentences of `near_longest`."""
RELATIONS = {"higher": "is higher than", "lower": "is lower than", "equal": "is equal to"}

Label = Callable[[str], str]


def asked(comparison: Comparison, scale: Scale, label: Label, joined: bool = False) -> str:
    """A comparison as a statement: "the BLEU of Relative is higher than that of Absolute on sentences of ...".

    Args:
        comparison: of a claim.
        scale: of the study.
        label: what a system and its training are called.
        joined: whether the lines of its test are several sentences joined.
    """
    if comparison.measure == LOSS:
        return _asked_of_loss(comparison, label)
    of, than = comparison.of, comparison.than
    relation, what = RELATIONS[comparison.is_], words(comparison.measure)
    margin = comparison.within or comparison.by
    amount = percent(margin) if comparison.relative else f"{margin:g} {unit(comparison.measure)}"
    by = f" within {amount}" if comparison.within else f" by more than {amount}" if margin else ""
    of_name, of_where = _name(of, label), _where(of, scale, joined, comparison.measure)
    if than is None:
        return _joined(f"the {what} of {of_name} {relation} 0{by}", of_where)
    than_name, than_where = _name(than, label), _where(than, scale, joined, comparison.measure)
    if than_where == of_where:
        return _joined(f"the {what} of {of_name} {relation} that of {than_name}{by}", of_where)
    rest = than_where or "overall"
    if than_name == of_name:
        return f"the {what} of {_joined(of_name, of_where)} {relation} {rest}{by}"
    return f"the {what} of {_joined(of_name, of_where)} {relation} that of {_joined(than_name, rest)}{by}"


def _asked_of_loss(comparison: Comparison, label: Label) -> str:
    """A comparison of losses as a statement."""
    from posnmt.evaluation.analyse.length_claims import PLACES  # imports NumPy

    margin = comparison.within or comparison.by
    by = f"{' within' if comparison.within else ' by more than'} {margin:g} {unit(LOSS)}" if margin else ""
    of, than = label(comparison.of.system), comparison.than and label(comparison.than.system)
    where = f"given a correct prefix, {CLASSES.get(comparison.class_ or '', f'from {PLACES} (D1)')}{by}"
    if comparison.class_ in ZONES:
        return f"{of} {PREDICTS[comparison.is_]} {than}, {where}"
    verb = f"{LOSES[comparison.is_]} {than}" if than else LOSES_ALONE[comparison.is_]
    return f"{of} {verb} in predicting the reference, {where}"


def _name(figures: Figures, label: Label) -> str:
    """The system of one side, or the two."""
    return label(figures.system) + (f" minus that of {label(figures.minus)}" if figures.minus else "")


def _where(figures: Figures, scale: Scale, joined: bool, measure: str) -> str:
    """Which sentences, or joined lines, one side is measured on."""
    lengths = figures.lengths_at(scale) or "all"
    if isinstance(lengths, str):
        chosen = {"all": "", "seen": " of trained lengths", **CHOSEN[joined]}[lengths]
    else:
        chosen = f" {span(*lengths)}".rstrip()
    chosen = _joined(chosen, LONGER_REFERENCE) if measure == NEAR_LONGEST else chosen.lstrip()
    where = _joined(f"on {LINE[joined]}s", chosen) if chosen or joined else ""
    return _joined(where, f"with {percent(figures.share)} of the words swapped" if figures.share else "")


def _joined(*parts: str) -> str:
    return " ".join(filter(None, parts))


def span(first: int | None, last: int | None) -> str:
    """A range of lengths, as it follows "sentences"; empty for all lengths."""
    if last is None:
        return "" if first is None else f"of more than {first - 1} subwords"
    return f"of {first or 1} to {last} subwords"


def amount(comparison: Comparison, value: float, shown: int | None = None) -> str:
    """A value with its sign and unit; `shown` decimals, by default those of a value without an interval."""
    shown = decimals(comparison, []) if shown is None else shown
    return f"{_number(comparison, value, shown)} {'%' if comparison.relative else unit(comparison.measure)}"


def with_intervals(comparison: Comparison, estimate: Estimate, levels: Sequence[float]) -> str:
    """Write a value with its intervals at some levels; see `in_figures`."""
    return in_figures(comparison, estimate.value, {level: estimate.interval(level) for level in levels})


def in_figures(comparison: Comparison, value: float, intervals: Mapping[float, tuple[float, float]]) -> str:
    """A value with its intervals by their levels: "+1.20 BLEU, 95 % interval +0.31 to +2.09"."""
    shown = decimals(comparison, [end for ends in intervals.values() for end in ends])
    phrases = [
        f"{_level(level)} interval {_number(comparison, low, shown)} to {_number(comparison, high, shown)}"
        for level, (low, high) in intervals.items()
    ]
    return f"{amount(comparison, value, shown)}, {', '.join(phrases)}"


def decimals(comparison: Comparison, ends: Sequence[float]) -> int:
    """The number of decimals that tell the ends of intervals from the margin: two (for losses three) to four."""
    fewest = 3 if comparison.measure == LOSS else 2
    scale, margin = 100 if comparison.relative else 1, comparison.within or comparison.by
    apart = [scale * (abs(end) - margin) for end in ends]
    return next((count for count in range(fewest, 4) if all(round(distance, count) for distance in apart)), 4)


def _level(level: float) -> str:
    """A level of confidence in per cent, with enough digits that it is not rounded to 100."""
    return f"{100 * level:.{max(3, 1 + int(-math.log10(1 - level)))}g} %"


def counted(numbers: Sequence[int], what: str) -> str:
    """Numbers of something of each system: "5 seeds", "3 to 5 seeds"."""
    least, most = min(numbers), max(numbers)
    return f"{least} to {most} {what}s" if least < most else f"{most} {what}{'' if most == 1 else 's'}"


def _number(comparison: Comparison, value: float, decimals: int) -> str:
    """A value with its sign; a relative one in per cent."""
    return signed(100 * value if comparison.relative else value, decimals)


def percent(share: float) -> str:
    """Write a share, a number from 0 to 1, in percent."""
    return f"{100 * share:g} %"


def signed(value: float, decimals: int = 2) -> str:
    """A number with its sign; from 1,000 on without decimals."""
    return f"{value:+,.{0 if abs(value) >= 1000 else decimals}f}".replace("-", "\N{MINUS SIGN}")
