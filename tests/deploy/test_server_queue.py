"""The queue of the server: bounded, fair, and without lines of those who have gone."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time

import pytest

from posnmt.base.errors import UserError
from posnmt.config.schema import Decode
from posnmt.deploy.server.queue import Batch, Full, Job, Queue
from posnmt.deploy.server.worker import Worker
from posnmt.translate.requests import Search, numbered
from posnmt.translate.translations import Translation


def queue(limit=10_000, patience=30.0, batch=1000):
    return Queue(limit, patience, batch)


def job(lines, length=30, nbest=1, scored=False, **decode):
    return Job(numbered(["x" * length] * lines), Search(Decode(**decode), nbest, scored))


def asked(*lines):
    return Job(numbered(lines, "text"), Search(Decode()))


def taken(batch):
    return {each: len(numbers) for each, numbers in batch.parts.items()}


def test_half_of_a_batch_belongs_to_the_oldest_and_the_rest_is_shared():
    waiting, old, others = queue(), job(100), [job(3) for _ in range(5)]
    for each in (old, *others):
        waiting.add(each)
    batch = waiting.take()  # 20 lines of 50
    assert taken(batch) == {old: 11, **dict.fromkeys(others[:4], 2), others[4]: 1}
    assert [len(each.waiting) for each in (old, *others)] == [89, 1, 1, 1, 1, 2]


def test_the_lines_of_a_job_go_in_order_and_each_once():
    waiting, one, other = queue(), job(70), job(45)
    waiting.add(one)
    waiting.add(other)
    seen = {one: [], other: []}
    while waiting.jobs:
        batch = waiting.take()
        for each, numbers in batch.parts.items():
            seen[each] += numbers
        waiting.done(batch, 1.0)
    assert seen == {one: list(range(70)), other: list(range(45))}
    assert waiting.size == 0


def test_a_line_longer_than_a_batch_is_one_by_itself():
    waiting, long, short = queue(), job(2, length=3000), job(1)
    waiting.add(long)
    waiting.add(short)
    waiting.close()
    assert [taken(batch) for batch in iter(waiting.take, None)] == [{long: 1}, {long: 1}, {short: 1}]


def test_lines_that_are_searched_otherwise_are_not_in_one_batch():
    waiting, one, other = queue(), job(1, nbest=1), job(1, nbest=2)
    waiting.add(one)
    waiting.add(other)
    waiting.close()  # so that a third batch is None, and is not waited for
    assert [taken(batch) for batch in iter(waiting.take, None)] == [{one: 1}, {other: 1}]


def test_lines_with_the_same_patterns_are_in_one_batch():
    """Patterns are a list, which has no hash."""
    waiting, jobs = queue(), [job(1, protect=[pattern]) for pattern in ("a+", "a+", "b+")]
    for each in jobs:
        waiting.add(each)
    waiting.close()
    assert [taken(batch) for batch in iter(waiting.take, None)] == [{jobs[0]: 1, jobs[1]: 1}, {jobs[2]: 1}]


def test_a_short_request_does_not_wait_for_the_end_of_a_long_one_that_is_searched_otherwise():
    waiting, long, short = queue(), job(100, scored=True), job(1)
    waiting.add(long)
    waiting.add(short)
    assert [taken(waiting.take()) for _ in range(3)] == [{long: 20}, {short: 1}, {long: 20}]


def test_no_search_waits_longer_than_a_batch_of_each_other():
    waiting = queue(limit=100_000)
    for beam in (1, 2, 3):
        waiting.add(job(100, beam=beam))
    searches = []
    for _ in range(7):
        waiting.add(job(1))  # one that comes again and again
        searches.append(waiting.take().search.decode.beam)
    assert searches == [1, 2, 3, 4, 1, 2, 3]


def test_a_full_queue_refuses_and_takes_again_what_leaves():
    waiting = queue(limit=200)
    waiting.add(job(3))
    with pytest.raises(Full):
        waiting.add(job(2))
    waiting.add(job(1))
    assert waiting.size == 200
    waiting.done(waiting.take(), 1.0)
    assert waiting.size == 0
    waiting.add(job(10))  # whatever its size, a request is taken by an empty queue


def test_a_queue_that_is_slow_refuses_what_would_wait_too_long():
    waiting = queue(limit=100_000, patience=2.0, batch=1000)
    waiting.add(job(100))
    waiting.done(waiting.take(), 2.0)  # 500 characters a second: 4,500 more take 9 seconds
    with pytest.raises(Full) as full:
        waiting.add(job(1))
    assert full.value.seconds == 4.0  # no more than the time that anything accepted takes
    waiting.done(waiting.take(), 0.01)  # faster now
    waiting.add(job(1))


def test_a_slow_time_is_forgotten_when_little_is_asked():
    waiting = queue(limit=100_000, patience=2.0, batch=1000)
    waiting.add(job(40))
    waiting.done(waiting.take(), 1000.0)  # the machine slept: a character a second
    waiting.done(waiting.take(), 0.1)  # not full, and quick
    assert waiting.speed > 1000
    waiting.done(Batch(Search(Decode())), 1.0)  # not full, and slow
    assert waiting.speed > 1000


def test_lines_of_those_who_have_gone_leave_the_queue():
    waiting, gone, other = queue(), job(100), job(1)
    waiting.add(gone)
    waiting.add(other)
    batch = waiting.take()
    waiting.drop(gone)
    waiting.drop(gone)
    waiting.done(batch, 1.0)
    assert (waiting.size, waiting.jobs) == (0, 0)
    gone.future.cancel()
    gone.finish(batch.parts[gone], [None] * len(batch.parts[gone]))  # nobody waits


def test_a_closed_queue_is_emptied_first():
    waiting = queue()
    waiting.add(job(1))
    waiting.close()
    assert waiting.take() is not None
    assert waiting.take() is None


class Engine:
    """Translates by upper case, and fails for some lines."""

    def __init__(self):
        self.calls = []

    def translate(self, requests, search):
        lines = [each.line for each in requests]
        self.calls.append(lines)
        if "bad" in lines:
            raise UserError("cannot read", requests[lines.index("bad")].where)
        if "fault" in lines:
            raise ZeroDivisionError
        return [Translation(each, [each.line.upper()], [], [4]) for each in requests]


def test_a_line_that_fails_is_the_fault_of_its_request_alone(capfd):
    waiting, engine, seen = queue(), Engine(), []
    jobs = [asked("a", "b"), asked("c", "bad", "d"), asked("fault"), asked("e")]
    for each in jobs:
        waiting.add(each)
    waiting.close()
    worker = Worker("test", engine, waiting, lambda batch, seconds: seen.append(batch.count))
    worker.start()
    worker.join(30)
    assert [each.text for each in jobs[0].future.result(0)] == ["A", "B"]
    assert [each.text for each in jobs[3].future.result(0)] == ["E"]
    with pytest.raises(UserError, match=r"cannot read \(text:2\)"):
        jobs[1].future.result(0)
    with pytest.raises(ZeroDivisionError):
        jobs[2].future.result(0)
    assert "ZeroDivisionError" in capfd.readouterr().err
    assert (seen, waiting.size) == ([7], 0)
    assert engine.calls == [["a", "b", "c", "bad", "d", "fault", "e"], ["a", "b"], ["c", "bad", "d"], ["fault"], ["e"]]


def test_a_worker_goes_on_after_an_exit(monkeypatch):
    class Exits(Engine):
        def translate(self, requests, search):
            if requests[0].line == "exit":
                sys.exit(3)
            return super().translate(requests, search)

    monkeypatch.setattr(sys, "stderr", open(os.devnull))  # noqa: SIM115  a log that cannot be written
    waiting, jobs = queue(batch=20), [asked("exit"), asked("a")]
    for each in jobs:
        waiting.add(each)
    waiting.close()
    Worker("test", Exits(), waiting, lambda batch, seconds: None).run()
    with pytest.raises(RuntimeError, match="ended by SystemExit"):
        jobs[0].future.result(0)
    assert jobs[1].future.result(0)[0].text == "A"
    assert waiting.size == 0


def test_a_server_without_its_worker_ends():
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        waiting = queue()
        worker = Worker("test", Engine(), waiting, lambda batch, seconds: None)
        worker.start()
        ended = ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker.ident), ctypes.py_object(SystemExit))
        waiting.add(asked("a"))  # wakes the thread, which ends
        time.sleep(60)
        os._exit(10 + ended)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_a_line_that_fails_in_a_later_batch_is_named():
    waiting, late = queue(batch=100), asked(*["a"] * 10, "bad")
    waiting.add(late)
    waiting.close()
    Worker("test", Engine(), waiting, lambda batch, seconds: None).run()
    with pytest.raises(UserError, match=r"\(text:11\)"):
        late.future.result(0)


def test_a_worker_waits_for_lines():
    waiting, late = queue(), asked("a")
    worker = Worker("test", Engine(), waiting, lambda batch, seconds: None)
    worker.start()
    threading.Timer(0.1, waiting.add, [late]).start()
    assert late.future.result(30)[0].text == "A"
    waiting.close()
    worker.join(30)
    assert not worker.is_alive()


def test_a_request_without_lines_is_ready_at_once():
    empty = asked()
    queue().add(empty)
    assert empty.future.result(0) == []
