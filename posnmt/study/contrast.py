"""Differences of means over seeds, and their variance over sentences and seeds.

Where the documents of the sentences are known, documents are sampled, not sentences.

Legend: T terms, S seeds of a term, N sentences, n those that any term is measured on, G documents, c bootstrap
samples per batch.
Of a block: B systems, R seeds, K classes of sentences (or of swapped sources).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from posnmt.evaluation.analyse.resample import bootstrap_sums
from posnmt.evaluation.analyse.zones import effective_number
from posnmt.study.blocks import Trainings, Unit, units
from posnmt.study.estimate import Estimate, Part, moderated_parts
from posnmt.study.evidence import Evidence, Variant

SAMPLES = 2000
SEED = 1


@dataclass(frozen=True)
class Term:
    """A mean over seeds that a contrast adds or subtracts.

    Attributes:
        variant: the system and its training.
        outputs: seed -> index of its output in the evidence, in the order of the seeds.
        chosen: `[N]` mask of the sentences that it is measured on.
        sign: 1 or -1, its sign on its side.
        than: whether it belongs to `than`, not to `of`.
        share: of the words of its sources that were swapped.
    """

    variant: Variant
    outputs: dict[int, int]
    chosen: np.ndarray
    sign: int
    than: bool
    share: float = 0.0

    @property
    def places(self) -> list[int]:
        """Indices of its outputs, in the order of the seeds."""
        return list(self.outputs.values())


@dataclass(frozen=True)
class Contrast:
    """`of` - `than`, or, if relative, `of` / `than` - 1.

    Attributes:
        evidence: of one analysis.
        measure: one of `evidence.measures`.
        terms: of both sides; at least one of `of`.
        relative: as above.
        units: the systems of the terms, and which of them are compared seed by seed. Each term has the seeds of its
            unit.
    """

    evidence: Evidence
    measure: str
    terms: Sequence[Term]
    relative: bool
    units: Sequence[Unit]

    @classmethod
    def of(
        cls, evidence: Evidence, measure: str, terms: Sequence[Term], relative: bool = False,
        trainings: Trainings | None = None,
    ) -> Contrast:  # fmt: skip
        """The contrast of some terms, with the seeds that it uses.

        Args:
            evidence, measure, relative: as above.
            terms: with all of their seeds.
            trainings: which trainings share their seeds; None: none do.
        """
        seeds: dict[Variant, list[int]] = {}
        for term in terms:
            seeds.setdefault(term.variant, list(term.outputs))
        shares = {term.share for term in terms}
        measured = {
            variant: {
                seed: training
                for seed, training in of_seeds.items()
                if all(seed in evidence.places(variant, share) for share in shares)
            }
            for variant, of_seeds in (trainings or {}).items()
        }
        grouped = units(seeds, measured)
        kept = {variant: unit.seeds for unit in grouped for variant in unit.variants}
        of_units = [replace(term, outputs={seed: term.outputs[seed] for seed in kept[term.variant]}) for term in terms]
        return cls(evidence, measure, of_units, relative, grouped)

    @cached_property
    def scores(self) -> list[np.ndarray]:
        """For each term, the scores `[S]` of its seeds' outputs on the term's sentences."""
        return [self._score(term.chosen, term.places) for term in self.terms]

    @cached_property
    def sides(self) -> tuple[float, float]:
        """The estimates of `of` and `than`; `than` is 0 without terms."""
        of, than = self._sides(np.array([scores.mean() for scores in self.scores]))
        return float(of), float(than)

    @property
    def value(self) -> float:
        """The contrast; NaN if it is undefined."""
        of, than = self.sides
        return of / than - 1 if self.relative else of - than

    def estimate(self) -> Estimate:
        """The contrast and its variance: that over sentences, plus that over the seeds of each unit.

        A unit without peers contributes the variance of its figures over seeds, divided by the number of seeds S, with
        S - 1 degrees of freedom. A unit with peers contributes a moderated variance (`analyse.moderated`). These parts
        contain what a seed does to single sentences; the part over sentences does not.
        """
        over_seeds = [part for unit in self.units for part in self._over_seeds(unit)]
        over_sentences, freedom = self._over_sentences()
        return Estimate.of(self.value, over_sentences, over_seeds, freedom)

    def _sides(self, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`of` and `than` from the terms' means `[..., T]`, both `[...]`."""
        weights = np.array([[term.sign * (term.than == side) for term in self.terms] for side in (False, True)])
        return means @ weights[0], means @ weights[1]

    def _coefficients(self) -> list[float]:
        """The derivative of the contrast with respect to the mean of each term, `[T]`."""
        of, than = self.sides
        by_side = (1 / than, -of / than**2) if self.relative else (1.0, -1.0)
        return [term.sign * by_side[term.than] for term in self.terms]

    def _by_unit(self, scores: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The contribution `[..., S]` of each unit's seeds, from the scores `[..., S]` of each term."""
        weighted = [each * of_term for each, of_term in zip(self._coefficients(), scores, strict=True)]
        return [
            np.sum([w for w, term in zip(weighted, self.terms, strict=True) if term.variant in unit.variants], axis=0)
            for unit in self.units
        ]

    def _own_variances(self) -> list[float]:
        """For each unit, the variance of its mean contribution over its seeds."""
        return [float(part.var(ddof=1)) / len(part) for part in self._by_unit(self.scores)]

    def _over_seeds(self, unit: Unit) -> Iterator[Part]:
        """The parts of the variance that a unit contributes."""
        seeds = len(unit.seeds)
        if not unit.peers:
            yield Part(self._own_variances()[self.units.index(unit)], seeds - 1, seeds)
            return
        yield from moderated_parts(*self._block(unit), unit.present)

    def _block(self, unit: Unit) -> tuple[np.ndarray, np.ndarray]:
        """The figures `[B, R, K]` of all systems of a block, and their weights `[B, K]` in the contrast."""
        own = [number for number, term in enumerate(self.terms) if term.variant in unit.variants]
        of_class: dict[tuple[bytes, float], int] = {}  # class of sentences -> k
        at = {number: of_class.setdefault(self._class(self.terms[number]), len(of_class)) for number in own}
        systems, present = unit.members, unit.present
        figures = np.full((len(systems), len(unit.seeds), len(of_class)), np.nan)
        weights = np.zeros((len(systems), len(of_class)))
        for number, k in at.items():
            term = self.terms[number]
            weights[systems.index(term.variant), k] += self._coefficients()[number]
            for row, system in enumerate(systems):
                places, columns = self.evidence.places(system, term.share), np.flatnonzero(present[row])
                kept = [places[unit.seeds[column]] for column in columns]
                figures[row, columns, k] = self._score(term.chosen, kept)
        return figures, weights

    @staticmethod
    def _class(term: Term) -> tuple[bytes, float]:
        """Identifies the sentences that a term is measured on."""
        return term.chosen.tobytes(), term.share

    def _score(self, chosen: np.ndarray, places: list[int]) -> np.ndarray:
        """The scores of some outputs on some sentences."""
        table = self.evidence.table(self.measure, np.flatnonzero(chosen), places)
        return table.measure(table.rows.sum(axis=0))[self.measure]

    def _over_sentences(self) -> tuple[float, float]:
        """The variance over bootstrap samples of sentences, without the part of the seeds; and its degrees of freedom.

        All outputs share the samples. Samples are drawn from all sentences that any term is measured on, so that terms
        on different lengths share them, too. In a sample, the figures of a unit also vary by what each seed does to
        single sentences. This is already part of the variance over seeds, so it is subtracted here. Sentences are drawn
        one by one, with infinite degrees of freedom, or as whole documents, with G* - 1. Samples of documents vary less
        than other documents would, on average by the factor 1 - 1/G*.
        """
        chosen = np.stack([term.chosen for term in self.terms], axis=1)
        sentences = np.flatnonzero(chosen.any(axis=1))
        # Sentences that the same terms are measured on form a group; a term's sum is the sum of its groups.
        members, groups = np.unique(chosen[sentences], axis=0, return_inverse=True)
        places = sorted({place for term in self.terms for place in term.places})
        table = self.evidence.table(self.measure, sentences, places)
        at = [[places.index(place) for place in term.places] for term in self.terms]
        values, within = [], []
        for of_groups in self._samples(table.rows, sentences, groups.reshape(-1), len(members)):
            scores = []  # [c, S] of each term
            for term, of_term in enumerate(at):
                of_outputs = of_groups[:, members[:, term]][:, :, of_term].sum(axis=1)
                scores.append(table.measure(of_outputs)[self.measure])
            of, than = self._sides(np.stack([of_term.mean(axis=-1) for of_term in scores], axis=-1))
            with np.errstate(divide="ignore", invalid="ignore"):
                values.append(of / than - 1 if self.relative else of - than)
            parts = self._by_unit(scores)
            within.append(np.stack([part.var(axis=-1, ddof=1) / part.shape[-1] for part in parts], axis=-1))
        sampled = np.concatenate(values)
        # Samples without any sentence of some term are not finite, and left out.
        finite = np.isfinite(sampled)
        by_unit = np.concatenate(within)[finite].mean(axis=0)
        counted_twice = (by_unit - self._own_variances()).clip(min=0).sum()
        over_sentences = max(0.0, float(sampled[finite].var(ddof=1) - counted_twice))
        if self.documents is None:
            return over_sentences, math.inf
        return over_sentences * self.documents / (self.documents - 1), self.documents - 1

    @cached_property
    def documents(self) -> float | None:
        """G*, the number of documents of equal size that the sentences count as; None if documents are not known.

        The size of a document is its number of subwords in the reference. If terms have different sentences, this is
        the smallest number of any term.
        """
        if self.evidence.documents is None:
            return None
        lengths = self.evidence.counts[:, 0, -1]  # of the references
        return min(
            effective_number(np.bincount(self.evidence.documents[term.chosen], lengths[term.chosen]))
            for term in self.terms
        )

    def _samples(self, rows: np.ndarray, sentences: np.ndarray, groups: np.ndarray, count: int) -> Iterator[np.ndarray]:
        """The sums `[c, groups, outputs, K]` over each bootstrap sample.

        Args:
            rows: `[n, outputs, K]`.
            sentences: `[n]` their indices.
            groups: `[n]` of each, 0 to `count` - 1.
            count: how many groups there are.
        """
        if self.evidence.documents is None:
            for sums in bootstrap_sums(rows, groups, count, SAMPLES, SEED):
                yield sums[:, 1:]
            return
        names, numbers = np.unique(self.evidence.documents[sentences], return_inverse=True)
        of_documents = np.zeros((len(names), count, *rows.shape[1:]))
        np.add.at(of_documents, (numbers.reshape(-1), groups), rows)
        flat = of_documents.reshape(len(names), -1, rows.shape[-1])
        for sums in bootstrap_sums(flat, np.zeros(len(names), int), 1, SAMPLES, SEED):
            yield sums[:, 1].reshape(-1, count, *rows.shape[1:])
