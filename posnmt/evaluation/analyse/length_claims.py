"""The conclusions from likelihood by position in words.

They speak of "longer text" only if D1 and D2 are decided with the same sign; otherwise they name the design.
"""

from __future__ import annotations

from collections.abc import Iterator

from posnmt.config.writing import isolated
from posnmt.evaluation.analyse.crossed import Estimate
from posnmt.evaluation.analyse.length_effects import D1, D2, FILTERS, LengthEffects

SCOPE = (
    "Every figure is of the reference given a correct prefix. It says nothing about search, about the length of"
    " translations or about what they leave out."
)
"""The limits of all these figures."""

PLACES = (
    "target positions that 1 in 10 training pairs reaches to those that fewer than 1 in 1,000 reach, in the same"
    " sentences"
)
"""The places that D1 compares: `LEAST_DENSE` and `LEAST_REACHED` in words."""


def claims(effects: LengthEffects) -> list[str]:
    """A text for each system except the baseline."""
    return [" ".join(_sentences(effects, system)) for system in effects.systems[1:]]


def _sentences(effects: LengthEffects, system: str) -> Iterator[str]:
    """The decision between a system and the baseline, in sentences."""
    within, swapped = (_difference(effects, name, system) for name in (D1, D2))
    signs = [each.sign if each else 0 for each in (within, swapped)]
    if within and swapped and signs[0] and signs[0] == signs[1]:
        more, less = _order(effects, system, signs[0])
        yield (
            f"On longer text, {more} loses ground to {less} in predicting the reference, given a correct prefix:"
            f" {_more(within)} from {PLACES} (D1), and {_more(swapped)} from one short to one long sentence before"
            " (D2)."
        )
    elif within and signs[0]:
        more, less = _order(effects, system, signs[0])
        yield (
            f"From {PLACES}, {more} loses {_more(within)} to {less} in predicting the reference, given a correct"
            f" prefix. This stands for design D1 alone: {_why_not(swapped, 'D2')}."
        )
    elif swapped and signs[1]:
        more, less = _order(effects, system, signs[1])
        yield (
            f"From one short to one long sentence before, {more} loses {_more(swapped)} to {less} in predicting"
            f" the reference, given a correct prefix. This stands for design D2 alone: {_why_not(within, 'D1')}."
        )
    else:
        names = f"{isolated(system)} and {isolated(effects.baseline)}"
        yield f"Nothing is decided between {names}: {_why_not(within, 'D1')}; {_why_not(swapped, 'D2')}."
    if signs[0]:
        yield _robust(effects, system, signs[0])
    if any(each and each.seeds == 1 for each in (within, swapped)):
        yield "These are single models: nothing is said of other seeds."


def _difference(effects: LengthEffects, design: str, system: str) -> Estimate | None:
    """The difference of a system from the baseline in a design; None without this design."""
    figure = effects.designs.get(design)
    return figure.differences[system] if figure else None


def _order(effects: LengthEffects, system: str, sign: int) -> tuple[str, str]:
    """The names of the two systems; the first loses more."""
    names = isolated(system), isolated(effects.baseline)
    return names if sign > 0 else (names[1], names[0])


def _more(estimate: Estimate) -> str:
    """The size of a decided difference, with its interval."""
    ends = sorted(map(abs, estimate.interval() or (0, 0)))
    return f"{abs(estimate.value):.3f} nats a subword (95 % {ends[0]:.3f} to {ends[1]:.3f})"


def _why_not(estimate: Estimate | None, design: str) -> str:
    """Why a design does not support the other."""
    if estimate is None:
        return f"there is no {design}"
    ends, support = estimate.interval(), estimate.support
    if ends is None or support.status != "decided":
        return (
            f"{design} rests on too little, {support.sentences:,} sentences of {support.documents:,} documents that"
            f" count as {support.effective:.0f} equal ones"
        )
    what = "has the other sign" if estimate.sign else "is undecided"
    return f"{design} {what}, {_signed(estimate.value)} (95 % {_signed(ends[0])} to {_signed(ends[1])})"


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "\N{MINUS SIGN}")


def _robust(effects: LengthEffects, system: str, sign: int) -> str:
    """A sentence: whether the decision on D1 stays the same under both filters of suspect references."""
    lost = [
        name.removeprefix(f"{D1} ")
        for name in FILTERS
        if not (each := _difference(effects, name, system)) or each.sign != sign
    ]
    if not lost:
        return "The decision is robust: it stays without references of unusual length and without the worst 5 %."
    return f"The decision is not robust: it does not stay {' or '.join(lost)}."
