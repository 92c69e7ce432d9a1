"""Likelihood by position: every figure of every system, and its difference from a baseline, with intervals.

Legend: M models, T subwords, N sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from posnmt.base.errors import UserError
from posnmt.config.writing import isolated
from posnmt.evaluation.analyse.bins import Bin, Mark, TrainedLengths, mark
from posnmt.evaluation.analyse.crossed import Estimate, difference_of, level_of, models_by_seed, shared_seeds
from posnmt.evaluation.analyse.designs import (
    adjusted_contrast,
    index_shift,
    of_tokens,
    source_contrast,
    swap,
    zone_contrast,
)
from posnmt.evaluation.analyse.jackknife import Statistic, Units, mean, subwords
from posnmt.evaluation.analyse.losses import Losses, Scored
from posnmt.evaluation.analyse.suspect_references import unusual_ratios, worst_by_average
from posnmt.evaluation.analyse.zones import SPARSE, ZONES, Support, exposure_at, longest_reached, merged_bins, zones_of

D1, D2, D3, D5 = "D1", "D2", "D3", "D5"
BY_SENTENCE, SPARSE_CONTRAST = "D1 by sentence", "D1 sparse"
FILTERS = {"D1 without unusual lengths": unusual_ratios, "D1 without the worst 5 %": worst_by_average}
"""Name of a design → the sentences that it leaves out."""
END_AXES = {"-ln p of the end at the end": "ends", "p of the end before it": "early_ends"}
"""Measure of the end symbol → its attribute of `Losses`."""


@dataclass(frozen=True)
class Measured:
    """One figure of all systems.

    Attributes:
        axis: the axis of its bin, such as `target position`.
        bin: the label of the bin.
        support: the sentences and documents that it rests on.
        levels: system → its figure, the mean over its seeds.
        differences: system → its figure minus that of the baseline, by seed.
        statistic: the figure of every model, from which any other difference can be computed.
        training: whether training reaches the places of the bin; None: the figure is not by place.
        exposure: the mean exposure of its subwords, if the axis is `target position`.
    """

    axis: str
    bin: str
    support: Support
    levels: dict[str, Estimate]
    differences: dict[str, Estimate]
    statistic: Statistic
    training: Mark | None = None
    exposure: float | None = None


@dataclass(frozen=True)
class LengthEffects:
    """All figures.

    Attributes:
        systems: names, the baseline first.
        models: the models of every statistic, in order.
        overall: the mean loss of all subwords, and bits per character (Mielke 2019), without end symbols.
        zones: by zone of the target position.
        by_source: by zone of the target position, and by whether training reaches the length of the source.
        positions, source_lengths, distances: curves over target positions, over source lengths, and over the number of
            subwords beyond the lengths that training reaches.
        designs: name → D1 and its variants, D2, D3 for each shift, D5; without those that cannot be computed.
        same_positions: D4, by target position.
        ends: -ln p of the end symbol at the end, and its mean probability before the end, by whether training reaches
            the length of the source.
        shifted_ends: the same without and with each shift of the index.
        defined: system → the share of subwords that all of its models have a probability for.
        notes: what was left out or could not be computed, in sentences.
    """

    systems: list[str]
    models: list[Scored]
    overall: list[Measured]
    zones: list[Measured]
    by_source: list[Measured]
    positions: list[Measured]
    source_lengths: list[Measured]
    distances: list[Measured]
    designs: dict[str, Measured]
    same_positions: list[Measured]
    ends: list[Measured]
    shifted_ends: list[Measured]
    defined: dict[str, float]
    notes: list[str]

    @property
    def baseline(self) -> str:
        """The system that the others are compared with."""
        return self.systems[0]

    @property
    def rows(self) -> list[Measured]:
        """Return every figure once, from the overall loss to the end symbol; these are the rows of the CSV."""
        return [
            *self.overall, *self.zones, *self.by_source, *self.positions, *self.source_lengths, *self.distances,
            *self.designs.values(), *self.same_positions, *self.ends, *self.shifted_ends,
        ]  # fmt: skip


def length_effects(
    losses: Losses,
    after_short: Losses | None = None,
    after_long: Losses | None = None,
    shifted: Mapping[str, Losses] | None = None,
    baseline: str | None = None,
) -> LengthEffects:
    """Compute everything that the losses allow.

    Subwords that a model has no probability for (NaN: beyond the end of a finite table) are left out for all models.

    Args:
        losses: of natural sentences.
        after_short, after_long: the losses of the same subwords after a short and after a long sentence of their
            document (D2).
        shifted: name of a shift of the index → losses of sentences that are in `losses`, too (D3).
        baseline: a system; default: that of the first model.

    Raises:
        UserError: there is no such system, or no subword that all models have a probability for.
    """
    systems = _systems(losses, baseline)
    defined, notes = _defined_shares(losses, systems), _seed_notes(losses, systems)
    losses, everywhere = of_tokens(losses, _finite(losses)), losses
    if not len(losses.sentence):
        raise UserError("no subword has a probability under all models", "the losses", "leave out a model")
    compared = _Compared(losses, systems)
    designs = dict(_designs(compared, _swapped(after_short, after_long), shifted or {}))
    return LengthEffects(
        systems, losses.models, _overall(compared), *_zones(compared), *_curves(compared), designs,
        _same_positions(compared), _ends(everywhere, compared),
        _shifted_ends(everywhere, compared, shifted or {}), defined,
        [*notes, *_missing(designs, defined)],
    )  # fmt: skip


@dataclass(frozen=True)
class _Compared:
    """Losses, and the systems that they are compared between, the baseline first."""

    losses: Losses
    systems: list[str]

    def measured(self, axis: str, label: str, statistic: Statistic, training: Mark | None = None) -> list[Measured]:
        """The figure of all systems; none if it is undefined."""
        if not np.isfinite(statistic.whole).all():
            return []
        models, (baseline, *others) = self.losses.models, self.systems
        levels = {system: level_of(statistic, models, system) for system in self.systems}
        differences = {system: difference_of(statistic, models, system, baseline) for system in others}
        return [Measured(axis, label, statistic.support, levels, differences, statistic, training)]

    def bins(self, places: np.ndarray, longest: int | None, start: int = 0) -> Iterator[tuple[Bin, np.ndarray, Mark]]:
        """Merged bins of places `[T]`, each with its mask and its mark, where training reaches up to `longest`."""
        units = subwords(self.losses)
        trained = TrainedLengths(0, longest)
        for each in merged_bins(places, lambda mask: units.chosen(mask).support.status, start):
            yield each, (places >= each.first) & (places <= (each.last or 0)), mark(each, trained) or "seen"


def _systems(losses: Losses, baseline: str | None) -> list[str]:
    """The names of the systems, the baseline first."""
    names = list(models_by_seed(losses.models))
    first = names[0] if baseline is None else baseline
    if first not in names:
        raise UserError(f"there is no system {first!r}", "the baseline", f"choose one of {', '.join(names)}")
    return [first, *(name for name in names if name != first)]


def _finite(losses: Losses) -> np.ndarray:
    """`[T]` whether all models have a probability."""
    return np.asarray(np.isfinite(losses.losses).all(axis=0))


def _defined_shares(losses: Losses, systems: Sequence[str]) -> dict[str, float]:
    """The share of subwords with a probability under all models of each system."""
    finite = np.isfinite(losses.losses)
    places = models_by_seed(losses.models)
    return {name: float(finite[list(places[name].values())].all(axis=0).mean()) for name in systems}


def _seed_notes(losses: Losses, systems: Sequence[str]) -> list[str]:
    """Sentences about the seeds that a comparison with the baseline leaves out."""
    notes, (baseline, *others) = [], systems
    places = models_by_seed(losses.models)
    for other in others:
        shared = set(shared_seeds(losses.models, other, baseline))
        names = f"{isolated(other)} and {isolated(baseline)}"
        if not shared:
            notes.append(f"{names} have no seed in common: their means are compared as if they were two models.")
        elif left := sorted(places[other].keys() ^ places[baseline].keys()):
            seeds = ", ".join(map(str, left))
            notes.append(f"{names} are compared by the seeds that both have; without seed {seeds}.")
    return notes


def _swapped(after_short: Losses | None, after_long: Losses | None) -> Statistic | None:
    """D2 on the subwords that are defined after both sentences."""
    if after_short is None or after_long is None:
        return None
    if after_short.losses.shape == after_long.losses.shape:
        both = _finite(after_short) & _finite(after_long)
        after_short, after_long = of_tokens(after_short, both), of_tokens(after_long, both)
    return swap(after_short, after_long)


def _overall(compared: _Compared) -> list[Measured]:
    """The mean loss, and bits per character over the sentences all of whose subwords are defined."""
    losses, count = compared.losses, len(compared.losses.documents)
    whole = np.bincount(losses.sentence, minlength=count) == losses.target_lengths
    bits = np.stack([np.bincount(losses.sentence, row, minlength=count) for row in losses.losses]) / np.log(2)
    units = Units(bits, losses.characters, np.arange(count), losses.documents).chosen(whole & (losses.characters > 0))
    return [
        *compared.measured("all", "nats per subword", mean(subwords(losses))),
        *compared.measured("all", "bits per character", mean(units)),
    ]


def _zones(compared: _Compared) -> tuple[list[Measured], list[Measured]]:
    """The figures by zone, and by zone for sources whose lengths training reaches and for longer sources."""
    losses, units = compared.losses, subwords(compared.losses)
    zones, seen = zones_of(losses.target_exposure, losses.position), _source_seen(losses)
    by_zone, by_source = [], []
    for number, zone in enumerate(ZONES):
        inside = zones == number
        by_zone += compared.measured("zone", zone, mean(units.chosen(inside)))
        for label, mask in (("source within", seen), ("source beyond", ~seen)):
            by_source += compared.measured("zone, source", f"{zone}, {label}", mean(units.chosen(inside & mask)))
    return by_zone, by_source


def _source_seen(losses: Losses) -> np.ndarray:
    """`[T]` whether training reaches the length of the source of the subword."""
    return np.asarray((losses.source_lengths <= longest_reached(losses.source_exposure))[losses.sentence])


def _curves(compared: _Compared) -> tuple[list[Measured], list[Measured], list[Measured]]:
    """The figures by target position, by source length, and by distance beyond the lengths that training reaches."""
    losses, units = compared.losses, subwords(compared.losses)
    longest = longest_reached(losses.target_exposure)
    exposure = exposure_at(losses.target_exposure, losses.position)
    positions, sources, distances = [], [], []
    for each, inside, training in compared.bins(losses.position, longest - 1):
        figures = compared.measured("target position", each.label, mean(units.chosen(inside)), training)
        positions += [replace(figure, exposure=float(exposure[inside].mean())) for figure in figures]
    lengths = losses.source_lengths[losses.sentence]
    for each, inside, training in compared.bins(lengths, longest_reached(losses.source_exposure)):
        sources += compared.measured("source length", each.label, mean(units.chosen(inside)), training)
    beyond = losses.position - longest + 1
    for each, inside, _ in compared.bins(beyond, None, start=1):
        distances += compared.measured("distance beyond training", each.label, mean(units.chosen(inside)), "unseen")
    return positions, sources, distances


def _designs(
    compared: _Compared, swapped: Statistic | None, shifted: Mapping[str, Losses]
) -> Iterator[tuple[str, Measured]]:
    """The name and the figures of each design."""
    losses = compared.losses
    statistics = {
        D1: zone_contrast(losses),
        BY_SENTENCE: zone_contrast(losses, by="sentence"),
        SPARSE_CONTRAST: zone_contrast(losses, SPARSE),
        **{name: zone_contrast(losses, kept=~flagged(losses)) for name, flagged in FILTERS.items()},
        **({} if swapped is None else {D2: swapped}),
        **{f"{D3} {name}": index_shift(losses, of_tokens(each, _finite(each))) for name, each in shifted.items()},
        D5: adjusted_contrast(losses),
    }
    for name, statistic in statistics.items():
        yield from ((name, figure) for figure in compared.measured("design", name, statistic))


def _same_positions(compared: _Compared) -> list[Measured]:
    """D4 at the target positions where both kinds of sources have enough sentences to be shown."""
    losses, units, seen = compared.losses, subwords(compared.losses), _source_seen(compared.losses)

    def status(mask: np.ndarray) -> str:
        """The lower status of the two."""
        both = [units.chosen(mask & side).support.status for side in (seen, ~seen)]
        return min(both, key=("few", "pale", "decided").index)

    figures = []
    for each in merged_bins(losses.position, status):
        inside = (losses.position >= each.first) & (losses.position <= (each.last or 0))
        if status(inside) != "few":
            figures += compared.measured("D4: target position", each.label, source_contrast(units, seen, inside))
    return figures


def _ends(losses: Losses, compared: _Compared) -> list[Measured]:
    """The measures of the end symbol by sentence, for sources whose lengths training reaches and for longer sources."""
    seen, figures = losses.source_lengths <= longest_reached(losses.source_exposure), []
    for axis, name in END_AXES.items():
        known = np.isfinite(getattr(losses, name)).all(axis=0)
        for label, mask in (("source within", seen), ("source beyond", ~seen)):
            figures += compared.measured(axis, label, _by_sentence(losses, name, known & mask))
    return figures


def _shifted_ends(losses: Losses, compared: _Compared, shifted: Mapping[str, Losses]) -> list[Measured]:
    """The same without a shift and with each shift of the index, over the sentences that are defined in all cases."""
    figures, designs = [], {"none": losses, **shifted}
    for axis, name in END_AXES.items():
        known = np.logical_and.reduce([np.isfinite(getattr(each, name)).all(axis=0) for each in designs.values()])
        for label, each in designs.items() if shifted else ():
            figures += compared.measured(axis, f"shift {label}", _by_sentence(each, name, known))
    return figures


def _by_sentence(losses: Losses, name: str, chosen: np.ndarray) -> Statistic:
    """The mean of `ends` or `early_ends` over some sentences `[N]`."""
    values, count = getattr(losses, name), len(losses.documents)
    return mean(Units(values, np.ones(count, dtype=int), np.arange(count), losses.documents).chosen(chosen))


def _missing(designs: Mapping[str, Measured], defined: Mapping[str, float]) -> Iterator[str]:
    """Sentences about figures that could not be computed."""
    if D1 not in designs:
        yield "No subword of the test stands where fewer than 1 in 1,000 training pairs reach, so there is no D1."
    elif D5 not in designs:
        yield "The covariates cannot be told apart from the zone, so there is no D5."
    if D2 not in designs:
        yield "The sentence before was not swapped, so there is no D2."
    for name, share in defined.items():
        if share < 1:
            yield (
                f"{isolated(name)} has probabilities for {100 * share:.1f} % of the subwords; all systems are compared"
                " on those that every system has."
            )
