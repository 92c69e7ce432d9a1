"""How many updates of several trainings fit into some hours, by the speeds of this machine."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from posnmt.base.parallel.cores import available_cores
from posnmt.run.defaults import evaluations
from posnmt.study.calibrate import measure
from posnmt.study.speed import Turns
from posnmt.study.workflow.executors import gpus

SHARE = 0.85
"""The part of the hours that is planned, since speeds were measured for seconds only."""
FORWARD = 1 / 3
"""The time of a forward, as a share of that of an update on as many tokens."""
SCORED = 4
"""Forwards of a likelihood on the target tokens of the test: alone, and after short and after long sentences."""
OTHERS = 240.0
"""Seconds of all other steps together: texts, subwords, analyses, the report."""


@dataclass(frozen=True)
class Amounts:
    """Numbers of subwords.

    Attributes:
        batch: of an update.
        dev: targets of the dev text.
        test_source, test_target: of the test.
        test_lines: its number of lines.
    """

    batch: int
    dev: int
    test_source: int
    test_target: int
    test_lines: int


@dataclass(frozen=True)
class Pace:
    """Seconds of the parts of a training of one system, on one core or one GPU.

    Attributes:
        update: one update.
        evaluating: all of its evaluations on dev.
        testing: translating the test, and scoring its references.
        line: translating one line of the test.
    """

    update: float
    evaluating: float
    testing: float
    line: float

    @classmethod
    def measured(cls, config: Mapping[str, Any], amounts: Amounts) -> Pace:
        """The pace of a configuration on this machine: see `posnmt.study.calibrate.measure`."""
        training, translating = (measure(config, trains=trains).seconds for trains in (True, False))
        update, forward = amounts.batch * training, FORWARD * training
        return cls(
            update,
            evaluations(None) * amounts.dev * forward,
            amounts.test_source * translating + SCORED * amounts.test_target * forward,
            translating * amounts.test_source / amounts.test_lines,
        )


class Hours(TypedDict):
    """The hours that a comparison takes on this machine.

    Attributes:
        training, testing, others: the parts.
        workers: trainings at a time.
    """

    training: float
    testing: float
    others: float
    workers: int


def total(parts: Hours) -> float:
    """Add up training, testing and the other parts, in hours."""
    return parts["training"] + parts["testing"] + parts["others"]


def workers() -> int:
    """The trainings that run at a time: one for each GPU, or for each core if there is none."""
    return len(gpus()) or available_cores()


def estimate(paces: Sequence[Pace], seeds: int, updates: int, at_once: int) -> Hours:
    """The hours of so many updates.

    Args:
        paces: of each system.
        seeds: trainings of each system.
        updates: of each training.
        at_once: see `workers`.
    """
    training = makespan([pace.evaluating + updates * pace.update for pace in paces] * seeds, at_once)
    testing = makespan([pace.testing for pace in paces] * seeds, at_once)
    turns = Turns.beside(updates)
    others = OTHERS + sum(turns.seconds(pace.update, pace.line) for pace in paces)
    return Hours(training=training / 3600, testing=testing / 3600, others=others / 3600, workers=at_once)


def makespan(seconds: Sequence[float], at_once: int) -> float:
    """The time until the last of some jobs ends, each of which begins as soon as one of the workers is free."""
    free = [0.0] * at_once
    for each in seconds:
        heapq.heapreplace(free, free[0] + each)
    return max(free)


def fitting(hours: Callable[[int], float], most: int, limit: float) -> int:
    """The largest number of updates, up to `most`, whose hours are within a limit; 0 if not even one is."""
    return bisect_right(range(1, most + 1), limit, key=hours)
