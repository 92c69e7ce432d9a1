"""Fixtures that several files of tests share."""

import pytest

import triton_interpreter  # noqa: F401  before any test imports Triton
from fetch_server import serving


@pytest.fixture
def server():
    """A web server on loopback that serves what a test gives it."""
    with serving() as one:
        yield one


@pytest.fixture
def said():
    """Collects what a function reports."""
    return []
