"""Fixtures that several files of tests share."""

import gc
import importlib
import os
import signal
from functools import cache

import pytest
import torch
from hypothesis import settings

from tests.support import triton_interpreter  # noqa: F401  before anything else imports Triton
from tests.support.fetch_server import serving
from tests.support.thinned import thin

# A background job ignores Ctrl-C, and one of nohup a closed terminal, and so would every process that a test starts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A test process has a million objects that stay, which a full collection looks at, and makes few cycles.
gc.set_threshold(20_000)

# What is written waits for the disk, so that a loss of power leaves it whole; no test loses power, and a training waits
# forty times.
os.fsync = lambda number: None

# Each training asks every installed package for callbacks for Lightning, which takes longer than a small update.
lightning = importlib.import_module("lightning_fabric.utilities.registry")  # which imports Triton
lightning.entry_points = cache(lightning.entry_points)

# Everybody's run has the same examples; those of `--hypothesis-profile search` are many, and others each time.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile("same")


FIRST = tuple(
    f"tests/{name}"
    for name in (
        "slow/",
        "system/",
        "training/test_sharding",
        "training/test_resume",
        "training/test_crash",
        "study/workflow/",
    )
)
"""Files that take longest: begun first, so that no process is left with one of them at the end."""


@pytest.hookimpl(tryfirst=True)  # before marks select
def pytest_collection_modifyitems(items):
    """Leave some cases to slow runs, and begin with the files of `FIRST`."""
    thin(items)
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Stores and corpora that tests cache are theirs alone: the user's may be of another posnmt."""
    os.environ["POSNMT_CACHE"] = str(tmp_path_factory.mktemp("cache"))


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
