"""Extract the statistics of all texts sentence by sentence, in slices, optionally with several processes.

A slice is counted for all systems together, so that its references are preprocessed only once. The preprocessed
references of a whole test set would take gigabytes.
"""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from multiprocessing import get_context

import numpy as np

from posnmt.base import plugins
from posnmt.base.errors import UserError
from posnmt.base.progress import Work
from posnmt.evaluation.analyse.positions import position_counts
from posnmt.metrics.bleu import bleu_words
from posnmt.metrics.metric import Counting, References, Texts
from posnmt.metrics.registry import metric

SLICE = 500


@dataclass(frozen=True)
class Counted:
    """The counts of all systems.

    Attributes:
        statistics: metric → for each system its additive statistics `[N, K]`.
        positions: for each system the result of `posnmt.evaluation.analyse.positions.position_counts`.
        signatures: metric → its signature.
    """

    statistics: dict[str, list[np.ndarray]]
    positions: list[np.ndarray]
    signatures: dict[str, str]


def count_all(
    references: References,
    outputs: Sequence[list[str]],
    metrics: Sequence[str],
    counting: Counting,
    processes: int = 1,
) -> Counted:
    """Count every metric and the positions for every system.

    Args:
        references: of N sentences.
        outputs: each system's N lines.
        metrics: names, see `posnmt.metrics.registry.metric`.
        counting: settings of the metrics; its tokeniser is also that of the positions.
        processes: number of processes; it does not change the counts.

    Raises:
        UserError: a metric or tokeniser is unknown or cannot be used.
    """
    total = len(references)
    signatures = {}
    for name in metrics:
        known = metric(name)
        with plugins.blaming("metric", name):
            signatures[name] = known.signature(counting)
    firsts = range(0, total, SLICE)
    jobs = (
        Texts([lines[first : first + SLICE] for lines in outputs], references[first : first + SLICE])
        for first in firsts
    )
    slices = []
    counted = _work(jobs, list(signatures), counting, min(processes, len(firsts)))
    with Work("measuring", "sentences", total) as work, closing(counted):
        for first, of_slice in zip(firsts, counted, strict=True):
            slices.append(of_slice)
            work.add(min(SLICE, total - first))
    *statistics, positions = (list(zip(*of_slices, strict=True)) for of_slices in zip(*slices, strict=True))
    return Counted(
        {
            metric: [np.concatenate(of_system) for of_system in of_systems]
            for metric, of_systems in zip(signatures, statistics, strict=True)
        },
        [np.sum(of_system, axis=0) for of_system in positions],
        signatures,
    )


def _work(
    jobs: Iterable[Texts], metrics: list[str], counting: Counting, processes: int
) -> Generator[list[list[np.ndarray]], None, None]:
    """The counts of each slice, in order."""
    work = jobs, repeat(metrics), repeat(counting)
    if processes <= 1:
        yield from map(_count_slice, *work)
        return
    # Spawn, not fork: a fork would copy locks that other threads of this process hold, and never release them.
    # Ctrl-C reaches all processes: this one cancels what the others have not begun, and they say nothing.
    ignore = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(processes, get_context("spawn"), ignore) as pool:
        try:
            yield from pool.map(_count_slice, *work)
        except BrokenProcessPool:
            todo = "it may have run out of memory: free some, or use --processes 1"
            raise UserError("a process of the analysis ended unexpectedly", None, todo) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _count_slice(texts: Texts, metrics: list[str], counting: Counting) -> list[list[np.ndarray]]:
    """For each metric, and then for the positions, the counts of every system in one slice."""
    matched = texts.matches(bleu_words(counting.bleu_tokenizer))
    return [*(_counts(name, texts, counting) for name in metrics), [position_counts(each) for each in matched]]


def _counts(name: str, texts: Texts, counting: Counting) -> list[np.ndarray]:
    """The counts of every system by one metric; those of a plug-in are checked.

    Raises:
        UserError: its code raised an exception, or returned something else.
    """
    known = metric(name)
    with plugins.blaming("metric", name):
        counts = known.count(texts, counting)
    if (part := plugins.origin("metric", name)) is not None:
        for each in counts:
            if each.ndim != 2 or len(each) != len(texts.references) or (each < 0).any() or (each % 1 != 0).any():
                what = f"the metric {name} counted {len(texts.references)} sentences as {each.dtype} of {each.shape}"
                todo = "its counter returns whole numbers of 0 or more: a row for each output"
                raise UserError(what, part.target, todo)
    return counts
