"""Verdicts on the claims of a paper, from the figures of a study.

A comparison is a difference of means over seeds, with an interval that accounts for the sampling of sentences and of
seeds (`posnmt.study.contrast`). It is `supported` if the entire interval agrees with the claim, `contradicted` if the
entire interval contradicts it, and `undecided` otherwise. Speeds are compared turn by turn (`posnmt.study.speed`). The
primary comparisons of a study are a family: `after_holm` corrects their p for its size (Holm 1979).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from posnmt.evaluation.analyse.bins import FEWEST_SENTENCES
from posnmt.study import wording
from posnmt.study.blocks import Trainings
from posnmt.study.claims import Claim, Comparison, Figures, Scale
from posnmt.study.contrast import Contrast, Term
from posnmt.study.estimate import Estimate, Undecidable, paired
from posnmt.study.evidence import Evidence, Output, Variant
from posnmt.study.loss import LossContrast, ScoredText, on_longer_text
from posnmt.study.measures import LOSS, NEAR_LONGEST, SPEEDS, words
from posnmt.study.speed import Speeds

Word = Literal["supported", "contradicted", "undecided"]
LEVEL = 0.95
# The level of the interval that corresponds to two one-sided tests at 5 % (Schuirmann 1987).
EQUAL_LEVEL = 0.90
MOST_SEEDS = 100
FEWEST_DOCUMENTS = 2
"""Documents of equal size that a test with known documents must count as."""


@dataclass(frozen=True)
class Rules:
    """How the claims of a study are decided.

    Attributes:
        resolve: parses `system/training`, or a system alone.
        scale: of the study.
        label: what a system and its training are called in sentences.
        seeds: the number of seeds that the recipe asks of a variant; None: every seed that any output has.
        floor: BLEU that every compared system must reach on sentences of trained lengths.
        exempt: systems that need not reach it, because a part that they need was left out on purpose.
        speeds: of the variants whose speeds were measured in turn; None: none was.
        joined: the analyses whose lines are several sentences joined.
        level: of the intervals; above `LEVEL` where the figures themselves determine what is compared.
        trainings: which trainings share their seeds, so that their systems are compared in blocks.
        scored: likelihood -> its losses, for the finished ones.
    """

    resolve: Callable[[str], Variant]
    scale: Scale
    label: Callable[[str], str] = str
    seeds: Callable[[Variant], int] | None = None
    floor: float = 0.0
    exempt: Collection[str] = ()
    speeds: Mapping[Variant, Speeds] | None = field(default=None, repr=False)
    level: float = LEVEL
    joined: Collection[str] = ()
    trainings: Trainings = field(default_factory=dict, repr=False)
    scored: Mapping[str, ScoredText] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Decision:
    """The result of one comparison.

    Attributes:
        comparison: of the claim.
        asked: the comparison as a statement.
        word: the verdict.
        why: the reason, with the figures.
        value: `of` - `than`; of a relative comparison, `of` / `than` - 1; None: not measured.
        low, high: the interval, of 95 % for claims; None if there is none.
        freedom: its degrees of freedom, infinite for a normal interval; None if there is none.
        primary: whether this comparison decides the claim.
        p: two-sided, at the margin; of an equality the larger of two one-sided ones. None if there is none.
        welch: the same comparison by Welch's test, with all seeds; None if there is none.
        systems: number of systems of the block that the variance over seeds comes from; 0: from its own systems alone.
        takes: how many seeds would decide it; empty where it is decided, or has no interval.
    """

    comparison: Comparison
    asked: str
    word: Word
    why: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    freedom: float | None = None
    primary: bool = False
    p: float | None = None
    welch: Estimate | None = None
    systems: int = 0
    takes: str = ""

    @property
    def sentence(self) -> str:
        """The verdict, the statement and the reason."""
        begin = {"undecided": "whether ", "contradicted": "that ", "supported": ""}[self.word]
        return f"{self.word.capitalize()}: {begin}{self.asked}. {self.why[0].upper()}{self.why[1:]}."


@dataclass(frozen=True)
class Verdict:
    """The result of a claim: the decision of its test, the first comparison; the others are shown beside it.

    Attributes:
        claim: of the paper.
        comparisons: in the order of the claim.
        holm: the p of the test, corrected for all primary claims of the study; None if the claim is not primary.
    """

    claim: Claim
    comparisons: list[Decision]
    holm: float | None = None

    @property
    def after_holm(self) -> bool:
        """Whether it is still supported after the correction for the number of primary comparisons."""
        return self.word == "supported" and self.holm is not None and self.holm < 1 - LEVEL

    @property
    def primary(self) -> Decision:
        """Return the decision of the test, which is the first comparison."""
        return self.comparisons[0]

    @property
    def word(self) -> Word:
        """Return the verdict: supported, contradicted or undecided."""
        return self.primary.word

    @property
    def why(self) -> str:
        """Return the result of the test as a sentence, with its reason."""
        return self.primary.sentence


def decide(claim: Claim, evidence: Mapping[str, Evidence], rules: Rules) -> Verdict:
    """The verdict on a claim.

    Args:
        claim: of the paper.
        evidence: analysis -> its outputs and their counts, for the finished analyses.
        rules: of the study.
    """
    test, *beside = (_decide(comparison, evidence, rules) for _, comparison in claim.comparisons())
    return Verdict(claim, [replace(test, primary=True), *beside])


def corrected(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Verdicts with the p of their tests corrected by Holm (1979) for all primary claims.

    A test that cannot be decided counts with p = 1.
    """
    primaries = [(place, verdict.primary) for place, verdict in enumerate(verdicts) if verdict.claim.primary]
    family = [(place, 1.0 if test.p is None else test.p) for place, test in primaries]
    adjusted: dict[int, float] = {}
    least = 0.0
    for rank, (place, p) in enumerate(sorted(family, key=lambda each: each[1])):
        least = adjusted[place] = max(least, min(1.0, p * (len(family) - rank)))
    return [replace(verdict, holm=adjusted.get(place)) for place, verdict in enumerate(verdicts)]


def counts(verdicts: Sequence[Verdict]) -> str:
    """How many verdicts there are of each kind: "3 supported (2 after Holm), 1 undecided"."""
    every = Counter(verdict.word for verdict in verdicts)
    kept = sum(verdict.after_holm for verdict in verdicts)
    return ", ".join(
        f"{number} {word}" + (f" ({kept} after Holm)" if word == "supported" else "") for word, number in every.items()
    )


def _decide(comparison: Comparison, evidence: Mapping[str, Evidence], rules: Rules) -> Decision:
    """The decision of a comparison; undecided, with the reason, where there is nothing to decide on."""
    joined = comparison.analysis in rules.joined
    statement, value = wording.asked(comparison, rules.scale, rules.label, joined), None
    welch, systems, more = None, 0, ""
    try:
        if comparison.measure == LOSS:
            losses = _of_losses(comparison, rules)
            value, basis = losses.value, losses.basis
            losses.check(f"{basis}: {wording.amount(comparison, value)}")
            estimate, welch, systems = losses.estimate(), losses.welch(), losses.systems
            more = on_longer_text(losses, rules.level, [rules.label(side.system) for side in comparison.sides])
        elif comparison.measure in SPEEDS:
            _analysed(comparison, evidence, rules)
            estimate, basis = _of_speeds(comparison, rules)
            value = estimate.value
        else:
            analysed = _analysed(comparison, evidence, rules)
            sides = [_Side.of(figures, analysed, rules, comparison.measure) for figures in comparison.sides]
            every = _contrast(comparison, analysed, sides)
            value, basis = _value(every), _basis(sides, every, joined)
            _check_size(sides, every, f"{basis}: {wording.amount(comparison, value)}")
            contrast = _contrast(comparison, analysed, sides, rules.trainings)
            value, basis = _value(contrast), _basis(sides, contrast, joined)
            systems = max((unit.systems for unit in contrast.units if unit.is_block), default=0)
            estimate = contrast.estimate()
            welch = every.estimate() if systems else estimate
        if not estimate.variance > 0:
            raise Undecidable(f"{basis}: no figure varies, so that nothing is known of chance")
    except Undecidable as reason:
        return Decision(comparison, statement, "undecided", str(reason), value)
    low, high = estimate.interval(rules.level)
    levels = (EQUAL_LEVEL, rules.level) if comparison.within is not None else (rules.level,)
    word, p = word_of(comparison, estimate, rules.level), p_of(comparison, estimate)
    why = f"{basis}: {wording.with_intervals(comparison, estimate, levels)}, p {shown_p(p)}"
    if systems and welch is not None and welch.variance > 0:
        why += f"; by Welch's test {wording.with_intervals(comparison, welch, levels)}"
    asks_seeds = word == "undecided" and comparison.measure not in SPEEDS
    takes = what_it_takes(comparison, estimate, rules.level) if asks_seeds else ""
    why += "".join(f"; {part}" for part in (takes, more) if part)
    return Decision(
        comparison, statement, word, why, value, low, high, estimate.freedom, False, p, welch, systems, takes
    )


def p_of(comparison: Comparison, estimate: Estimate) -> float:
    """The two-sided p at the margin; of an equality the larger of two one-sided ones (Schuirmann 1987)."""
    if comparison.within is None:
        return estimate.p(-comparison.by if comparison.is_ == "lower" else comparison.by)
    within = comparison.within
    below, above = estimate.p(within) / 2, estimate.p(-within) / 2
    return max(below if estimate.value < within else 1 - below, above if estimate.value > -within else 1 - above)


def shown_p(p: float) -> str:
    """A p-value with two significant digits, and no zeros that say nothing."""
    return "< 0.0001" if p < 0.0001 else f"= {p:.2g}" if p < 0.995 else "= 1"


def word_of(comparison: Comparison, estimate: Estimate, level: float = LEVEL) -> Word:
    """The verdict that follows from an estimate's intervals."""
    low, high = estimate.interval(level)
    if comparison.within is not None:
        inner_low, inner_high = estimate.interval(EQUAL_LEVEL)
        if -comparison.within < inner_low and inner_high < comparison.within:
            return "supported"
        return "contradicted" if low > comparison.within or high < -comparison.within else "undecided"
    if comparison.is_ == "lower":
        low, high = -high, -low
    if low > comparison.by:
        return "supported"
    return "contradicted" if high < comparison.by else "undecided"


def what_it_takes(comparison: Comparison, estimate: Estimate, level: float) -> str:
    """How many seeds would decide a comparison if its value and its variances stayed as they are."""
    given = ", if the difference stayed as it is"
    if word_of(comparison, estimate.with_seeds(math.inf), level) == "undecided":
        return f"no number of seeds would decide it on so few sentences{given}"
    fewest = min(part.seeds for part in estimate.over_seeds) + 1
    for seeds in range(fewest, MOST_SEEDS + 1):
        if word_of(comparison, estimate.with_seeds(seeds), level) != "undecided":
            return f"some {seeds} seeds would decide it{given}"
    return f"more than {MOST_SEEDS} seeds would be needed to decide it{given}"


def _analysed(comparison: Comparison, evidence: Mapping[str, Evidence], rules: Rules) -> Evidence:
    """The analysis of a comparison, whose systems have learned enough to be compared.

    Raises:
        Undecidable: it was not made, or a system is below the floor.
    """
    if comparison.analysis not in evidence:
        raise Undecidable(f"the analysis {comparison.analysis} was not made")
    _check_floor(comparison, evidence[comparison.analysis], rules)
    return evidence[comparison.analysis]


def _of_losses(comparison: Comparison, rules: Rules) -> LossContrast:
    """The contrast of losses.

    Raises:
        Undecidable: models were not scored, or not on the class of text.
    """
    if comparison.analysis not in rules.scored:
        raise Undecidable(f"the likelihood {comparison.analysis} was not made")
    scored, places = rules.scored[comparison.analysis], {}
    if scored.effects is None:
        raise Undecidable("the systems have different subwords, whose losses are not compared")
    for name in (side.system for side in comparison.sides):
        variant = rules.resolve(name)
        has = scored.places(variant)
        seeds = sorted(has) if rules.seeds is None else range(1, rules.seeds(variant) + 1)
        places[variant] = _complete(has, seeds, rules.label(name), "score")
        if not places[variant]:
            raise Undecidable(f"there is no score of {rules.label(name)}: it is not finished, or it failed")
    assert comparison.class_ is not None  # as `Comparison` has checked
    return LossContrast.of(scored, comparison.class_, places, rules.trainings)


def _check_floor(comparison: Comparison, evidence: Evidence, rules: Rules) -> None:
    """Raise `Undecidable` if a system has learned too little for its differences from others to mean anything.

    This is judged by BLEU in the comparison's own analysis: on sentences of trained lengths, or on all sentences if the
    trained lengths are not known or too few sentences have them.
    """
    measure = next((name for name in ("multi-bleu", "bleu") if name in evidence.measures), None)
    if measure is None or not rules.floor:
        return
    for text in dict.fromkeys(name for side in comparison.sides for name in side.variants):
        variant = rules.resolve(text)
        places = list(evidence.places(variant, 0.0).values())
        if variant[0] in rules.exempt or not places:
            continue
        sentences, where = np.empty(0, int), "sentences of trained lengths"
        with suppress(Undecidable):  # trained lengths that are not known concern only what is asked on them
            ends = _ends(Figures(system=text, lengths="seen"), [evidence.outputs[place] for place in places], rules)
            sentences = np.flatnonzero(_within(evidence, *ends))
        if len(sentences) < FEWEST_SENTENCES:
            sentences, where = np.arange(len(evidence.source_lengths)), "the test"
        table = evidence.table(measure, sentences, places)
        score = float(table.measure(table.rows.sum(axis=0))[measure].mean())
        if score < rules.floor:
            shown = math.floor(10 * score) / 10  # not rounded up to the floor
            raise Undecidable(
                f"below the floor: {rules.label(text)} has {shown:.1f} BLEU on {where}, and below "
                f"{rules.floor:g} a system has learned too little for differences to mean anything"
            )


def _of_speeds(comparison: Comparison, rules: Rules) -> tuple[Estimate, str]:
    """The contrast of two speeds that were measured in turn, and the data that it is based on, in words."""
    figures = []
    for side in comparison.sides:
        measured = (rules.speeds or {}).get(rules.resolve(side.system))
        if measured is None or len(measured[comparison.measure]) < 2:
            what, name = words(comparison.measure), rules.label(side.system)
            raise Undecidable(
                f"the {what} of {name} was not measured in turn with the others, and speeds of different times prove "
                "nothing"
            )
        figures.append(measured[comparison.measure])
    turns = wording.counted([len(each) for each in figures], "turn")
    return paired(figures[0], figures[1], comparison.relative), f"in {turns} of one process"


@dataclass(frozen=True)
class _Side:
    """The data of one side of a comparison.

    Attributes:
        outputs: for each of its systems, the variant, and seed -> index of the output.
        chosen: `[N]` mask of the sentences of its lengths; for `near_longest` their references are longer than any
            target in training.
        lengths: in words, as they follow "214 sentences"; empty for all lengths.
    """

    outputs: list[tuple[Variant, dict[int, int]]]
    chosen: np.ndarray
    lengths: str

    @classmethod
    def of(cls, figures: Figures, evidence: Evidence, rules: Rules, measure: str) -> _Side:
        """The data of a side.

        Raises:
            Undecidable: they are incomplete.
        """
        outputs = [(rules.resolve(text), _places(evidence, text, figures.share, rules)) for text in figures.variants]
        of_system = [evidence.outputs[place] for place in outputs[0][1].values()]
        first, last = _ends(figures, of_system, rules)
        chosen, lengths = _within(evidence, first, last), wording.span(first, last)
        if measure == NEAR_LONGEST:
            known = [evidence.outputs[place].longest_target for _, places in outputs for place in places.values()]
            if None in known:
                raise Undecidable(f"the target lengths in the training of {rules.label(figures.system)} are not known")
            longest = max(output.longest_target or 0 for output in of_system)
            chosen = chosen & (evidence.counts[:, 0, -1] > longest)
            lengths = f"{lengths} {wording.LONGER_REFERENCE}".lstrip()
        return cls(outputs, chosen, lengths)


def _within(evidence: Evidence, first: int | None, last: int | None) -> np.ndarray:
    """`[N]` mask of the sentences of some source lengths; None: open."""
    lengths = evidence.source_lengths
    return (lengths >= (first or 0)) & (lengths <= (math.inf if last is None else last))


def _places(evidence: Evidence, text: str, share: float, rules: Rules) -> dict[int, int]:
    """Seed -> index of a variant's output, in the order of the seeds.

    Raises:
        Undecidable: a seed is missing.
    """
    variant = rules.resolve(text)
    places = evidence.places(variant, share)
    seeds = sorted({output.seed for output in evidence.outputs})
    if rules.seeds is not None:
        seeds = list(range(1, rules.seeds(variant) + 1))
    which = rules.label(text) + (f" with {wording.percent(share)} of the words swapped" if share else "")
    return _complete(places, seeds, which, "output")


def _complete(places: Mapping[int, int], seeds: Sequence[int], which: str, what: str) -> dict[int, int]:
    """Seed -> index, of all seeds.

    Args:
        places: seed -> index, of the seeds that there are.
        seeds: those that the recipe asks for.
        which: the system, in words.
        what: `output` or `score`: what the indices are of, for messages.

    Raises:
        Undecidable: one is missing.
    """
    if missing := [seed for seed in seeds if seed not in places]:
        if not places or len(missing) == 1:
            of_seed = f", seed {missing[0]}" if places else ""
            raise Undecidable(f"there is no {what} of {which}{of_seed}: it is not finished, or it failed")
        of_seeds = " and ".join([", ".join(map(str, missing[:-1])), str(missing[-1])])
        raise Undecidable(f"there are no {what}s of {which}, seeds {of_seeds}: they are not finished, or they failed")
    return {seed: places[seed] for seed in seeds}


def _ends(figures: Figures, outputs: Sequence[Output], rules: Rules) -> tuple[int | None, int | None]:
    """The first and last source length that a side is measured on; None: open."""
    lengths = figures.lengths_at(rules.scale)
    if lengths is None:
        raise Undecidable(f"the claim names no lengths for the scale {rules.scale}")
    if not isinstance(lengths, str):
        return lengths[0], lengths[1]
    if lengths == "all":
        return None, None
    trained = [output.trained_lengths for output in outputs if output.trained_lengths is not None]
    if len(trained) < len(outputs):
        raise Undecidable(f"the source lengths in the training of {rules.label(figures.system)} are not known")
    shortest, longest = min(first for first, _ in trained), max(last for _, last in trained)
    return {"seen": (shortest, longest), "longer": (longest + 1, None), "shorter": (None, shortest - 1)}[lengths]


def _contrast(
    comparison: Comparison, evidence: Evidence, sides: Sequence[_Side], trainings: Trainings | None = None
) -> Contrast:
    """The comparison as a contrast of means over seeds; without trainings that of Welch's test."""
    if comparison.measure not in evidence.measures:
        raise Undecidable(f"the analysis {comparison.analysis} does not measure {comparison.measure}")
    if not all(side.chosen.any() for side in sides):
        empty = next(side.lengths for side in sides if not side.chosen.any())
        raise Undecidable(f"the test has no sentences {empty}")
    terms = [
        Term(variant, outputs, side.chosen, sign, number == 1, figures.share)
        for number, (side, figures) in enumerate(zip(sides, comparison.sides, strict=True))
        for sign, (variant, outputs) in zip((1, -1), side.outputs, strict=False)
    ]
    return Contrast.of(evidence, comparison.measure, terms, comparison.relative, trainings)


def _value(contrast: Contrast) -> float:
    """The value of a contrast.

    Raises:
        Undecidable: it is not defined.
    """
    _, than = contrast.sides
    if contrast.relative and not than > 0:
        raise Undecidable(f"what it is compared with is {wording.signed(than)}, and nothing is a share of that")
    if math.isnan(contrast.value):
        raise Undecidable("the figure is not defined: there is nothing to divide by")
    return contrast.value


def _check_size(sides: Sequence[_Side], contrast: Contrast, measured: str) -> None:
    """Raise `Undecidable` if there are too few seeds, sentences or documents for an interval.

    Args:
        sides, contrast: with all seeds.
        measured: the value and what it is based on, in words.
    """
    if any(len(seeds) < 2 for side in sides for _, seeds in side.outputs):
        raise Undecidable(f"{measured}, and one seed says nothing of others")
    if any(side.chosen.sum() < FEWEST_SENTENCES for side in sides):
        raise Undecidable(f"{measured}, and fewer than {FEWEST_SENTENCES} sentences say nothing of others")
    if contrast.documents is not None and contrast.documents < FEWEST_DOCUMENTS:
        raise Undecidable(
            f"{measured}, and fewer than {FEWEST_DOCUMENTS} documents of equal size say nothing of others"
        )


def _basis(sides: Sequence[_Side], contrast: Contrast, joined: bool) -> str:
    """The data behind a value: "on 214 sentences of more than 49 subwords, with 3 seeds of each system"."""
    seeds = wording.counted([len(term.outputs) for term in contrast.terms], "seed")
    sentences = " against ".join(dict.fromkeys(_counted(side, joined) for side in sides))
    blocks = [unit.systems for unit in contrast.units if unit.is_block]
    blocked = (
        f" in {'a block' if len(blocks) == 1 else 'blocks'} of {wording.counted(blocks, 'system')}" if blocks else ""
    )
    if contrast.documents is not None:
        sentences += f" in documents that count as {contrast.documents:.0f} of equal size"
    return f"on {sentences}, with {seeds} of each system{blocked}"


def _counted(side: _Side, joined: bool) -> str:
    """The number of sentences, or of joined lines, that a side is measured on, and their lengths."""
    count = int(side.chosen.sum())
    return f"{count:,} {wording.LINE[joined]}{'' if count == 1 else 's'} {side.lengths}".rstrip()
