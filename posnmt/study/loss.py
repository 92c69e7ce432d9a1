"""Differences between systems in the loss of references, and their variance over documents and seeds.

The variance is that of `analyse.crossed`: seeds and documents are both random. Systems are compared seed by seed. Where
enough systems share their seeds, the variance over seeds is moderated (`posnmt.study.blocks`).

Legend: M models, R seeds, G documents, B systems of a block.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from posnmt.evaluation.analyse.crossed import crossed
from posnmt.evaluation.analyse.jackknife import Statistic
from posnmt.evaluation.analyse.length_effects import LengthEffects, Measured
from posnmt.evaluation.analyse.zones import Support
from posnmt.study import wording
from posnmt.study.blocks import Trainings, Unit, Variant, paired_unit
from posnmt.study.claims import TextClass
from posnmt.study.estimate import Estimate, Part, Undecidable, moderated_parts

OTHER: dict[TextClass, TextClass] = {"D1": "D2", "D2": "D1"}
"""Each of the two designs, and the one that must agree with it before anything is said about longer text."""


@dataclass(frozen=True)
class ScoredText:
    """The losses of models on the references of one text: a finished likelihood of the recipe.

    Attributes:
        effects: every figure; None if the systems have different subwords.
        labels: system and training -> its name in `effects`.
    """

    effects: LengthEffects | None
    labels: Mapping[Variant, str]

    def places(self, variant: Variant) -> dict[int, int]:
        """Seed -> index of the model, for a system and training, in the order of the seeds."""
        models = [] if self.effects is None else self.effects.models
        found = {model.seed: place for place, model in enumerate(models) if model.system == self.labels.get(variant)}
        return dict(sorted(found.items()))

    def statistic(self, text_class: TextClass) -> Statistic | None:
        """The figure of every model on a class of subwords; None if the text has no such subwords."""
        figure = None if self.effects is None else _of_class(self.effects, text_class)
        return None if figure is None else figure.statistic


def _of_class(effects: LengthEffects, text_class: TextClass) -> Measured | None:
    """The figure of a zone or a design; a shift is found by its side, whatever its number."""
    named = {figure.bin: figure for figure in effects.zones} | effects.designs
    shifted = (figure for name, figure in effects.designs.items() if name.startswith(f"{text_class} +"))
    return named.get(text_class) or next(shifted, None)


@dataclass(frozen=True)
class LossContrast:
    """The loss of a system on a class of subwords, or the difference of the losses of two systems.

    Attributes:
        scored: the text.
        text_class: the class of its subwords.
        statistic: the figure of every model on this class.
        variants: the system, and the other one if there is one.
        own: system -> seed -> index of its model, with all seeds.
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
            own: system -> seed -> index of its model, in the order of the comparison.
            trainings: of all systems that were scored.

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
        """The sentences and documents that it rests on."""
        return self.statistic.support

    @property
    def value(self) -> float:
        """The contrast of the means over the seeds that all of its systems have."""
        return float(self._of(self.statistic.whole).mean())

    @property
    def systems(self) -> int:
        """The number of systems that the variance over seeds is estimated from; 0: from its own systems alone."""
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
        documents, by_seed, both = crossed(self._of(self.statistic.whole), self._without(), self.support).parts
        seeds = len(self.unit.seeds)
        parts = self._moderated() if self.unit.peers else [Part(by_seed, seeds - 1, seeds)]
        return _combined(self.value, documents, parts, both, self.support)

    def welch(self) -> Estimate:
        """The contrast of the means over all seeds of each system, with the variance of each over its own seeds."""
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
        """The same contrast in the design that must agree with this one; None if the text does not have that design."""
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
        """The parts of the variance over seeds, estimated from all systems of the block."""
        unit, present = self.unit, self.unit.present
        figures = np.full((unit.systems, len(unit.seeds), 1), np.nan)
        for row, variant in enumerate(unit.members):
            places = self.scored.places(variant)
            for column, seed in enumerate(unit.seeds):
                if present[row, column]:
                    figures[row, column] = self.statistic.whole[places[seed]]
        weights = np.zeros((unit.systems, 1))
        weights[[unit.members.index(variant) for variant in self.variants], 0] = [1, -1][: len(self.variants)]
        return [*moderated_parts(figures, weights, np.isfinite(figures[..., 0]))]


def _combined(value: float, documents: float, over_seeds: Sequence[Part], both: float, support: Support) -> Estimate:
    """An estimate whose documents and seeds are crossed; see `posnmt.evaluation.analyse.crossed.crossed`.

    Args:
        value: the estimate.
        documents: V_g, the variance over documents.
        over_seeds: V_r in parts.
        both: V_gr, which is counted in both.
        support: of the statistic.
    """
    by_seed, freedom = sum(part.variance for part in over_seeds), support.effective - 1
    total = max(documents + by_seed - both, documents, by_seed)
    spread = documents**2 / freedom + sum(part.variance**2 / part.freedom for part in over_seeds)
    return Estimate(value, total, total**2 / spread if spread else math.inf, tuple(over_seeds), freedom)


def on_longer_text(contrast: LossContrast, level: float, names: Sequence[str]) -> str:
    """What a decided difference in D1 or D2 says about longer text: nothing, unless both have the same sign.

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
