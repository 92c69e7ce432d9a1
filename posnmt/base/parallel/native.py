"""Work of native threads that nobody can stop: the end of a process must not free what such a thread still uses."""

from __future__ import annotations

from collections.abc import Callable

_ABANDONED: list[Callable[[], bool]] = []


def abandon(is_done: Callable[[], bool]) -> None:
    """Remember work that goes on although nobody waits for it; `is_done` says whether it has ended.

    Earlier work that has ended is forgotten, so that a server that runs for long holds none of it.
    """
    still_running()
    _ABANDONED.append(is_done)


def still_running() -> bool:
    """Whether some abandoned work has not ended. Then a process ends by `os._exit`, which frees nothing."""
    _ABANDONED[:] = [is_done for is_done in _ABANDONED if not is_done()]
    return bool(_ABANDONED)
