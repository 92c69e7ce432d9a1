"""Cancellation: long work asks between its steps whether anybody still waits for its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Cancelled(Exception):
    """Nobody waits for the result of this work any more."""


def _never() -> bool:
    return False


_is_cancelled: ContextVar[Callable[[], bool]] = ContextVar("is_cancelled", default=_never)


@contextmanager
def cancelled_if(is_cancelled: Callable[[], bool]) -> Iterator[None]:
    """A block whose work ends by `Cancelled`, at its next step, once `is_cancelled` is true.

    `Workers.map` passes this on to its threads.
    """
    token = _is_cancelled.set(is_cancelled)
    try:
        yield
    finally:
        _is_cancelled.reset(token)


def can_be_cancelled() -> bool:
    """Whether this work is in a block of `cancelled_if`."""
    return _is_cancelled.get() is not _never


def check_cancelled() -> None:
    """Called by long work before each step.

    Raises:
        Cancelled: the work is in a block of `cancelled_if`, and nobody waits for it any more.
    """
    if _is_cancelled.get()():
        raise Cancelled
