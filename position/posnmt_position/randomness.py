"""The random number generator of a forward pass, for dropout and for schemes that randomise positions.

A batch on a CPU is computed in parts by several threads (`posnmt.training.gradients`). Each part has its own generator,
so that its random numbers do not depend on the timing of other threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_thread = threading.local()


def generator() -> torch.Generator | None:
    """The generator of this thread; None: the default generator of the device."""
    return getattr(_thread, "generator", None)


@contextmanager
def drawing_from(source: torch.Generator) -> Iterator[None]:
    """A context in which this thread draws from `source`."""
    before = generator()
    _thread.generator = source
    try:
        yield
    finally:
        _thread.generator = before
