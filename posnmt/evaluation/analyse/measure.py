"""Compute the measures of every system from counts, overall and by bin, with intervals and tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from posnmt.base.errors import UserError, raise_all
from posnmt.evaluation.analyse.additive import Additive, plain
from posnmt.evaluation.analyse.bins import Bin, TrainedLengths, bin_numbers, mark_of
from posnmt.evaluation.analyse.inputs import Text
from posnmt.evaluation.analyse.intervals import differences, percentile_interval, resampled_measures
from posnmt.evaluation.analyse.significance import CORRECTIONS, significance
from posnmt.evaluation.analyse.swap import swap_curves

FEWEST_SAMPLES = 40
"""With fewer, the bootstrap's smallest p, 2 / (1 + samples), is not below 0.05, and 2.5 % are less than one sample."""

MANY_SAMPLES = 100_000
"""More are not recommended, since memory grows with samples times outputs."""


@dataclass(frozen=True)
class Resampling:
    """Settings of intervals and significance tests.

    Attributes:
        samples: of bootstrap and randomisation, at least `FEWEST_SAMPLES`; 0: neither intervals nor significance tests.
        seed: of the samples.
        significance: whether to test every pair of systems.
        correction: for the number of pairs: `none`, `holm` or `bonferroni`; of a single pair all three are the same.

    Raises:
        UserError: there are too few samples, the seed is negative, or the correction is unknown; all at once.
    """

    samples: int = 10_000
    seed: int = 1
    significance: bool = True
    correction: str = "holm"

    def __post_init__(self) -> None:
        faults = []
        if 0 < self.samples < FEWEST_SAMPLES:
            what = f"{self.samples} samples are too few: from fewer than {FEWEST_SAMPLES}, no difference is significant"
            faults.append(UserError(what, "--samples", "10000 is the default; 0: neither intervals nor tests"))
        for option, value in (("samples", self.samples), ("seed", self.seed)):
            if value < 0:
                faults.append(UserError(f"a number of 0 or more is needed; got {value}", f"--{option}"))
        if self.correction not in CORRECTIONS:
            todo = f"choose from {', '.join(CORRECTIONS)}"
            faults.append(UserError(f"no correction is called {self.correction!r}", "--correction", todo))
        raise_all(faults)

    def warnings(self, outputs: int) -> list[str]:
        """Warnings about tests of some outputs: after the correction no difference may be significant."""
        pairs = outputs * (outputs - 1) // 2
        if (
            not (self.samples and self.significance)
            or self.correction == "none"
            or self.samples >= FEWEST_SAMPLES * pairs
        ):
            return []
        # The smallest p of the randomisation is half that of the bootstrap.
        test = "a resampling test" if 2 * self.samples < FEWEST_SAMPLES * pairs else "the paired bootstrap"
        needed = FEWEST_SAMPLES * pairs
        todo = f"choose --samples {needed} or more"
        if needed > MANY_SAMPLES:
            tested = (1 + math.isqrt(1 + 8 * (self.samples // FEWEST_SAMPLES))) // 2
            todo = (
                f"compare at most {tested:,} outputs at a time; --samples {needed} would be enough, and takes"
                f" {8 * needed * outputs / 2**30:.1f} GiB for each measure and bin"
            )
        return [
            f"{self.samples:,} samples are too few for {pairs:,} pairs of outputs: corrected for their number, no p of "
            f"{test} can be below 0.05; {todo}."
        ]


DEFAULT_RESAMPLING = Resampling()


def measure(
    texts: Sequence[Text],
    additive: Additive,
    source_lengths: np.ndarray,
    bins: list[Bin],
    trained: TrainedLengths,
    resampling: Resampling,
    groups: dict[str, list[int]],
) -> dict[str, Any]:
    """The parts of the results that come from the counts: `bins`, `systems`, `differences`, `significance`, `swap`.

    Args:
        texts: the outputs in the order of `additive`; those of swapped sources last.
        additive: their statistics, N sentences.
        source_lengths: `[N]` of the sentences, in the unit of the bins.
        bins: all bins.
        trained: the source lengths in training.
        resampling: settings of intervals and significance tests.
        groups: system → indices of its outputs, one for each seed.
    """
    systems = [text for text in texts if not text.share]
    numbers = bin_numbers(source_lengths, bins)
    parts = [additive.rows[numbers == number].sum(axis=0) for number in range(len(bins))]
    sums = np.stack([additive.rows.sum(axis=0), *parts])
    sizes = sums[:, 0, -3].astype(int).tolist()
    values = {name: plain(scores) for name, scores in additive.measure(sums).items()}
    ends: dict[str, Any] = {}
    tested, compared = None, None
    if resampling.samples:
        resampled = resampled_measures(additive, numbers, len(bins), resampling.samples, resampling.seed)
        ends = {name: _pairs(*percentile_interval(scores)) for name, scores in resampled.items()}
        compared = differences(additive.measure(sums), resampled, groups) if len(groups) > 1 else None
        if resampling.significance and len(systems) > 1:
            columns = {name: each for name, each in additive.columns.items() if name in additive.tested}
            of_systems = additive.of_outputs(len(systems), columns)
            tested = significance(of_systems, resampled, resampling.samples, resampling.seed, resampling.correction)
    return {
        "bins": [_bin(each, source_lengths[numbers == number], trained) for number, each in enumerate(bins)],
        "systems": [_system(text, row, sizes, values, ends) for row, text in enumerate(systems)],
        "differences": compared,
        "significance": tested,
        "swap": swap_curves([(text.system or "", text.share) for text in texts], values, ends) or None,
    }


def _bin(each: Bin, lengths: np.ndarray, trained: TrainedLengths) -> dict[str, Any]:
    """A bin of the results; `lengths` are those of its sentences."""
    ends = {"shortest": int(lengths.min()), "longest": int(lengths.max())} if len(lengths) else {}
    facts = {"label": each.label, **asdict(each), "n": len(lengths), "shortest": None, "longest": None, **ends}
    return {**facts, "training": mark_of(facts, trained)}


def _system(
    text: Text, row: int, sizes: list[int], values: dict[str, list[Any]], ends: dict[str, list[Any]]
) -> dict[str, Any]:
    """The measures and intervals of one system; sizes, values and ends are overall, then of each bin."""
    measured = [
        {"n": size, **{name: of_all[place][row] for name, of_all in values.items()}} for place, size in enumerate(sizes)
    ]
    intervals = [{name: of_all[place][row] for name, of_all in ends.items()} for place in range(len(sizes))]
    return {
        "name": text.system,
        "empty_lines": sum(not line.strip() for line in text.lines),
        "overall": measured[0],
        "bins": measured[1:],
        "intervals": {"overall": intervals[0], "bins": intervals[1:]} if ends else None,
    }


def _pairs(lows: np.ndarray, highs: np.ndarray) -> list[list[list[float] | None]]:
    """Combine two arrays `[1 + G, M]` into lists of [lower, upper]; None for NaN."""
    return [
        [None if low is None else [low, high] for low, high in zip(*of_place, strict=True)]
        for of_place in zip(plain(lows), plain(highs), strict=True)
    ]
