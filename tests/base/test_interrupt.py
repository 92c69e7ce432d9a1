"""Signals: the first is answered at once and recorded, the second interrupts; a wait for a library ends at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from posnmt.base.interrupt import ENDS, StopSignal, as_interruption
from posnmt.base.progress import waited_for


@pytest.mark.parametrize("number", [signal.SIGINT, *ENDS])
def test_the_first_signal_is_answered_and_the_second_interrupts(number: signal.Signals) -> None:
    """The answer comes from another thread, also while this one holds a lock that the answer needs."""
    answers, lock = [], threading.Lock()
    answered = threading.Event()

    def say(answer: str) -> None:
        with lock:
            answers.append((answer, threading.get_ident()))
        answered.set()

    before = signal.getsignal(number)
    state = "before"
    with StopSignal(lambda: state, say) as stop:
        assert not stop.heard
        with lock:
            os.kill(os.getpid(), number)
            assert stop.heard
            state = "after"
        assert answered.wait(10)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    [(answer, thread)] = answers
    assert answer == "before"
    assert thread != threading.get_ident()
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", ENDS)
def test_a_signal_that_ends_a_process_interrupts_it(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), as_interruption():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before == signal.SIG_DFL


@pytest.mark.parametrize("number", ENDS)
def test_a_signal_that_is_ignored_stays_so(number: signal.Signals) -> None:
    """As SIGHUP by `nohup`."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with as_interruption(), StopSignal() as stop:
            os.kill(os.getpid(), number)
        assert not stop.heard
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_ctrl_c_ends_the_wait_for_a_library_that_goes_on() -> None:
    begun, end = threading.Event(), threading.Event()

    def work() -> bool:
        begun.set()
        return end.wait(60)

    def interrupt() -> None:
        begun.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        waited_for("waiting", work)
    assert not end.is_set(), "the work was over"
    end.set()


def test_a_process_that_leaves_a_library_behind_ends_at_once() -> None:
    """Python cannot end around a thread that is in a library: it would wait for it, or crash."""
    program = (
        "import os, signal, sys, threading, time\n"
        "from posnmt.base.progress import waited_for\n"
        "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try: waited_for('waiting', lambda: time.sleep(60))\n"
        "except KeyboardInterrupt: print('left')\n"
        "sys.exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "left\n", "")


def test_the_wait_for_a_library_gives_its_result_or_its_exception() -> None:
    assert waited_for("waiting", lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        waited_for("waiting", lambda: 1 // 0)


@pytest.mark.parametrize("lost", [0, 3])
def test_an_interruption_in_a_callback_of_memory_management_is_raised_again(
    lost: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python drops what such a callback raises, and prints it; a signal just before a wait begins does not end it."""
    sent: list[int] = []

    def kill(thread: int, number: int) -> None:
        sent.append(number)
        if len(sent) > lost:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(signal, "pthread_kill", kill)

    class Dying:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    def work() -> None:
        with as_interruption():
            Dying()
            time.sleep(200)

    hook, handler = sys.unraisablehook, signal.getsignal(signal.SIGINT)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        work()
    assert time.monotonic() - began < 100, "the wait has ended"
    assert (sys.unraisablehook, signal.getsignal(signal.SIGINT)) == (hook, handler)
    assert capfd.readouterr().err == ""
