"""Where the random numbers of a forward pass come from: dropout, and schemes that move positions in training.

A batch on a CPU is computed in parts, each by a thread (`train/gradients.py`), and each part draws from a generator of
its own, so that what it draws does not hang on what the other threads do meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_thread = threading.local()


def generator() -> torch.Generator | None:
    """What this thread draws from; None is the default generator of the device."""
    return getattr(_thread, "generator", None)


@contextmanager
def drawing_from(source: torch.Generator) -> Iterator[None]:
    """This thread draws from `source` inside."""
    before = generator()
    _thread.generator = source
    try:
        yield
    finally:
        _thread.generator = before
