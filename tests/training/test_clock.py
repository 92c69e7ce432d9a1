"""A budget in minutes follows the clock: real trainings, in which a clock of the test gives each work its time."""

from __future__ import annotations

import json
import math
import random
import signal
from functools import partial
from types import SimpleNamespace

import pytest

from posnmt.base.interrupt import Interrupted, StopSignal
from posnmt.config.schema import Schedule, Train
from posnmt.run import defaults
from posnmt.run.resolve import load
from posnmt.run.run import checkpoints_in
from posnmt.training import build
from posnmt.training import train as loop
from posnmt.training.clock import LATEST, RECENT, Clock
from posnmt.training.progress import Progress
from posnmt.training.schedule import learning_rate
from posnmt.training.stop import why_stop
from tests.support import corpus

BUDGET = 120.0
"""Seconds."""

EVALUATION = 1.0

MACHINES = {
    "idle": lambda now: 1.0,
    "slower half-way": lambda now: 1.0 if now < BUDGET / 2 else 4.0,
    "faster half-way": lambda now: 4.0 if now < BUDGET / 2 else 1.0,
    "much faster half-way": lambda now: 12.0 if now < BUDGET / 2 else 0.7,
    "slower soon": lambda now: 1.0 if now < BUDGET / 15 else 3.0,
    "stalled at the start": lambda now: BUDGET / 4 if now < 1 else 1.0,
    "stalled half-way": lambda now: BUDGET / 4 if BUDGET / 2 < now < BUDGET / 2 + 2 else 1.0,
    "loaded now and then": lambda now: 3.0 if math.sin(now / 9) > 0.3 else 0.8,
}
"""Name -> the seconds of an update that starts at a time."""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A config whose schedule depends on its budget."""
    return corpus.make(
        tmp_path_factory.mktemp("clock"),
        pairs=120,
        model={"dropout": 0.0},
        train={"schedule": {}, "learning_rate": 1e-2, "average": 1, "log_every": 1, "batch": 120, "loggers": []},
    )


class Machine:
    """Its clock stands still but for updates and evaluations, which take as long as the test says.

    Attributes:
        now: seconds.
    """

    def __init__(self, monkeypatch, update):
        self.now = 0.0
        clock = SimpleNamespace(monotonic=lambda: self.now)
        real_update, real_measure = loop.update, loop.measure

        def timed_update(*arguments):
            self.now += update(self.now)
            return real_update(*arguments)

        def timed_measure(*arguments):
            self.now += EVALUATION
            return real_measure(*arguments)

        monkeypatch.setattr(build, "time", clock)
        monkeypatch.setattr(loop, "time", clock)
        monkeypatch.setattr(loop, "update", timed_update)
        monkeypatch.setattr(loop, "measure", timed_measure)


def in_minutes(path, *settings):
    clock = (f"train.minutes={BUDGET / 60}", "train.steps=null", "train.evaluate_every=null")
    return load(path, [*clock, *settings])


def metrics(run, kind):
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


@pytest.mark.parametrize("name", ["slower half-way", "faster half-way", "stalled at the start"])
def test_whatever_the_load_a_model_is_as_good_as_after_as_many_updates_without(name, path, tmp_path, monkeypatch):
    with monkeypatch.context() as timed:
        machine = Machine(timed, MACHINES[name])
        run = loop.train(in_minutes(path), tmp_path / "run")
    updates = run.record["steps"]
    assert BUDGET - EVALUATION <= machine.now <= BUDGET + MACHINES[name](BUDGET)

    schedule = f"{{warmup: {defaults.warmup(updates)}, cooldown: {defaults.cooldown(updates)}}}"
    counted = (f"train.steps={updates}", f"train.evaluate_every={updates}", f"train.schedule={schedule}")
    undisturbed = loop.train(load(path, counted), tmp_path / "undisturbed")
    with_load, without = (metrics(each, "dev")[-1]["perplexity"] for each in (run, undisturbed))
    assert math.log(with_load) == pytest.approx(math.log(without), rel=0.05)
    assert with_load < 1.05 * without
    assert with_load < 0.6 * metrics(run, "train")[0]["perplexity"]  # it has learned


def simulated(train, update, evaluation=EVALUATION, clock=None):
    """The rates and the progress of a run whose updates and evaluations take as long as the test says."""
    progress, rates = Progress(clock=clock or Clock()), []

    def evaluate():
        progress.seconds += evaluation
        progress.clock.add_evaluation(evaluation, progress.seconds)

    while not why_stop(train, progress, StopSignal()):
        share = progress.share(train, batches_in_epoch=100)
        progress.step += 1
        rates.append(learning_rate(progress.step, train, 256, share=share))
        seconds = update(progress.seconds)
        progress.seconds += seconds
        progress.clock.add_update(seconds)
        if progress.clock.is_due(train, progress.seconds):
            evaluate()
    evaluate()
    return rates, progress


def in_updates(updates):
    """The rates of a training of so many updates on a machine without load."""
    schedule = Schedule(warmup=defaults.warmup(updates), cooldown=defaults.cooldown(updates))
    train = Train(steps=updates, learning_rate=1.0, schedule=schedule)
    shares = [Progress(step=step).share(train, batches_in_epoch=100) for step in range(updates)]
    return [learning_rate(step + 1, train, 256, share=share) for step, share in enumerate(shares)]


@pytest.mark.parametrize("name", MACHINES)
def test_whatever_the_load_minutes_are_kept_and_the_rate_falls_at_their_end(name):
    train = Train(minutes=10 * BUDGET / 60, evaluate_every=None, learning_rate=1.0, average=1)
    rates, progress = simulated(train, lambda now: MACHINES[name](now / 10), 10 * EVALUATION)
    assert 10 * BUDGET - EVALUATION <= progress.seconds <= 10 * (BUDGET + EVALUATION)
    assert progress.clock.evaluating <= defaults.EVALUATING * 10 * BUDGET
    assert rates[-1] < 0.02 < 0.9 < max(rates)
    same = in_updates(len(rates))
    assert sum(rates) == pytest.approx(sum(same), rel=0.2)


def test_random_loads_keep_the_minutes_and_the_share_of_evaluations():
    chance = random.Random(7)
    for _ in range(100):
        minutes, average = chance.uniform(0.5, 90), chance.choice([1, 3])
        typical, evaluation = 60 * minutes / chance.uniform(60, 2000), chance.uniform(0.0, 0.02) * 60 * minutes
        train = Train(minutes=minutes, evaluate_every=None, learning_rate=1.0, average=average)
        slowest = 4 * typical
        either = partial(chance.choice, [typical, typical, slowest])
        _, progress = simulated(train, lambda now, each=either: each(), evaluation, Clock(evaluations=[evaluation]))
        at_the_end = evaluation * (average > 1)  # of the average, which `simulated` does not make
        assert progress.seconds + at_the_end <= 60 * minutes + slowest
        assert progress.seconds + at_the_end >= 60 * minutes - 1e-6
        assert progress.clock.evaluating + at_the_end <= 6 * minutes + 1e-6
        assert progress.clock.evaluating >= evaluation


def test_a_stall_or_a_measurement_under_load_costs_its_time_and_no_more():
    train = Train(minutes=BUDGET / 60, evaluate_every=None, learning_rate=1.0, average=1)
    idle, _ = simulated(train, MACHINES["idle"])
    stalled, _ = simulated(train, MACHINES["stalled at the start"])
    assert len(stalled) == pytest.approx(0.75 * len(idle), abs=2)
    longest = defaults.EVALUATING * BUDGET
    mistaken, _ = simulated(train, MACHINES["idle"], clock=Clock(evaluations=[longest]))
    assert len(idle) - len(mistaken) <= longest


def test_what_takes_long_once_does_not_decide():
    train = Train(minutes=10, evaluate_every=None, average=1)
    clock = Clock(updates=[1.0] * 9)
    assert clock.updates_left(train, 500.0) == 100
    clock.add_update(90.0)
    assert clock.updates_left(train, 590.0) == 10
    for _ in range(RECENT):
        clock.add_update(2.0)
    assert clock.updates_left(train, 590.0) == 5
    clock.evaluations = [3.0]
    assert clock.end(train) == 597.0
    clock.add_evaluation(90.0, 300.0)
    assert clock.end(train) == 540.0  # a tenth is kept at most
    clock.add_evaluation(5.0, 310.0)
    assert clock.end(train) == 595.0  # the shorter of two
    for _ in range(LATEST):
        clock.add_evaluation(4.0, 320.0)
    assert clock.end(train) == 596.0
    assert clock.end(Train(minutes=10, average=3)) == 592.0  # the average is evaluated too


def test_what_is_shown_as_left_is_what_is_left_of_the_minutes():
    """Also after a stall, when few updates are made and many are still to come."""
    progress = Progress(step=7, seconds=90.0, clock=Clock(updates=[0.5] * 7))
    share, line = progress.shown(Train(minutes=3), batches_in_epoch=100)
    assert share == 0.5
    assert line.endswith("  1 min 30 s left")
    assert progress.share(Train(minutes=3, evaluate_every=None), batches_in_epoch=100) == 7 / (7 + 90 / 0.5)


def test_a_run_that_is_stopped_and_goes_on_has_the_minutes_once(path, tmp_path, monkeypatch):
    def stopping(now):
        if now > BUDGET / 3:
            signal.raise_signal(signal.SIGINT)
        return 3.0

    config = in_minutes(path)
    with monkeypatch.context() as timed:
        machine = Machine(timed, stopping)
        with pytest.raises(Interrupted):
            loop.train(config, tmp_path / "run")
    kept = json.loads((checkpoints_in(tmp_path / "run" / "checkpoints")[-1] / "state.json").read_text())
    assert kept["seconds"] == machine.now
    assert kept["clock"]["updates"] == [3.0] * RECENT
    with monkeypatch.context() as timed:
        again = Machine(timed, lambda now: 1.0)
        run = loop.train(config, tmp_path / "run", resume=True)
    assert machine.now + again.now == pytest.approx(BUDGET, abs=2)
    assert run.record["steps"] > 2 * kept["step"]
    assert metrics(run, "train")[-1]["learning_rate"] < 0.1 * config.train.learning_rate
