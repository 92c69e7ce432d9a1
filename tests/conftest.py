"""Fixtures that several files of tests share."""

import pytest
import torch
from hypothesis import settings

import triton_interpreter  # noqa: F401  before any test imports Triton
from fetch_server import serving

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


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
def said():
    """Collects what a function reports."""
    return []
