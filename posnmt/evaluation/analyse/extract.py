"""Extract the statistics of all texts sentence by sentence, in slices, optionally with several processes.

A slice is counted for all systems together, so that its references are preprocessed once. The preprocessed references
of a full test set would take gigabytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING

from posnmt.evaluation.analyse.positions import position_counts
from posnmt.metrics.ngrams import bleu_statistics, matches
from posnmt.metrics.registry import Scorer, bleu_words, filled, reference_counts
from posnmt.metrics.scores import BLEU_ORDER

if TYPE_CHECKING:
    import numpy as np

SLICE = 500
SECONDS_BETWEEN_LINES = 5
# The metrics, the tokeniser for BLEU, whether TER counts characters, all numbers of references of a sentence; and of a
# slice the first and further references, and each output text.
Job = tuple[tuple[str, ...], str, bool, set[int], list[str], list[list[str | None]], list[list[str]]]


@dataclass(frozen=True)
class Counted:
    """The counts of all systems.

    Attributes:
        statistics: metric → for each system its additive statistics `[N, K]`.
        positions: for each system the result of `posnmt.evaluation.analyse.positions.position_counts`.
        signatures: metric → its sacreBLEU signature.
    """

    statistics: dict[str, list[np.ndarray]]
    positions: list[np.ndarray]
    signatures: dict[str, str]


def count_all(
    references: list[str],
    further: Sequence[Sequence[str | None]],
    outputs: Sequence[list[str]],
    metrics: Sequence[str],
    bleu_tokenizer: str,
    ter_characters: bool = False,
    processes: int = 1,
    say: Callable[[str], None] = lambda message: None,
) -> Counted:
    """Count every metric and the positions for every system.

    Args:
        references, further: N first references, and R - 1 texts of further ones, as in `Scorer`.
        outputs: each system's N lines.
        metrics: from `posnmt.metrics.registry.METRICS`.
        bleu_tokenizer: sacreBLEU's tokeniser for BLEU and for the positions.
        ter_characters: whether TER counts characters.
        processes: number of processes; it does not change the counts.
        say: called with a progress line every few seconds.

    Raises:
        UserError: a metric or tokeniser is unknown or cannot be used.
    """
    import numpy as np

    total, counts = len(references), reference_counts(references, further)
    signatures = {
        metric: Scorer(metric, [""], bleu_tokenizer, counts=counts, ter_characters=ter_characters).signature
        for metric in metrics
    }
    firsts = range(0, total, SLICE)
    jobs = (
        (
            tuple(signatures),
            bleu_tokenizer,
            ter_characters,
            counts,
            references[first : first + SLICE],
            [list(lines[first : first + SLICE]) for lines in further],
            [lines[first : first + SLICE] for lines in outputs],
        )
        for first in firsts
    )
    slices = []
    reported_at = time.monotonic()
    for first, counted in zip(firsts, _work(jobs, min(processes, len(firsts))), strict=True):
        slices.append(counted)
        if time.monotonic() - reported_at > SECONDS_BETWEEN_LINES:
            reported_at = time.monotonic()
            say(f"counted {min(first + SLICE, total):,} of {total:,} sentences")
    *statistics, positions = (list(zip(*of_slices, strict=True)) for of_slices in zip(*slices, strict=True))
    return Counted(
        {
            metric: [np.concatenate(of_system) for of_system in of_systems]
            for metric, of_systems in zip(signatures, statistics, strict=True)
        },
        [np.sum(of_system, axis=0) for of_system in positions],
        signatures,
    )


def _work(jobs: Iterator[Job], processes: int) -> Iterator[list[list[np.ndarray]]]:
    """The results of the jobs, in order."""
    if processes <= 1:
        yield from map(_count_slice, jobs)
        return
    # Spawn, not fork: a fork would copy locks that other threads of this process hold, and never release them.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_count_slice, jobs)


def _count_slice(job: Job) -> list[list[np.ndarray]]:
    """For each metric, and then for the positions, the counts of every system in one slice."""
    metrics, bleu_tokenizer, ter_characters, counts, references, further, outputs = job
    words = bleu_words(bleu_tokenizer)
    of_systems, (first, *others) = (
        [[words(line) for line in lines] for lines in texts]
        for texts in (outputs, [references, *filled(references, further)])
    )
    matched = matches(of_systems, first, BLEU_ORDER, others)
    counted = [
        [bleu_statistics(each) for each in matched]
        if metric == "bleu"
        else Scorer(
            metric, references, bleu_tokenizer, further=further, counts=counts, ter_characters=ter_characters
        ).statistics_of(outputs)
        for metric in metrics
    ]
    return [*counted, [position_counts(each) for each in matched]]
