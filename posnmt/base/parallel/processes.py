"""Parallel processing of a stream in several processes, with results in order and bounded memory.

The processes are child programs that read pieces from a pipe and write results to another. They are not forked, because
the parent may have threads, and unlike those of `multiprocessing` they do not import the parent's main module, so a
script that prepares a corpus needs no `__main__` guard. They exit when their pipe closes, also if the parent is killed.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from queue import SimpleQueue
from typing import Any, TypeVar

from posnmt.base.errors import UserError

# Pieces that the calling process computes first: it finishes a few before another process would have started.
ALONE = 3

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def ordered_map(
    task: Callable[[Piece], Result], pieces: Iterable[Piece], processes: int, alone: int = ALONE
) -> Generator[Result, None, None]:
    """The results of `task` for each piece, in order; at most two pieces for each process are in progress.

    Args:
        task: picklable; its own state is separate in each process.
        pieces: picklable, as are the results; read in the calling thread.
        processes: number of processes to start; with one, the calling process does all the work.
        alone: number of pieces that the calling process computes before it starts others.

    Raises:
        UserError: a process ended unexpectedly.
    """
    pieces = iter(pieces)
    yield from map(task, pieces if processes < 2 else islice(pieces, alone))
    for first in pieces:  # pieces remain
        with contextlib.closing(_Processes(task, processes)) as started:
            yield from started.map(chain([first], pieces))


class _Processes:
    """Started processes, and a thread for each that passes pieces to it."""

    def __init__(self, task: Callable[[Any], Any], count: int) -> None:
        self._workers = [_Worker() for _ in range(count)]
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._threads = ThreadPoolExecutor(count, "prepare")
        self._task = pickle.dumps(task, pickle.HIGHEST_PROTOCOL)
        for worker in self._workers:
            self._idle.put(worker)

    def map(self, pieces: Iterable[Any]) -> Iterator[Any]:
        """The results of the pieces, in order."""
        under_way: deque[Future[Any]] = deque()
        for piece in pieces:
            if len(under_way) == 2 * len(self._workers):
                yield under_way.popleft().result()
            under_way.append(self._threads.submit(self._work, piece))
        while under_way:
            yield under_way.popleft().result()

    def _work(self, piece: Any) -> Any:
        worker = self._idle.get()
        try:
            return worker.work(self._task, piece)
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        for worker in self._workers:
            worker.end()
        self._threads.shutdown(cancel_futures=True)


class _Worker:
    """One child process and its two pipes."""

    def __init__(self) -> None:
        code = "import sys; sys.path[:] = sys.argv[1:]; from posnmt.base.parallel.processes import serve; serve()"
        # In a new session: only the parent receives Ctrl-C, and ends its children.
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, *(path or os.getcwd() for path in sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._has_task = False

    def work(self, task: bytes, piece: Any) -> Any:
        """The task's result for a piece."""
        sink, source = self._process.stdin, self._process.stdout
        assert sink is not None
        assert source is not None
        try:
            if not self._has_task:
                sink.write(task)
                self._has_task = True
            pickle.dump(piece, sink, pickle.HIGHEST_PROTOCOL)
            sink.flush()
            result, fault = pickle.load(source)
        except (OSError, EOFError, pickle.UnpicklingError):
            status = self._process.wait()
            how = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
            todo = "it may have run out of memory: free some, or use a single process with OMP_NUM_THREADS=1"
            raise UserError(f"a worker process ended unexpectedly: {how}", None, todo) from None
        if fault is not None:
            raise RuntimeError(f"in a worker process:\n{fault}")
        return result

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def serve() -> None:
    """The main loop of a child: read a task, then pieces, and write a result for each, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that a library cannot print between the results
    with contextlib.suppress(EOFError, BrokenPipeError):
        task = pickle.load(source)
        while True:
            piece = pickle.load(source)
            try:
                answer: tuple[Any, str | None] = (task(piece), None)
            except Exception:
                answer = (None, traceback.format_exc())
            pickle.dump(answer, sink, pickle.HIGHEST_PROTOCOL)
            sink.flush()
