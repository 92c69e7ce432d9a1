"""Fixtures that several files of tests share."""

import signal

import pytest
import torch
from hypothesis import settings

import triton_interpreter  # noqa: F401  before any test imports Triton
from fetch_server import serving

# A shell's background job ignores Ctrl-C, and so would every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


FIRST = tuple(
    f"tests/{name}"
    for name in ("slow/", "system/", "train/test_sharding", "train/test_resume", "train/test_crash", "workflow/")
)
"""Files that take longest: begun first, so that no process is left with one of them at the end."""


def pytest_collection_modifyitems(items):
    """Begin with the files of `FIRST`."""
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))


@pytest.fixture(autouse=True)
def threads():
    """Each test begins with as many threads as PyTorch chose."""
    count = torch.get_num_threads()
    yield
    torch.set_num_threads(count)


@pytest.fixture
def server():
    """A web server on loopback that serves what a test gives it."""
    with serving() as one:
        yield one


@pytest.fixture
def messages():
    """Collects what a function reports."""
    return []
