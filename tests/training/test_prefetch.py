"""Batches of a thread are those of the plan, whatever happens to the run; and no thread outlives it."""

from __future__ import annotations

import re
import threading
from typing import ClassVar

import numpy as np
import pytest
import torch

from posnmt.base.interrupt import Interrupted
from posnmt.data.batch import BatchPlan, Cursor
from posnmt.run.resolve import load
from posnmt.training import build
from posnmt.training.build import Training
from posnmt.training.gradients import InParts
from posnmt.training.prefetch import AHEAD, Prefetch
from posnmt.training.train import train
from tests.support import corpus
from tests.support.training_case import StopAt, outcome


class Lengths:
    """A corpus of which only the lengths are known."""

    source_lengths = target_lengths = np.arange(1, 41, dtype=np.int32) % 7 + 1

    def pair(self, index):
        raise AssertionError(index)


def threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("batches")]


class Noted(BatchPlan):
    """A plan that notes which of its copies are asked in which threads."""

    asked: ClassVar[dict[str, set[int]]] = {}

    def take(self, cursor, count):
        self.asked.setdefault(threading.current_thread().name, set()).add(id(self))
        return super().take(cursor, count)


class Making:
    """Makes batches that are their numbers, and notes them and the threads that made them.

    Args:
        fault: the number of the batch, from 0, that cannot be made.
    """

    def __init__(self, fault=None):
        self.fault, self.made, self.threads = fault, [], []

    def __call__(self, numbers):
        self.made.append(numbers.tolist())
        self.threads.append(threading.current_thread().name)
        if len(self.made) - 1 == self.fault:
            raise OSError("the disk is gone")
        return numbers.tolist()


def prefetching(make, count=1, mine=slice(None)):
    Noted.asked.clear()
    plan = Noted(Lengths(), 24, "tokens", seed=3)
    return plan, Prefetch(plan, count, mine, make, torch.device("cpu"))


@pytest.mark.parametrize(("count", "mine"), [(1, slice(None)), (3, slice(None)), (4, slice(1, None, 2))])
def test_batches_are_those_of_the_plan_over_several_passes(count, mine):
    make = Making()
    plan, prefetch = prefetching(make, count, mine)
    cursor, updates = Cursor(), 3 * len(plan.epoch(0)) // count
    for _ in range(updates):
        batches, cursor = plan.take(cursor, count)
        assert prefetch.get(batches, cursor) == [numbers.tolist() for numbers in batches[mine]]
    prefetch.close()
    assert cursor.epoch >= 2
    assert set(make.threads[len(batches[mine]) :]) == {"batches_0"}, "all but the first are made in the thread"
    assert len(make.made) <= (updates + AHEAD) * len(batches[mine]), "none is made twice"
    assert not threads()
    assert len(Noted.asked) == 2
    assert not set.intersection(*Noted.asked.values()), "a plan remembers one pass, and no lock"


def test_after_a_jump_the_batches_are_those_that_were_asked_for():
    """As after a return to a checkpoint; and where the caller says of batches what does not follow them."""
    plan, prefetch = prefetching(Making())
    for cursor in (Cursor(0, 3), Cursor(0, 1), Cursor(2, 0), Cursor(0, 1), Cursor(0, 2), Cursor(0, 3)):
        batches, after = plan.take(cursor, 1)
        assert prefetch.get(batches, after) == [batches[0].tolist()]
    batches, _ = plan.take(Cursor(1, 1), 1)
    for _ in range(3):
        assert prefetch.get(batches, Cursor(0, 2)) == [batches[0].tolist()]
    prefetch.close()


def test_a_fault_in_the_thread_is_raised_where_its_batch_is_needed():
    plan, prefetch = prefetching(Making(fault=2))
    cursor = Cursor()
    for _ in range(2):
        batches, cursor = plan.take(cursor, 1)
        prefetch.get(batches, cursor)
    with pytest.raises(OSError, match="the disk is gone"):
        prefetch.get(*plan.take(cursor, 1))
    prefetch.close()
    assert not threads()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    settings = {"steps": 14, "evaluate_every": 5, "log_every": 2, "average": 2, "dev_bleu": False, "batch": 200}
    return corpus.make(tmp_path_factory.mktemp("corpus"), pairs=60, train=settings)


@pytest.fixture
def ahead(monkeypatch):
    """Training prepares work while the device computes, as on a GPU."""
    monkeypatch.setattr(build, "is_ahead", lambda device: True)


@pytest.fixture(scope="module")
def plain(path, tmp_path_factory):
    return outcome(train(load(path), tmp_path_factory.mktemp("plain") / "run").folder)


def test_a_training_that_is_ahead_is_the_same_training(path, plain, ahead, tmp_path):
    run = train(load(path), tmp_path / "run")
    assert [line["epoch"] for line in plain["metrics"] if line["kind"] == "train"][-1] >= 1
    assert outcome(run.folder) == plain
    assert not threads()


@pytest.mark.parametrize("step", [4, 5, 13])
def test_a_training_that_is_ahead_goes_on_after_a_stop(step, path, plain, ahead, tmp_path, monkeypatch):
    """The checkpoint has the cursor of the batch that was used, and every line of metrics up to it."""
    with monkeypatch.context() as patch:
        StopAt(step, patch)
        with pytest.raises(Interrupted, match=f"stopped after step {step}, state saved"):
            train(load(path), tmp_path / "run")
    assert not threads()
    train(load(path), tmp_path / "run", resume=True)
    again = outcome(tmp_path / "run")
    assert [line for line in again["metrics"] if line["kind"] == "train"] == [
        line for line in plain["metrics"] if line["kind"] == "train"
    ]
    assert again["weights"] == plain["weights"]


def test_a_pair_that_cannot_be_read_ends_the_training_and_its_thread(path, ahead, tmp_path, monkeypatch):
    asked, pairs = [], Training.pairs

    def broken(t, numbers):
        asked.append(threading.current_thread().name)
        if asked.count("batches_0") == 4:
            raise OSError(5, "Input/output error", "train.arrow")
        return pairs(t, numbers)

    monkeypatch.setattr(Training, "pairs", broken)
    with pytest.raises(Exception, match=r"Input/output error.*train.arrow"):
        train(load(path), tmp_path / "run")
    assert asked.count("batches_0") >= 4
    assert not threads()


@pytest.mark.parametrize("fault", [ValueError("broken"), KeyboardInterrupt()], ids=["error", "interrupt"])
@pytest.mark.parametrize("number", [1, 4], ids=["largest batch", "update"])
def test_a_fault_ends_every_thread(number, fault, path, ahead, tmp_path, monkeypatch):
    """Those that make batches, that compute and that write for loggers."""
    running, add, before = [], InParts.add, set(threading.enumerate())

    def broken(gradients, *operands, **named):
        sums = add(gradients, *operands, **named)
        running.append(ours(before))
        if len(running) == number:
            raise fault
        return sums

    monkeypatch.setattr(InParts, "add", broken)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    with pytest.raises(type(fault)):
        train(load(path), tmp_path / "run")
    assert running[-1] == ({"worker"} if number == 1 else {"batches", "logger", "worker"})
    assert not ours(before)


def ours(before):
    """The kinds of threads that a training has started since then and that run."""
    kinds = {re.split("[_ ]", thread.name)[0] for thread in set(threading.enumerate()) - before}
    return kinds & {"batches", "logger", "worker"}
