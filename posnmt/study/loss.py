"""Differences between systems in what they predict of references, and their variance over documents and seeds.

The variance is that of `analyse.crossed`: seeds and documents are both random. Systems are compared seed by
seed; where trainings of enough systems share their seeds, the variance over seeds is moderated (`posnmt.study.blocks`).

Legend: M models, R seeds, G documents, B systems of a block.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from posnmt.evaluation.analyse.jackknife import Statistic
from posnmt.evaluation.analyse.length_effects import LengthEffects, Measured
from posnmt.evaluation.analyse.moderated import PRIOR, components, moderated
from posnmt.evaluation.analyse.zones import Support
from posnmt.study import wording
from posnmt.study.blocks import Trainings, Unit, Variant, paired_unit
from posnmt.study.claims import TextClass
from posnmt.study.estimate import Estimate, Part, Undecidable

OTHER: dict[TextClass, TextClass] = {"D1": "D2", "D2": "D1"}
"""The designs that must agree before anything is said of longer text."""


@dataclass(frozen=True)
class ScoredText:
    """What models predict of the references of one text: a finished likelihood of the recipe.

    Attributes:
        effects: every figure; None: the systems have different subwords.
        labels: system and training -> what `effects` calls it.
    """

    effects: LengthEffects | None
    labels: Mapping[Variant, str]

    def places(self, variant: Variant) -> dict[int, int]:
        """Seed -> index of the model of a system and training, in the order of the seeds."""
        models = [] if self.effects is None else self.effects.models
        found = {model.seed: place for place, model in enumerate(models) if model.system == self.labels.get(variant)}
        return dict(sorted(found.items()))

    def statistic(self, text_class: TextClass) -> Statistic | None:
        """The figure of every model on a class of subwords; None: it has none of these."""
        figure = None if self.effects is None else _of_class(self.effects, text_class)
        return None if figure is None else figure.statistic


def _of_class(effects: LengthEffects, text_class: TextClass) -> Measured | None:
    """The figure of a zone or a design; that of a shift is found by the side, whatever the number."""
    named = {figure.bin: figure for figure in effects.zones} | effects.designs
    shifted = (figure for name, figure in effects.designs.items() if name.startswith(f"{text_class} +"))
    return named.get(text_class) or next(shifted, None)


@dataclass(frozen=True)
class LossContrast:
    """The loss of a system minus that of another, or that of one alone, on a class of subwords.

    Attributes:
        scored: the text.
        text_class: of its subwords.
        statistic: the figure of every model on it.
        variants: the system, and the other one if there is one.
        own: of each of them seed -> index of its model, of all its seeds.
        unit: the seeds that they are compared on, and their peers.
        trainings: of all systems that were scored.
    """

    scored: ScoredText
    text_class: TextClass
    statistic: Statistic
    variants: tuple[Variant, ...]
    own: Mapping[Variant, Mapping[int, int]]
    unit: Unit
    trainings: Trainings

    @classmethod
    def of(
        cls, scored: ScoredText, text_class: TextClass, own: Mapping[Variant, Mapping[int, int]], trainings: Trainings
    ) -> LossContrast:
        """The contrast of one or two systems, with the seeds that it uses.

        Args:
            scored, text_class: as above.
            own: of each system in order seed -> index of its model.
            trainings: what is known of the trainings of all systems.

        Raises:
            Undecidable: the text has no such subwords.
        """
        if (statistic := scored.statistic(text_class)) is None:
            raise Undecidable(f"there is no {text_class} of this text")
        known = {
            variant: {seed: each for seed, each in of_seeds.items() if seed in scored.places(variant)}
            for variant, of_seeds in trainings.items()
        }
        unit = paired_unit({variant: [*seeds] for variant, seeds in own.items()}, known)
        return cls(scored, text_class, statistic, tuple(own), own, unit, trainings)

    @property
    def support(self) -> Support:
        """What it rests on."""
        return self.statistic.support

    @property
    def value(self) -> float:
        """The contrast of the means over the seeds that all of its systems have."""
        return float(self._of(self.statistic.whole).mean())

    @property
    def systems(self) -> int:
        """How many say how much seeds vary; 0: its system alone."""
        return self.unit.systems if self.unit.is_block else 0

    @property
    def basis(self) -> str:
        """The data behind it: "on 251 sentences of 38 documents (13 of equal size), with 3 seeds of each system"."""
        support = self.support
        block = f" in a block of {self.systems} systems" if self.systems else ""
        return (
            f"on {support.sentences:,} sentences of {support.documents:,} documents ({support.effective:.0f} of equal"
            f" size), with {wording.counted([len(self.unit.seeds)], 'seed')} of each system{block}"
        )

    def check(self, measured: str) -> None:
        """Raise `Undecidable` if there are too few seeds, sentences or documents for an interval.

        Args:
            measured: the value and what it is based on, in words.
        """
        if len(self.unit.seeds) < 2:
            raise Undecidable(f"{measured}, and one seed says nothing of others")
        if self.support.status != "decided":
            raise Undecidable(f"{measured}, and so few sentences and documents say nothing of others")

    def estimate(self) -> Estimate:
        """The contrast with its variance over documents and seeds, compared seed by seed."""
        from posnmt.evaluation.analyse.crossed import crossed

        documents, by_seed, both = crossed(self._of(self.statistic.whole), self._without(), self.support).parts
        seeds = len(self.unit.seeds)
        parts = self._moderated() if self.unit.peers else [Part(by_seed, seeds - 1, seeds)]
        return _combined(self.value, documents, parts, both, self.support)

    def welch(self) -> Estimate:
        """The contrast of the means over all seeds of each system, with the variance of each over its own seeds."""
        from posnmt.evaluation.analyse.crossed import crossed

        values, without, parts, both = [], [], [], 0.0
        for sign, places in zip((1, -1), (list(self.own[variant].values()) for variant in self.variants), strict=False):
            mean = crossed(self.statistic.whole[places], self.statistic.without[:, places], self.support)
            values.append(sign * mean.value)
            without.append(sign * self.statistic.without[:, places].mean(axis=1))
            parts.append(Part(mean.parts[1], len(places) - 1, len(places)))
            both += mean.parts[2]
        documents, *_ = crossed(np.array([sum(values)]), np.sum(without, axis=0)[:, None], self.support).parts
        return _combined(sum(values), documents, parts, both, self.support)

    def sign(self, level: float) -> int:
        """1 or -1 if it is decided whether the contrast is above or below 0, else 0."""
        if len(self.unit.seeds) < 2 or self.support.status != "decided":
            return 0
        low, high = self.estimate().interval(level)
        return int(low > 0) - int(high < 0)

    def of_other(self) -> LossContrast | None:
        """The same in the design that must agree with this one; None: the text has none."""
        other = OTHER.get(self.text_class)
        if other is None or self.scored.statistic(other) is None:
            return None
        return LossContrast.of(self.scored, other, self.own, self.trainings)

    def _of(self, values: np.ndarray) -> np.ndarray:
        """The contrast of each seed `[..., R]`, from the figures of all models `[..., M]`."""
        columns = [[self.own[variant][seed] for seed in self.unit.seeds] for variant in self.variants]
        first: np.ndarray = values[..., columns[0]]
        return first - values[..., columns[1]] if len(columns) > 1 else first

    def _without(self) -> np.ndarray:
        """`[G, R]` the contrast of each seed with each document left out."""
        return self._of(self.statistic.without)

    def _moderated(self) -> list[Part]:
        """The parts of the variance over seeds that the systems of the block tell."""
        unit, seeds = self.unit, len(self.unit.seeds)
        figures = np.full((unit.systems, seeds, 1), np.nan)
        for row, variant in enumerate(unit.members):
            places = self.scored.places(variant)
            for column, seed in enumerate(unit.seeds):
                if seed in unit.peers.get(variant, unit.seeds):
                    figures[row, column] = self.statistic.whole[places[seed]]
        weights = np.zeros((unit.systems, 1))
        weights[[unit.members.index(variant) for variant in self.variants], 0] = [1, -1][: len(self.variants)]
        among = components(figures, weights, np.isfinite(figures[..., 0]))
        own = Part(float(moderated(among.own, among.usual, seeds)), PRIOR + seeds - 1, seeds)
        shared = float(among.shared)
        return [Part(shared, seeds - 1, seeds), own] if shared else [own]


def _combined(value: float, documents: float, over_seeds: Sequence[Part], both: float, support: Support) -> Estimate:
    """An estimate whose documents and seeds are crossed; see `posnmt.evaluation.analyse.crossed.crossed`.

    Args:
        value: the estimate.
        documents: V_g, the variance over documents.
        over_seeds: V_r in parts.
        both: V_gr, what both count.
        support: of the statistic.
    """
    by_seed, freedom = sum(part.variance for part in over_seeds), support.effective - 1
    total = max(documents + by_seed - both, documents, by_seed)
    spread = documents**2 / freedom + sum(part.variance**2 / part.freedom for part in over_seeds)
    return Estimate(value, total, total**2 / spread if spread else math.inf, tuple(over_seeds), freedom)


def on_longer_text(contrast: LossContrast, level: float, names: Sequence[str]) -> str:
    """What a decided difference in D1 or D2 says of longer text: only if both designs are decided with one sign.

    Args:
        contrast: of a comparison.
        level: of intervals.
        names: of its systems.

    Returns:
        The end of a sentence; empty where nothing is decided, or there is no second system.
    """
    sign = contrast.sign(level) if contrast.text_class in OTHER and len(names) > 1 else 0
    if not sign:
        return ""
    design, other = contrast.text_class, OTHER[contrast.text_class]
    agrees = contrast.of_other()
    if agrees is not None and agrees.sign(level) == sign:
        more, less = names if sign > 0 else names[::-1]
        return (
            f"{other} is decided with the same sign, so on longer text {more} loses ground to {less} in predicting the"
            " reference, given a correct prefix"
        )
    has = f"there is no {other}" if agrees is None else f"{other} {_not_the_same(agrees, level)}"
    return f"this stands for design {design} alone: {has}"


def _not_the_same(contrast: LossContrast, level: float) -> str:
    """Why a design does not support the other."""
    if contrast.support.status != "decided":
        return "rests on too few sentences and documents"
    return "is decided with the other sign" if contrast.sign(level) else "is undecided"
