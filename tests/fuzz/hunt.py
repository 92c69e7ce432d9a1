"""Give a function many inputs, under limits of time and memory, and collect what it raises.

Inputs come in parts. A part depends on the seed and on its place alone, so that a hunt can be split and continued.
"""

from __future__ import annotations

import resource
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import posnmt

CHUNK = 500
"""The most inputs of a part."""
SECONDS = 60
"""The processor seconds that one input may take."""
WAITED = 600
"""The seconds that one input may take on a machine that does other things as well."""
GIGABYTES = 2
"""The address space that inputs may take beside what the process takes before them."""
OF_COMMANDS = 8
"""The same of a whole command, whose threads reserve far more of it than they use."""

Input = TypeVar("Input")


class TooLong(BaseException):
    """An input takes more than `SECONDS` or `WAITED`."""


class Elsewhere(Exception):
    """A fault in another process: its kind and place, and after a colon what it says."""


@contextmanager
def bounded_time() -> Iterator[None]:
    """Raise `TooLong` in the block after `SECONDS` of this process, or after `WAITED`."""

    def late(*_: object) -> None:
        raise TooLong

    timers = {signal.ITIMER_REAL: (signal.SIGALRM, WAITED), signal.ITIMER_PROF: (signal.SIGPROF, SECONDS)}
    before = {number: signal.signal(number, late) for number, _ in timers.values()}
    for timer, (_, seconds) in timers.items():
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for timer in timers:
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def bound_child() -> None:
    """From here on, this process has at most `SECONDS` of a processor and `OF_COMMANDS` gigabytes more."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    bound_memory(OF_COMMANDS)


def bound_memory(gigabytes: int = GIGABYTES) -> None:
    """From here on, this process gets a MemoryError where it would take more than so much more address space."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + gigabytes * 2**30, resource.RLIM_INFINITY))


def fault_of(attempt: Callable[[Input], None], given_input: Input) -> str | None:
    """What an input raises, with the innermost place in the package that it went through; None: nothing."""
    try:
        with bounded_time():
            attempt(given_input)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except Elsewhere as fault:
        return str(fault)
    except BaseException as error:
        package = str(Path(posnmt.__file__).parent)
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(package)]
        place = (
            f"{Path(frames[-1].filename).relative_to(package)}:{frames[-1].name}" if frames else "outside the package"
        )
        return f"{type(error).__name__} in {place}: {str(error)[:200]!r}"
    return None


def hunt(
    inputs: st.SearchStrategy[Input], attempt: Callable[[Input], None], number: int, start: int, count: int
) -> tuple[int, dict[str, Input]]:
    """Try the part of `count` inputs that begins at `start`, and keep one for each fault.

    Args:
        number: the seed; with `start` it determines the inputs.

    Returns:
        How many inputs were tried, and for each fault (the kind of error and its place) an input.
    """
    tried, found = 0, dict[str, Any]()

    @seed(f"{number} {start}")
    @settings(
        max_examples=count, phases=[Phase.generate], database=None, deadline=None,
        suppress_health_check=list(HealthCheck), report_multiple_bugs=False,
    )  # fmt: skip
    @given(inputs)
    def part(each: Any) -> None:
        nonlocal tried
        tried += 1
        what = fault_of(attempt, each)
        if what is not None:
            found.setdefault(what.partition(": ")[0], (what, each))

    part()
    return tried, dict(found.values())
