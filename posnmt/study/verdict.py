"""Verdicts on the claims of a paper, from the figures of a study.

A comparison is a difference of means over seeds, with an interval that accounts for the sampling of sentences and of
seeds (`posnmt.study.contrast`). It is `supported` if the entire interval agrees with the claim, `not supported` if the
entire interval contradicts it, and `undecided` otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from posnmt.metrics.scores import TITLES
from posnmt.study.claims import SPEEDS, Claim, Comparison, Figures, Scale
from posnmt.study.contrast import Contrast, Estimate, Term
from posnmt.study.evidence import Evidence, Output, Variant

if TYPE_CHECKING:
    import numpy as np

Word = Literal["supported", "not supported", "undecided"]
Resolve = Callable[[str], Variant]
LEVEL = 0.95
# The level of the interval that corresponds to two one-sided tests at 5 % (Schuirmann 1987).
EQUAL_LEVEL = 0.90
# With 10 sentences, "95 %" bootstrap intervals cover the true value 9 times in 10; with 40, their coverage is correct.
FEWEST_SENTENCES = 20
UNITS = {**TITLES, "length_difference": "subwords", "length_ratio": "of the reference's length"}
MEASURES = {
    **UNITS, "length_difference": "length difference", "length_ratio": "length ratio",
    "training_speed": "training speed", "decoding_speed": "decoding speed",
}  # fmt: skip


@dataclass(frozen=True)
class Decision:
    """The result of one comparison.

    Attributes:
        comparison: of the claim.
        asked: the comparison in words.
        word: the verdict.
        why: the reason, with the figures.
        value: `of` - `than`; of a relative comparison, `of` / `than` - 1; None: not measured.
        low, high: the interval of the asked level, 95 % of claims; None if there is none.
        freedom: its degrees of freedom, infinite for a normal interval; None if there is none.
    """

    comparison: Comparison
    asked: str
    word: Word
    why: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    freedom: float | None = None

    @property
    def sentence(self) -> str:
        """The comparison, the verdict and the reason."""
        return f"{self.asked}: {self.word}; {self.why}"


@dataclass(frozen=True)
class Verdict:
    """The result of a claim: supported if all comparisons are, not supported if any is not, undecided otherwise."""

    claim: Claim
    comparisons: list[Decision]

    @property
    def word(self) -> Word:
        """The verdict."""
        words = {decision.word for decision in self.comparisons}
        if words == {"supported"}:
            return "supported"
        return "not supported" if "not supported" in words else "undecided"

    @property
    def why(self) -> str:
        """The reason of a single comparison, or the number of comparisons with the verdict and the first of them."""
        first, *others = [decision for decision in self.comparisons if decision.word == self.word]
        if len(self.comparisons) == 1:
            return first.why
        if self.word == "supported":
            return f"all {len(self.comparisons)} comparisons are supported"
        more = f"; and {len(others)} more" if others else ""
        return f"{1 + len(others)} of {len(self.comparisons)} comparisons {self.word}: {first.asked}: {first.why}{more}"


class _Undecidable(Exception):
    """A comparison cannot be decided; the message is the reason."""


def decide(
    claim: Claim, evidence: Mapping[str, Evidence], resolve: Resolve, scale: Scale, level: float = LEVEL
) -> Verdict:
    """The verdict on a claim.

    Args:
        claim: of the paper.
        evidence: analysis -> its outputs and their counts, for the finished analyses.
        resolve: parses `system/training`, or a system alone.
        scale: of the study.
        level: of the intervals; above `LEVEL` where comparisons are chosen after a look at the figures.
    """
    return Verdict(claim, [_decide(comparison, evidence, resolve, scale, level) for comparison in claim.holds_if])


def asked(comparison: Comparison, scale: Scale) -> str:
    """A comparison in words: "BLEU of relative (longer) higher than of transformer (longer), by more than 1 BLEU"."""
    than = f"of {_figure(comparison.than, scale)}" if comparison.than else "0"
    relation = {"higher": "higher than", "lower": "lower than", "equal": "equal to"}[comparison.is_]
    margin = comparison.within or comparison.by
    amount = _percent(margin) if comparison.relative else f"{margin:g} {_unit(comparison.measure)}"
    by = f", within {amount}" if comparison.within else f", by more than {amount}" if margin else ""
    return f"{MEASURES[comparison.measure]} of {_figure(comparison.of, scale)} {relation} {than}{by}"


def _figure(figures: Figures, scale: Scale) -> str:
    """One side of a comparison in words."""
    name = figures.system + (f" \N{MINUS SIGN} {figures.minus}" if figures.minus else "")
    lengths = figures.lengths_at(scale)
    where = "" if lengths in ("all", None) else lengths if isinstance(lengths, str) else _range(*lengths)
    about = [part for part in (where, f"{_percent(figures.share)} swapped" if figures.share else "") if part]
    return f"{name} ({', '.join(about)})" if about else name


def _decide(
    comparison: Comparison, evidence: Mapping[str, Evidence], resolve: Resolve, scale: Scale, level: float
) -> Decision:
    """The verdict on a comparison."""
    words, value = asked(comparison, scale), None
    try:
        if comparison.analysis not in evidence:
            raise _Undecidable(f"the analysis {comparison.analysis} was not made")
        analysed = evidence[comparison.analysis]
        sides = [_Side.of(figures, analysed, resolve, scale) for figures in comparison.sides]
        contrast = _contrast(comparison, analysed, sides)
        basis = _basis(comparison, sides)
        value = _value(contrast)
        _check_size(comparison, sides, basis, value)
        estimate = contrast.estimate()
        if not estimate.variance > 0:
            raise _Undecidable(f"{basis}: no figure varies, so that nothing is known of chance")
    except _Undecidable as reason:
        return Decision(comparison, words, "undecided", str(reason), value)
    low, high = estimate.interval(level)
    why = f"{basis}: {_interval(comparison, estimate, level)}"
    return Decision(comparison, words, _word(comparison, estimate, level), why, value, low, high, estimate.freedom)


def _word(comparison: Comparison, estimate: Estimate, level: float) -> Word:
    """The verdict that follows from the intervals."""
    low, high = estimate.interval(level)
    if comparison.within is not None:
        inner_low, inner_high = estimate.interval(EQUAL_LEVEL)
        if -comparison.within < inner_low and inner_high < comparison.within:
            return "supported"
        return "not supported" if low > comparison.within or high < -comparison.within else "undecided"
    if comparison.is_ == "lower":
        low, high = -high, -low
    if low > comparison.by:
        return "supported"
    return "not supported" if high < comparison.by else "undecided"


@dataclass(frozen=True)
class _Side:
    """The data of one side of a comparison.

    Attributes:
        outputs: for each of its systems, the variant, and seed -> index of the output.
        chosen: `[N]` mask of the sentences of its lengths.
        lengths: in words, as they follow "214 sentences"; empty for all lengths.
    """

    outputs: list[tuple[Variant, dict[int, int]]]
    chosen: np.ndarray
    lengths: str

    @classmethod
    def of(cls, figures: Figures, evidence: Evidence, resolve: Resolve, scale: Scale) -> _Side:
        """The data of a side.

        Raises:
            _Undecidable: they are incomplete.
        """
        variants = [resolve(text) for text in figures.variants]
        outputs = [(variant, _places(evidence, variant, figures.share)) for variant in variants]
        first, last = _ends(figures, [evidence.outputs[place] for place in outputs[0][1].values()], scale)
        lengths = evidence.source_lengths
        chosen = (lengths >= (first or 0)) & (lengths <= (math.inf if last is None else last))
        return cls(outputs, chosen, _range(first, last))


def _places(evidence: Evidence, variant: Variant, share: float) -> dict[int, int]:
    """Seed -> index of a variant's output, in the order of the seeds; no seed of the analysis may be missing."""
    places = evidence.places(variant, share)
    seeds = sorted({output.seed for output in evidence.outputs})
    if missing := [seed for seed in seeds if seed not in places]:
        which = "/".join(variant) + (f" with {_percent(share)} of the words swapped" if share else "")
        of_seeds = f", seed {', '.join(map(str, missing))}" if places else ""
        raise _Undecidable(f"there is no output of {which}{of_seeds}: it was not run, or it failed")
    return {seed: places[seed] for seed in seeds}


def _ends(figures: Figures, outputs: Sequence[Output], scale: Scale) -> tuple[int | None, int | None]:
    """The first and last source length that a side is measured on; None: open."""
    lengths = figures.lengths_at(scale)
    if lengths is None:
        raise _Undecidable(f"the claim names no lengths for the scale {scale}")
    if not isinstance(lengths, str):
        return lengths[0], lengths[1]
    if lengths == "all":
        return None, None
    trained = [output.trained_lengths for output in outputs if output.trained_lengths is not None]
    if len(trained) < len(outputs):
        raise _Undecidable(f"the source lengths in the training of {figures.system} are not known")
    shortest, longest = min(first for first, _ in trained), max(last for _, last in trained)
    return {"seen": (shortest, longest), "longer": (longest + 1, None), "shorter": (None, shortest - 1)}[lengths]


def _contrast(comparison: Comparison, evidence: Evidence, sides: Sequence[_Side]) -> Contrast:
    """The comparison as a contrast of means over seeds."""
    terms = [
        Term(variant, list(seeds.values()), side.chosen, sign, than=number == 1)
        for number, side in enumerate(sides)
        for sign, (variant, seeds) in zip((1, -1), side.outputs, strict=False)
    ]
    if comparison.measure not in SPEEDS:
        if comparison.measure not in evidence.measures:
            raise _Undecidable(f"the analysis {comparison.analysis} does not measure {comparison.measure}")
        if not all(side.chosen.any() for side in sides):
            empty = next(side.lengths for side in sides if not side.chosen.any())
            raise _Undecidable(f"the test has no sentences {empty}")
        return Contrast(evidence, comparison.measure, terms, comparison.relative)
    figures = [[getattr(evidence.outputs[place], comparison.measure) for place in term.places] for term in terms]
    for term, of_term in zip(terms, figures, strict=True):
        if None in of_term:
            what = MEASURES[comparison.measure]
            raise _Undecidable(f"the {what} of {'/'.join(term.variant)} was not measured")
    return Contrast(evidence, None, terms, comparison.relative, figures)


def _value(contrast: Contrast) -> float:
    """The value of a contrast, if it is defined."""
    _, than = contrast.sides
    if contrast.relative and not than > 0:
        raise _Undecidable(f"what it is compared with is {_signed(than)}, and nothing is a share of that")
    if math.isnan(contrast.value):
        raise _Undecidable("the figure is not defined: there is nothing to divide by")
    return contrast.value


def _check_size(comparison: Comparison, sides: Sequence[_Side], basis: str, value: float) -> None:
    """Raise `_Undecidable` if there are too few seeds or sentences for an interval."""
    measured = f"{basis}: {_amount(comparison, value)}"
    if any(len(seeds) < 2 for side in sides for _, seeds in side.outputs):
        raise _Undecidable(f"{measured}, and one seed says nothing of others")
    if comparison.measure not in SPEEDS and any(side.chosen.sum() < FEWEST_SENTENCES for side in sides):
        raise _Undecidable(f"{measured}, and fewer than {FEWEST_SENTENCES} sentences say nothing of others")


def _basis(comparison: Comparison, sides: Sequence[_Side]) -> str:
    """The data behind a value: "3 seeds a system, 214 sentences longer than 49 subwords"."""
    seeds = len(sides[0].outputs[0][1])
    basis = f"{seeds} seed{'s' if seeds > 1 else ''} a system"
    if comparison.measure in SPEEDS:
        return basis
    return f"{basis}, {' and '.join(dict.fromkeys(_counted(side) for side in sides))}"


def _counted(side: _Side) -> str:
    """The number of sentences that a side is measured on, and their lengths."""
    count = int(side.chosen.sum())
    return f"{count:,} sentence{'' if count == 1 else 's'} {side.lengths}".rstrip()


def _range(first: int | None, last: int | None) -> str:
    """A range of lengths, as it follows "sentences"; empty for all lengths."""
    if last is None:
        return "" if first is None else f"longer than {first - 1} subwords"
    return f"of {first or 1} to {last} subwords"


def _interval(comparison: Comparison, estimate: Estimate, level: float) -> str:
    """The value with its interval; in a comparison for equality, also that of the two one-sided tests."""
    levels = (EQUAL_LEVEL, level) if comparison.within is not None else (level,)
    intervals = [(each, [_number(comparison, end) for end in estimate.interval(each)]) for each in levels]
    phrases = [f"{each * 100:.3g} % interval {low} to {high}" for each, (low, high) in intervals]
    return ", ".join([_amount(comparison, estimate.value), *phrases])


def _amount(comparison: Comparison, value: float) -> str:
    """A value with its unit."""
    return f"{_number(comparison, value)} {'%' if comparison.relative else _unit(comparison.measure)}"


def _unit(measure: str) -> str:
    return UNITS.get(measure, "source tokens a second")


def _number(comparison: Comparison, value: float) -> str:
    """A value with its sign; a relative one in per cent."""
    return _signed(100 * value if comparison.relative else value)


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def _signed(value: float) -> str:
    return f"{value:+,.{0 if abs(value) >= 1000 else 2}f}".replace("-", "\N{MINUS SIGN}")
