"""Work in several processes: the same results in the same order, bounded, and an end whatever happens."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import count, islice

import pytest

from posnmt.base.errors import UserError
from posnmt.base.parallel.cores import cores
from posnmt.base.parallel.processes import ordered_map


def children() -> list[str]:
    found = subprocess.run(
        ["ps", "-o", "pid=,stat=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=True
    )
    return [line for line in found.stdout.splitlines() if "ps" not in line and "Z" not in line]


@pytest.mark.parametrize("alone", [0, 2, 100])
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_results_are_in_order(processes: int, alone: int) -> None:
    assert list(ordered_map(partial(pow, 3), range(20), processes, alone)) == [3**number for number in range(20)]


def test_others_do_the_work_and_are_gone_afterwards() -> None:
    before = children()
    with closing(ordered_map(eval, ["__import__('os').getpid()"] * 12, 2, alone=2)) as found:
        assert set(islice(found, 2)) == {os.getpid()}
        rest = set(found)
    assert os.getpid() not in rest
    assert len(rest) <= 2
    assert len(children()) == len(before)


def test_pieces_are_read_only_as_results_are_taken() -> None:
    read = []

    def pieces() -> Iterator[int]:
        for number in count():
            read.append(number)
            yield number

    with closing(ordered_map(abs, pieces(), 2, alone=0)) as found:
        assert list(islice(found, 10)) == list(range(10))
        assert len(read) <= 10 + 2 * 2 + 1


def test_a_killed_process_is_an_error_and_no_wait() -> None:
    with pytest.raises(UserError, match="a worker process ended unexpectedly: killed by signal 9"):
        list(ordered_map(eval, ["1", "__import__('os').kill(__import__('os').getpid(), 9)", "2", "3", "4"], 2, alone=0))
    with pytest.raises(UserError, match="exit status 7"):
        list(ordered_map(eval, ["__import__('os')._exit(7)"] * 5, 2, alone=0))


def test_a_fault_in_a_process_keeps_its_traceback() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)in a worker process.*ZeroDivisionError"):
        list(ordered_map(eval, ["1", "1/0", "2"], 2, alone=0))


def test_what_a_task_prints_is_not_taken_for_a_result() -> None:
    assert list(ordered_map(eval, ["print('loud') or 5"] * 3, 2, alone=0)) == [5] * 3


def test_an_interrupt_ends_the_processes() -> None:
    """As with Ctrl-C in a script without a guard around its main part."""
    script = (
        # a process inherits that Ctrl-C is ignored, as in a shell's background job
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from posnmt.base.parallel.processes import ordered_map\n"
        'piece = \'(__import__("time").sleep({}), __import__("os").getpid())[1]\'\n'
        "pieces = (piece.format(3600 * (number > 1)) for number in range(9))\n"
        "for pid in ordered_map(eval, pieces, 2, alone=0): print(pid, flush=True)"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert started.stdout is not None
    workers = [int(started.stdout.readline()) for _ in range(2)]
    started.send_signal(signal.SIGINT)
    assert started.wait(timeout=300) != 0
    assert gone(workers)


def gone(workers: list[int]) -> bool:
    """Whether the processes end within some minutes."""
    for _ in range(3000):
        if not any(os.path.exists(f"/proc/{pid}") for pid in workers):
            return True
        time.sleep(0.1)
    return False


def test_one_process_a_core_unless_fewer_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    available = len(os.sched_getaffinity(0))
    assert cores() == available
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert cores() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "4000")
    assert cores() == available
